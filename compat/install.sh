#!/usr/bin/env bash
# install.sh PACKAGE...: installs these Debian packages if they are missing; as root, else it says what to do. Prints nothing when
# all are there.
set -euo pipefail

missing=()
for package in "$@"; do
	case $package in
	tcl) command -v tclsh >/dev/null || missing+=(tcl) ;;
	dpkg-dev) command -v dpkg-source >/dev/null || missing+=(dpkg-dev) ;;
	redis-tools) command -v redis-cli >/dev/null && command -v redis-benchmark >/dev/null || missing+=(redis-tools) ;;
	nodejs) command -v node >/dev/null || missing+=(nodejs) ;;
	npm) command -v npm >/dev/null || missing+=(npm) ;;
	python3-redis) /usr/bin/python3 -c 'import redis' 2>/dev/null || missing+=(python3-redis) ;;
	*) dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package") ;;
	esac
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "compat: missing: ${missing[*]}; as root on Debian they are installed, else install them" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { apt-get install -y -q --no-install-recommends "${missing[@]}"; }
if ! { apt-get update -q && install; } >"$log" 2>&1 </dev/null; then
	cat "$log" >&2
	echo "compat: could not install ${missing[*]}" >&2
	exit 1
fi
echo "compat: installed ${missing[*]}" >&2
