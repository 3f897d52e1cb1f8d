#!/usr/bin/env bash
# Builds a release:
#
#   release.sh binary OUT   the program, the same bit for bit from the same source and Go version, wherever it is built
#   release.sh check        two clean builds, in two directories, agree
#   release.sh deb          a Debian package in ./dist, with unit, manual page and completions; two builds of it agree too
#   release.sh sbom         ./dist/cvmstore.cdx.json: what the program is made of
set -euo pipefail
cd "$(dirname "$0")/.."
version=${VERSION:-$(sed -nE 's/^var Version = "(.*)"$/\1/p' internal/cli/version.go)}
arch=$(go env GOARCH)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

binary() { # SOURCE OUT
	(cd "$1" && CGO_ENABLED=0 GOFLAGS= go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X cvmstore/internal/cli.Version=$version" -o "$2" .)
}

work=
cleanup() { [ -z "$work" ] || rm -rf "$work"; }
trap cleanup EXIT

check() {
	work=$(mktemp -d)
	mkdir -p "$work/first" "$work/a/second/place"
	for to in first a/second/place; do
		git ls-files -z --cached --others --exclude-standard | tar --null -T - --ignore-failed-read -cf - 2>/dev/null | tar -xf - -C "$work/$to"
		GOCACHE=$work/cache-${to%%/*} binary "$work/$to" "$work/${to%%/*}.out"
	done
	sha256sum "$work/first.out" "$work/a.out" | sed "s#$work/##"
	cmp "$work/first.out" "$work/a.out"
	echo "two clean builds agree"
}

deb() {
	work=$(mktemp -d)
	local root=$work/root
	mkdir -p "$root/usr/bin" "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
		"$root/usr/share/fish/vendor_completions.d" "$root/lib/systemd/system" "$root/etc/cvmstore" "$root/usr/share/doc/cvmstore" "$root/DEBIAN" dist
	binary . "$root/usr/bin/cvmstore"
	"$root/usr/bin/cvmstore" man | gzip -9n >"$root/usr/share/man/man1/cvmstore.1.gz"
	"$root/usr/bin/cvmstore" completion bash >"$root/usr/share/bash-completion/completions/cvmstore"
	"$root/usr/bin/cvmstore" completion zsh >"$root/usr/share/zsh/vendor-completions/_cvmstore"
	"$root/usr/bin/cvmstore" completion fish >"$root/usr/share/fish/vendor_completions.d/cvmstore.fish"
	"$root/usr/bin/cvmstore" version --sbom >"$root/usr/share/doc/cvmstore/cvmstore.cdx.json"
	cp configs/cvmstore.service "$root/lib/systemd/system/"
	cp configs/cvmstore.toml "$root/etc/cvmstore/"
	cp LICENSE "$root/usr/share/doc/cvmstore/copyright"
	cp docs/*.md "$root/usr/share/doc/cvmstore/"
	echo /etc/cvmstore/cvmstore.toml >"$root/DEBIAN/conffiles"
	cat >"$root/DEBIAN/control" <<-END
		Package: cvmstore
		Version: $version
		Architecture: $arch
		Maintainer: cvmstore <cvmstore@localhost>
		Section: database
		Priority: optional
		Suggests: redis-tools
		Description: Redis-protocol server for confidential VMs
		 Data lies on storage that nobody trusts: sealed, authenticated, and as fresh as a trusted counter says.
	END
	printf '%s\n' '#!/bin/sh' 'set -e' 'if [ "$1" = configure ] && ! getent passwd cvmstore >/dev/null; then' \
		'	useradd --system --home-dir /var/lib/cvmstore --shell /usr/sbin/nologin --user-group cvmstore' 'fi' \
		'if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi' >"$root/DEBIAN/postinst"
	chmod 755 "$root/DEBIAN/postinst"
	find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zxz --build "$root" "dist/cvmstore_${version}_$arch.deb"
}

case ${1:-} in
binary) binary . "$(realpath -m "$2")" ;;
check) check ;;
deb) deb ;;
sbom)
	mkdir -p dist
	work=$(mktemp -d)
	binary . "$work/cvmstore"
	"$work/cvmstore" version --sbom >dist/cvmstore.cdx.json
	echo dist/cvmstore.cdx.json
	;;
*) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
esac
