#!/usr/bin/env bash
# The one way in which everything here starts and kills a server:
#
#   server.sh build                      builds the program, prints its path
#   server.sh start DIR [PORT [FLAG...]] starts one on PORT (-1, the default: a free one) of the loopback interface with its data
#                                        in DIR/data, waits until it takes connections, prints its port, leaves it running
#   server.sh kill DIR                   kill -9, and waits until it is gone; nothing if none runs
#
# Its log is DIR/log. "kill", then "start" with the port of before, is a restart after a crash. CVMSTORE is the program to run;
# unset, it is built. Flags are those of "cvmstore serve".
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

build() {
	local program=$here/.build/cvmstore
	mkdir -p "$here/.build"
	(cd "$here/.." && go build -trimpath -o "$program" .)
	echo "$program"
}

# running PID DIR: that process is still this directory's server. A process that has ended but that nobody collected is gone.
running() {
	local state
	tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | grep -qxF "$2/data" || return 1
	state=$(sed -E 's/.*\) (.).*/\1/' "/proc/$1/stat" 2>/dev/null) && [ "$state" != Z ]
}

start() {
	local dir=$1 port=${2:--1} log from pid line
	shift
	[ $# -eq 0 ] || shift
	[ -n "${CVMSTORE:-}" ] || CVMSTORE=$(build)
	mkdir -p "$dir"
	log=$dir/log
	touch "$log"
	from=$(($(stat -c %s "$log") + 1)) # behind the log of an earlier life
	"$CVMSTORE" serve --port="$port" --dir "$dir/data" --log-format json "$@" >>"$log" 2>&1 </dev/null &
	pid=$!
	echo "$pid" >"$dir/pid"
	for ((i = 0; i < 3000; i++)); do
		if line=$(tail -c +"$from" "$log" | grep -F '"ready to accept connections"'); then
			sed -nE 's/.*"addr":"[^"]*:([0-9]+)".*/\1/p' <<<"$line"
			return
		fi
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.02
	done
	kill -9 "$pid" 2>/dev/null || true
	echo "server.sh: the server did not start:" >&2
	tail -c +"$from" "$log" >&2
	return 1
}

stop() {
	local dir=$1 pid
	pid=$(cat "$dir/pid" 2>/dev/null) || return 0
	rm -f "$dir/pid"
	running "$pid" "$dir" || return 0
	kill -9 "$pid" 2>/dev/null || true
	while running "$pid" "$dir"; do sleep 0.01; done
}

case ${1:-} in
build) build ;;
start) shift && start "$@" ;;
kill) stop "$2" ;;
*)
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
	exit 2
	;;
esac
