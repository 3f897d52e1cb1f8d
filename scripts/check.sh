#!/usr/bin/env bash
# Everything that must hold before a commit but the tests: format, vet, staticcheck, layering, other systems, go.mod.
# Prints each step's time; runs all of them, fails if any failed.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
step() {
	local name=$1 start=$SECONDS
	shift
	if "$@"; then
		printf 'check: %-28s ok    %3d s\n' "$name" $((SECONDS - start))
	else
		printf 'check: %-28s FAILED %2d s\n' "$name" $((SECONDS - start))
		failed+=("$name")
	fi
}

# The tools' versions are pinned in tools/go.mod, so that the module itself does not depend on them.
tool() { go tool -modfile=tools/go.mod "$@"; }

formatted() {
	local wrong
	wrong=$(tool gofumpt -l .) || return 1
	[ -z "$wrong" ] || { printf 'not formatted (run: make fmt):\n%s\n' "$wrong"; return 1; }
}

system() { # os arch
	GOOS=$1 GOARCH=$2 CGO_ENABLED=0 go build ./...
}

step "gofumpt" formatted
step "vet" go vet ./...
step "vet, portable code" go vet -tags purego ./...
step "staticcheck" tool staticcheck ./...
step "layering" go test -count=1 ./internal/layering
step "build linux/arm64" system linux arm64
step "build darwin/arm64" system darwin arm64
step "go.mod is tidy" go mod tidy -diff
step "tools/go.mod is tidy" go -C tools mod tidy -diff

[ ${#failed[@]} -eq 0 ] || { printf 'check: failed: %s\n' "${failed[*]}"; exit 1; }
