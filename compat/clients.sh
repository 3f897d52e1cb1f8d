#!/usr/bin/env bash
# Tests the server with other people's clients: clients.sh [redis-cli|go|python|node]... ; all of them without arguments.
# On Debian, as root, it installs what is missing. Fails if any failed; runs all nevertheless.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
CVMSTORE=${CVMSTORE:-$(bash ./server.sh build)}
export CVMSTORE

redis_cli() {
	bash ./install.sh redis-tools && bash ./redis-cli.sh
}

go_clients() {
	go test -count=1 -v ./... >.build/go.log 2>&1 || { cat .build/go.log; return 1; }
	# "=== NAME  TestGoRedis/resp2" or "=== CONT  ...", then what that one prints.
	awk '/^=== (NAME|CONT)/ { name = $3 } / assertions$/ { print name ": " $(NF - 1) " assertions passed" }' .build/go.log
}

python() {
	# Debian's package is for Debian's Python.
	bash ./install.sh python3-redis && /usr/bin/python3 -B ./redis_py.py
}

node_clients() {
	bash ./install.sh nodejs npm || return 1
	if [ ! -d node/node_modules ] || ! cmp -s node/package-lock.json .build/node-lock; then
		(cd node && npm ci --no-audit --no-fund --ignore-scripts >../.build/npm.log 2>&1) || { cat .build/npm.log; return 1; }
		cp node/package-lock.json .build/node-lock
	fi
	# Today's clients need Node 20, Debian 12 has 18: that one runs the versions before them.
	local names=(ioredis:ioredis-5 node-redis:redis-5)
	if [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ]; then
		names+=(ioredis:ioredis node-redis:redis)
	else
		echo "node $(node --version): the clients that need Node 20 are left out"
	fi
	local bad=0 name
	for name in "${names[@]}"; do
		node "node/${name%:*}.js" "${name#*:}" || bad=1
	done
	return $bad
}

[ $# -gt 0 ] || set -- redis-cli go python node
failed=()
for client in "$@"; do
	started=$SECONDS
	case $client in
	redis-cli) run=redis_cli ;;
	go) run=go_clients ;;
	python) run=python ;;
	node) run=node_clients ;;
	*) echo "clients.sh: no client $client" >&2 && exit 2 ;;
	esac
	if "$run"; then
		echo "clients: $client: ok after $((SECONDS - started)) s"
	else
		echo "clients: $client: FAILED after $((SECONDS - started)) s"
		failed+=("$client")
	fi
done
if [ ${#failed[@]} -gt 0 ]; then
	echo "clients.sh: failed: ${failed[*]}" >&2
	exit 1
fi
