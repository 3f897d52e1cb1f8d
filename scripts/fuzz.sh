#!/usr/bin/env bash
# Runs every fuzz target of the tree for a while each: scripts/fuzz.sh 10s
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
targets=$(grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's|/[^/]*_test.go:func | |' | sort -u)
[ -n "$targets" ] || { echo "fuzz: no targets found" >&2; exit 1; }

# The fuzzing engine sometimes fails with "context deadline exceeded" when its time is up, without a failing input. That says
# nothing about the code, so such a run is repeated.
fuzz() { # package name
	local out try
	for try in 1 2 3; do
		out=$(go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" 2>&1 </dev/null) && { tail -n 2 <<<"$out"; return; }
		grep -q 'context deadline exceeded' <<<"$out" && ! grep -q 'Failing input' <<<"$out" || break
	done
	printf '%s\n' "$out"
	return 1
}

while read -r package name; do
	echo "== $package $name"
	fuzz "$package" "$name"
done <<<"$targets"
