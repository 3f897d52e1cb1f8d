#!/usr/bin/env bash
# Unpacks the Debian source package of redis, whose Tcl suite upstream.sh runs, into compat/.build/redis and prints that path.
# Does nothing when it is there. Debian's own archive and keys are used: a private copy of the machine's list of sources, with
# source packages turned on, its own lists and cache; the machine's apt is not changed.
set -euo pipefail
cd "$(dirname "$0")"

version=7.0.15 # the answers that issue 4 counts are this version's
build=$PWD/.build
tree=$build/redis

if [ -x "$tree/runtest" ]; then
	echo "$tree"
	exit 0
fi

apt=$build/apt
rm -rf "$apt" "$tree" "$tree.new"
mkdir -p "$apt/sources.list.d" "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/source"

shopt -s nullglob
# The two forms of a list: paragraphs ("Types: deb") and lines ("deb http://... ..."). Only the distribution's own files are
# copied: others may be out of reach and have no redis.
for file in /etc/apt/sources.list.d/debian*.sources; do
	sed -E 's/^Types:.*/Types: deb-src/' "$file" >"$apt/sources.list.d/$(basename "$file")"
done
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian*.list; do
	[ -f "$file" ] || continue
	sed -nE 's/^deb(-src)?[[:space:]]/deb-src /p' "$file" | sort -u >"$apt/sources.list.d/$(basename "$file" .list).list"
done

options=(
	-o "Dir::Etc::sourcelist=/dev/null"
	-o "Dir::Etc::sourceparts=$apt/sources.list.d"
	-o "Dir::State::lists=$apt/lists"
	-o "Dir::Cache=$apt/cache"
	-o "APT::Sandbox::User=root"
	-o "Acquire::Retries=3"
)
log=$build/apt.log
if ! {
	apt-get "${options[@]}" -q update &&
		cd "$apt/source" &&
		found=$(apt-cache "${options[@]}" showsrc --only-source redis | sed -nE "s/^Version: (([0-9]+:)?$version-.*)/\1/p" | sort -V | tail -1) &&
		[ -n "$found" ] &&
		apt-get "${options[@]}" -q source --download-only "redis=$found" &&
		dpkg-source --no-check -x redis_*.dsc "$tree.new" # apt-get has verified the files against Debian's signature
} >"$log" 2>&1 </dev/null; then
	cat "$log" >&2
	echo "redis-source: no source package of redis $version from the machine's Debian sources" >&2
	exit 1
fi
mv "$tree.new" "$tree"
rm -rf "$apt"
echo "$tree"
