#!/usr/bin/env bash
# Installs what the tests, the race detector and the benchmarks need beyond Go: redis-cli, redis-server, a C compiler; with the
# argument bench also what the evaluation compares with: fio, gocryptfs; with browser also chromium, for the status page.
# Does nothing and prints nothing when all is there. Needs Debian or a relative of it, and root; otherwise it says what is
# missing and goes on: the tests that need it are skipped then.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v go >/dev/null; then
	echo "setup: Go is missing: install it (see go.mod for the version) and put it on the PATH" >&2
	exit 1
fi

packages=()
command -v redis-cli >/dev/null || packages+=(redis-tools)
command -v gcc >/dev/null || packages+=(gcc libc6-dev)
if [ "${1:-}" = bench ]; then
	command -v fio >/dev/null || packages+=(fio)
	command -v gocryptfs >/dev/null || packages+=(gocryptfs)
	command -v fusermount >/dev/null || packages+=(fuse)
fi

if [ ${#packages[@]} -gt 0 ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "setup: missing and not installed (that takes root and apt-get): ${packages[*]}" >&2
		exit 0
	fi
	export DEBIAN_FRONTEND=noninteractive
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	install() { apt-get install -y -q --no-install-recommends "${packages[@]}"; }
	# The lists of packages on a new machine are missing or old.
	if ! { apt-get update -q && install; } >"$log" 2>&1 </dev/null; then
		cat "$log" >&2
		echo "setup: could not install ${packages[*]}" >&2
		exit 1
	fi
	echo "setup: installed ${packages[*]}"
fi

# The status page is looked at in a browser. It is large, so where it cannot be had its test is skipped, and this says so.
if [ "${1:-}" = browser ] && ! command -v chromium >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get install -y -q --no-install-recommends chromium >/dev/null 2>&1 </dev/null; then
		echo "setup: installed chromium"
	else
		echo "setup: no chromium: the status page's test in a browser will be skipped" >&2
	fi
fi

# Debian's redis-server package would start a server on port 6379, now and at every boot. The program itself is in redis-tools:
# it decides by its name what it is. So a link named redis-server in bin, which the Makefile puts on the PATH, is all it takes.
if ! command -v redis-server >/dev/null && [ -x /usr/bin/redis-check-rdb ]; then
	mkdir -p bin
	ln -sf /usr/bin/redis-check-rdb bin/redis-server
fi
