#!/usr/bin/env bash
# Tests the server with redis-cli, and that redis-benchmark's tests of strings run to their end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
cleanup() {
	bash "$here/server.sh" kill "$work"
	rm -rf "$work"
}
trap cleanup EXIT
[ -n "${CVMSTORE:-}" ] || CVMSTORE=$(bash "$here/server.sh" build)
export CVMSTORE

n=0 total=0
is() { # WHAT GOT WANT
	n=$((n + 1))
	[ "$2" = "$3" ] || { printf 'redis-cli: %s: %q, want %q\n' "$1" "$2" "$3" >&2; exit 1; }
}
has() { # WHAT GOT WANT
	n=$((n + 1))
	grep -qF -- "$3" <<<"$2" || { printf 'redis-cli: %s: %.300q, want something with %q\n' "$1" "$2" "$3" >&2; exit 1; }
}
cli() { redis-cli -p "$port" "${login[@]}" "$@" 2>&1; }

variant() { # PROTOCOL LABEL DATABASE PASSWORD [FLAG...]
	local protocol=$1 label=$2 db=$3 password=$4 i out acked
	shift 4
	login=(-n "$db" "-$protocol" --no-auth-warning "$@")
	n=0
	bash "$here/server.sh" kill "$work"
	rm -rf "$work/data"
	local flags=()
	[ -z "$password" ] || flags=("--requirepass=$password")
	port=$(bash "$here/server.sh" start "$work" -1 ${flags[@]+"${flags[@]}"})

	is PING "$(cli ping)" PONG
	is "SET" "$(cli set greeting 'hello "world"')" OK
	is "GET" "$(cli get greeting)" 'hello "world"'
	is "GET of a missing key" "$(cli get missing)" ''
	is "GET, as on a terminal" "$(cli --no-raw get greeting)" '"hello \"world\""'
	is "a missing key, as on a terminal" "$(cli --no-raw get missing)" '(nil)'
	is "a value from a file" "$(head -c 100000 /dev/zero | cli -x set zeros)" OK
	is STRLEN "$(cli strlen zeros)" 100000
	is "SET EX" "$(cli set ttl 1 ex 1000)" OK
	is "TTL" "$(cli ttl ttl)" 1000
	is "SET NX" "$(cli set ttl 1 nx)" ''
	is INCR "$(cli -r 3 incr n)" $'1\n2\n3'
	is MSET "$(cli mset a 1 b 2)" OK
	is MGET "$(cli --csv mget a none b)" '"1",NULL,"2"'
	has "INCR of a text" "$(cli incr greeting)" 'ERR value is not an integer or out of range'
	has "an unknown command" "$(cli nosuch x)" "ERR unknown command 'nosuch', with args beginning with: 'x'"
	is EXISTS "$(cli exists a b none)" 2
	is COPY "$(cli copy a c)" 1
	is DUMP "$(cli -D '' dump a | head -c -10 | od -An -tx1 | tr -d ' \n')" 00c001
	is SETBIT "$(cli setbit bits 7 1)" 0
	is BITCOUNT "$(cli bitcount bits)" 1
	is DEL "$(cli del a b none)" 2
	out=$(for ((i = 0; i < 500; i++)); do echo "set scan:$i $i"; done | cli)
	is "500 commands on standard input" "$(sort <<<"$out" | uniq -c | tr -s ' ')" ' 500 OK'
	is "--scan" "$(cli --scan --pattern 'scan:*' | sort -u | wc -l)" 500
	has "--bigkeys" "$(cli --bigkeys)" 'Biggest string found'
	out=$(for ((i = 0; i < 20000; i++)); do printf '*3\r\n$3\r\nSET\r\n$6\r\np:%04d\r\n$1\r\nx\r\n' $((i % 10000)); done | cli --pipe)
	has "--pipe" "$out" 'errors: 0, replies: 20000'
	has "CLIENT INFO" "$(cli client info)" " db=$db "
	has "CLIENT INFO" "$(cli client info)" " resp=$protocol"
	has "CVM.STATUS" "$(cli cvm.status)" counter_fresh
	is "CVM.DURABILITY" "$(printf 'cvm.durability everysec\ncvm.durability\n' | cli)" $'OK\neverysec'
	is "CONFIG GET" "$(cli config get maxclients | tr '\n' ' ')" 'maxclients 10000 '
	has "INFO" "$(cli info server)" redis_version:
	has "COMMAND DOCS" "$(cli command docs get)" summary
	is "another database" "$(redis-cli -p "$port" "${login[@]}" -n 3 exists greeting)" 0
	has "a database out of range" "$(cli -n 99 ping)" 'ERR DB index is out of range'
	if [ -n "$password" ]; then
		has "no password" "$(redis-cli -p "$port" ping 2>&1)" 'NOAUTH Authentication required'
		has "a wrong password" "$(redis-cli -p "$port" -a wrong ping 2>&1)" 'WRONGPASS'
		is "REDISCLI_AUTH" "$(REDISCLI_AUTH=$password redis-cli -p "$port" ping)" PONG
	fi

	# A restart under a stream of commands: redis-cli reconnects by itself; what was answered with OK is there.
	(
		sleep 0.3
		bash "$here/server.sh" kill "$work"
		sleep 0.2
		bash "$here/server.sh" start "$work" "$port" ${flags[@]+"${flags[@]}"} >/dev/null
		touch "$work/back"
	) &
	rm -f "$work/back"
	out=$(i=0
		while [ ! -e "$work/back" ] || [ "${extra:=100}" -gt 0 ]; do
			[ ! -e "$work/back" ] || extra=$((extra - 1))
			echo "set crash:$i $i"
			i=$((i + 1))
			((i % 10)) || sleep 0.01
		done | cli)
	wait $!
	# One line an answer, or the refused connections in between; so count, do not match them up.
	acked=$(grep -c '^OK$' <<<"$out" || true)
	[ "$acked" -gt 100 ] || { echo "redis-cli: only $acked answers with a restart in between" >&2; exit 1; }
	has "the restart" "$out" 'Could not connect'
	# It forgets its database when it connects again, against redis-server too: count there as well.
	i=$({ cli --scan --pattern 'crash:*'; [ "$db" = 0 ] || cli -n 0 --scan --pattern 'crash:*'; } | sort -u | wc -l)
	[ "$i" -ge "$acked" ] || { echo "redis-cli: $acked writes acknowledged, $i are there" >&2; exit 1; }
	n=$((n + 2))
	has "CLIENT INFO after it" "$(cli client info)" " db=$db "
	[ $n -ge 30 ]
	total=$((total + n))
	echo "redis-cli $version, $label: $n assertions passed"
}

version=$(redis-cli --version | sed -E 's/redis-cli ([^ ]+).*/\1/')
variant 2 RESP2 0 ''
variant 2 "RESP2, password, database" 5 'open sesame' -a 'open sesame'
variant 3 RESP3 0 ''
variant 3 "RESP3, user, password, database" 5 pw --user default --pass pw
echo "redis-cli $version: $total assertions passed"

# The server of the last variant has a password.
for pipeline in 1 16; do
	started=$SECONDS
	out=$(redis-benchmark -p "$port" -a pw -q -n 20000 -P $pipeline -t ping,set,get,incr,mset 2>&1 | tr '\r' '\n')
	for test in PING_INLINE PING_MBULK SET GET INCR MSET; do
		grep -qE "^$test.*: [0-9.]+ requests per second" <<<"$out" || { printf 'redis-benchmark: no result for %s:\n%s\n' $test "$out" >&2; exit 1; }
	done
	if grep -iE 'error|warning: could not' <<<"$out" >&2; then exit 1; fi
	echo "redis-benchmark, pipelines of $pipeline: ran to its end in $((SECONDS - started)) s"
done
