#!/usr/bin/env bash
# Runs redis' own Tcl suite (external mode) against this server, a fresh one for every unit:
#
#   upstream.sh [UNIT...]            all units of upstream-units.txt, or these, without the tests of upstream-skips.txt
#   upstream.sh --no-skips [UNIT...] with the skipped ones: tells which of them pass by now
#   upstream.sh --redis [UNIT...]    against redis-server: where the numbers of upstream-units.txt come from
#
# Prints passed, failed and skipped beside what redis-server passes. Fails on any failed test that is not skipped, when a unit
# ends early, and when a line of upstream-skips.txt names no test that ran. Logs: compat/.build/upstream.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"

server=cvmstore skips=yes
while [[ ${1:-} == --* ]]; do
	case $1 in
	--redis) server=redis skips=no ;;
	--no-skips) skips=no ;;
	*) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
	esac
	shift
done

bash ./install.sh tcl dpkg-dev redis-tools
tree=$(bash ./redis-source.sh)
out=$here/.build/upstream
mkdir -p "$out"
work=$(mktemp -d)
redis_pid=
stop_server() {
	bash ./server.sh kill "$work/server"
	[ -z "$redis_pid" ] || { kill -9 "$redis_pid" && wait "$redis_pid"; } 2>/dev/null || true
	redis_pid=
}
cleanup() {
	stop_server
	rm -rf "$work"
}
trap cleanup EXIT
if [ $server = cvmstore ]; then
	[ -n "${CVMSTORE:-}" ] || CVMSTORE=$(bash ./server.sh build)
	export CVMSTORE
fi

# start_server: a fresh one; sets port. The suite needs no more than one, its own tests say so.
start_server() {
	rm -rf "$work/server"
	mkdir -p "$work/server"
	touch "$work/server/log"
	if [ $server = cvmstore ]; then
		port=$(bash ./server.sh start "$work/server" -1 --enable-debug-command=local)
		return
	fi
	for port in $(shuf -n 20 -i 20000-30000); do
		redis-server --port "$port" --bind 127.0.0.1 --dir "$work/server" --save '' --daemonize no >"$work/server/log" 2>&1 </dev/null &
		redis_pid=$!
		for ((i = 0; i < 250; i++)); do
			if grep -q 'Ready to accept connections' "$work/server/log"; then return; fi
			kill -0 "$redis_pid" 2>/dev/null || continue 2
			sleep 0.02
		done
	done
	echo "upstream.sh: redis-server does not start" >&2
	exit 1
}

# lines KIND FILE: the names behind "[KIND]: ", without the time that [ok] lines have.
lines() { sed -nE "s/^\[$1\]: //p" "$2" | sed -E 's/ \([0-9]+ ms\)$//'; }

failed_units=()
total=(0 0 0 0)
unit_run() {
	local unit=$1 want=$2 fewer=$3 started=$SECONDS log code=0 trouble=() passed failed skipped name
	log=$out/${unit//\//-}.log
	# name TAB reason, of this unit
	awk -v unit="$unit" '
		/^\[/ { here = ($0 == "[" unit "]"); next }
		here && !/^#/ && NF { i = index($0, "  ## "); print (i ? substr($0, 1, i - 1) : $0) }
	' upstream-skips.txt >"$work/listed"
	: >"$work/skip"
	[ $skips = no ] || cp "$work/listed" "$work/skip"
	start_server
	# The suite wants a port for itself, and does not look well whether it is free.
	for _ in 1 2 3 4 5; do
		code=0
		(cd "$tree" && TERM=dumb timeout -k 5 300 ./runtest --host 127.0.0.1 --port "$port" --singledb --ignore-encoding \
			--ignore-digest --durable --single "unit/$unit" --tags "-slow" --skipfile "$work/skip" \
			--baseport "$(shuf -n 1 -i 12000-28000)" --portcount 1000) >"$log" 2>&1 </dev/null || code=$?
		grep -q "^couldn't open socket: address already in use" "$log" || break
	done
	# A server that is gone is a failure of its own.
	if [ $server = cvmstore ] && ! redis-cli -p "$port" ping >/dev/null 2>&1; then
		trouble+=("the server is gone; its log: $out/${unit//\//-}.server")
		cp "$work/server/log" "$out/${unit//\//-}.server"
	fi
	stop_server
	passed=$(lines ok "$log" | wc -l)
	failed=$(lines '(err|exception)' "$log" | wc -l)
	skipped=$(lines skip "$log" | wc -l)
	[ "$code" != 124 ] || trouble+=("stopped after 300 s")
	grep -q "^\[1/1 done\]" "$log" || trouble+=("did not run to its end")
	lines '(err|exception)' "$log" | sed -E 's/ in tests\/[a-z0-9/_-]+\.tcl$//' >"$work/failed"
	if [ $skips = yes ]; then
		while IFS= read -r name; do
			lines skip "$log" | grep -qxF -- "$name" || trouble+=("upstream-skips.txt names a test that is not there: $name")
		done <"$work/skip"
		[ "$failed" = 0 ] || trouble+=("unexpected failures: $failed")
		# Whoever aborts a unit halfway loses tests without a failure.
		[ $((passed + failed + skipped)) -ge $((want - fewer)) ] || trouble+=("only $((passed + failed + skipped)) tests of $((want - fewer)): something ended it early")
	fi
	printf '%-18s %7d %7d %8d %7s %6d s\n' "$unit" "$passed" "$failed" "$skipped" "$want" $((SECONDS - started))
	sed 's/^/    failed: /' "$work/failed"
	if [ $skips = no ] && [ $server = cvmstore ]; then
		while IFS= read -r name; do
			! lines ok "$log" | grep -qxF -- "$name" || printf '    passes by now, skipped: %s\n' "$name"
		done <"$work/listed"
	fi
	for name in ${trouble[@]+"${trouble[@]}"}; do
		printf '    %s\n' "$name"
	done
	[ ${#trouble[@]} -eq 0 ] || failed_units+=("$unit")
	total=($((total[0] + passed)) $((total[1] + failed)) $((total[2] + skipped)) $((total[3] + want)))
}

printf '%-18s %7s %7s %8s %7s %8s\n' unit passed failed skipped redis time
while read -r unit want fewer; do
	[[ $unit != \#* && -n $unit ]] || continue
	if [ $# -eq 0 ] || [[ " $* " == *" $unit "* ]]; then
		unit_run "$unit" "$want" "${fewer:-0}"
	fi
done <upstream-units.txt
printf '%-18s %7d %7d %8d %7d %6d s\n' all "${total[@]}" "$SECONDS"

if [ ${#failed_units[@]} -gt 0 ]; then
	printf 'upstream.sh: failed: %s\n' "${failed_units[*]}" >&2
	exit 1
fi
