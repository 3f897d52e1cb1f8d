#!/usr/bin/env bash
# Runs the NVMe driver in small QEMU guests (software emulation; no KVM needed) with QEMU's NVMe controller behind QEMU's
# IOMMU, bound to vfio-pci:
#
#   scripts/vfio.sh ci              the variants of CI, about four minutes on two cores
#   scripts/vfio.sh soak            these, and the rarer ones
#   scripts/vfio.sh NAME...         some of: blocks4096 blocks512 server unlimited twopairs amd errors race
#
# CVMSTORE_VFIO_DIR keeps kernels and images there, for the next time; otherwise all is gone afterwards. Fails if any variant
# fails, also by a DMA fault that a device was not told of.
set -euo pipefail
cd "$(dirname "$0")/.."
repo=$PWD
export DEBIAN_FRONTEND=noninteractive

cannot() {
	printf 'test-vfio: cannot run here: %s\n' "$1" >&2
	printf '%s\n' 'It needs Debian 12 or a relative of it on x86-64, and root or the packages qemu-system-x86, busybox-static and' \
		'cpio: they boot a Debian kernel in an emulator. Nothing else tests the driver against a real VFIO; the' \
		'driver against a controller that lies is tested by go test ./internal/hostile, everywhere.' >&2
	exit 1
}

[ "$(uname -sm)" = "Linux x86_64" ] || cannot "this is $(uname -sm)"
need=()
command -v qemu-system-x86_64 >/dev/null || need+=(qemu-system-x86)
command -v cpio >/dev/null || need+=(cpio)
[ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 || need+=(busybox-static)
command -v apt-get >/dev/null || cannot "there is no apt-get to get a kernel with"
if [ ${#need[@]} -gt 0 ]; then
	[ "$(id -u)" = 0 ] || cannot "not installed: ${need[*]}"
	{ apt-get update -q && apt-get install -y -q --no-install-recommends "${need[@]}"; } >/tmp/vfio-apt.$$ 2>&1 </dev/null ||
		{ cat /tmp/vfio-apt.$$ >&2; rm -f /tmp/vfio-apt.$$; cannot "could not install ${need[*]}"; }
	rm -f /tmp/vfio-apt.$$
fi

if [ -n "${CVMSTORE_VFIO_DIR:-}" ]; then
	work=$CVMSTORE_VFIO_DIR
	mkdir -p "$work"
else
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
fi

# kernel META: the kernel that a meta package depends on today (the name changes with each ABI), unpacked. Prints its directory.
kernel() {
	local meta=$1 dir=$work/$1 package
	if [ ! -d "$dir" ]; then
		package=$(apt-cache depends "$meta" | awk '/Depends: linux-image-[0-9]/{print $2; exit}')
		if [ -z "$package" ]; then
			apt-get update -q >/dev/null 2>&1 </dev/null || true
			package=$(apt-cache depends "$meta" | awk '/Depends: linux-image-[0-9]/{print $2; exit}')
		fi
		[ -n "$package" ] || cannot "no package that $meta depends on is known"
		mkdir -p "$dir.new"
		(cd "$dir.new" && apt-get download -q "$package" >/dev/null 2>&1 && dpkg-deb --fsys-tarfile "$package"_*.deb |
			tar -x --wildcards './boot/vmlinuz-*' './lib/modules/*.ko' && rm -f "$package"_*.deb) || cannot "could not download $package"
		mv "$dir.new" "$dir"
	fi
	echo "$dir"
}

# initramfs KERNELDIR OUT SCRIPT FILE...: busybox, the kernel's modules, files in /bin, and what the guest does.
initramfs() {
	local modules root=$work/root m f out=$2 script=$3
	modules=$(echo "$1"/lib/modules/*)/kernel
	shift 3
	rm -rf "$root"
	mkdir -p "$root"/{bin,dev,proc,sys,tmp,mod,lib64}
	cp /bin/busybox "$root/bin/busybox"
	for f in sh sleep mount insmod cat echo poweroff basename readlink dmesg grep cut ip tar dd sync; do ln -s busybox "$root/bin/$f"; done
	# In the order in which they depend on each other; what a kernel has built in, it has no module for.
	for m in irqbypass vfio vfio_virqfd vfio_iommu_type1 vfio-pci-core vfio-pci; do
		f=$(find "$modules" -name "$m.ko" 2>/dev/null | head -1)
		[ -z "$f" ] || { cp "$f" "$root/mod/"; echo "$m.ko" >>"$root/mod/order"; }
	done
	for f in "$@"; do
		cp "$f" "$root/bin/"
		# A binary of the race detector is not static.
		ldd "$f" 2>/dev/null | grep -oE '/[^ ]+' | while read -r m; do mkdir -p "$root$(dirname "$m")"; cp -n "$m" "$root$m"; done || true
	done
	cat >"$root/init" <<-I
		#!/bin/sh
		export PATH=/bin HOME=/tmp
		mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
		for m in \$(cat /mod/order); do insmod /mod/\$m || echo "[guest] insmod \$m failed"; done
		ip link set lo up
		echo 64 > /proc/sys/vm/nr_hugepages
		sleep 1
		bind() { # every controller whose serial number begins with "test", or that the kernel has no driver for
			devices=
			for d in /sys/bus/pci/devices/*; do
				[ "\$(cat \$d/class)" = 0x010802 ] || continue
				[ ! -e \$d/driver ] || grep -q '^test' \$d/nvme/nvme*/serial || continue
				b=\$(basename \$d)
				devices=\$devices\${devices:+,}\$b
				echo vfio-pci > \$d/driver_override; [ ! -e \$d/driver ] || echo \$b > \$d/driver/unbind; echo \$b > /sys/bus/pci/drivers_probe
				[ "\$(basename \$(readlink \$d/driver))" = vfio-pci ] || echo "[guest] \$b was not bound"
			done
		}
		run() { "\$@" || { echo "[guest] failed: \$*"; rc=1; }; }
		rc=0
		$script
		dmesg | grep -iE 'DMAR:.*fault|AMD-Vi:.*(fault|IO_PAGE_FAULT)' && rc=99
		echo "[guest] rc=\$rc after \$(cut -d' ' -f1 /proc/uptime) s"
		poweroff -f
	I
	chmod 755 "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet) >"$out"
}

# guest LIMIT LOG KERNELDIR INITRAMFS IOMMU QEMU-ARGUMENT...: boots, and is true if the guest's own result is 0 and nobody saw a fault.
# DMA to an address that nobody mapped is reported to the device as success, so the logs are what tells.
guest() {
	local limit=$1 log=$2 dir=$3 ird=$4 iommu=$5
	shift 5
	local command="console=ttyS0 panic=-1 quiet tsc=reliable clocksource=tsc"
	case $iommu in intel-iommu*) command="$command intel_iommu=on" ;; esac
	timeout -k 10 "$limit" qemu-system-x86_64 \
		-machine q35 -accel tcg,thread=multi -cpu max,-cx16 -smp 2 -m 1024 \
		-nodefaults -no-user-config -display none -no-reboot -monitor none -serial stdio -net none \
		-device "$iommu" "$@" -kernel "$dir"/boot/vmlinuz-* -initrd "$ird" -append "$command" \
		</dev/null >"$log" 2>"$log.qemu" || { echo "QEMU ended with $?"; }
	if grep -qE 'vtd_iommu_translate|vtd_.*fault|amdvi.*fault' "$log.qemu"; then
		echo "DMA to an address that is not mapped"
		return 1
	fi
	tr -d '\r' <"$log" | grep -aq '^\[guest\] rc=0 '
}

intel=intel-iommu,intremap=on,aw-bits=48

# disks NAME: image files of two namespaces: what devicetest wants, and room.
disks() {
	rm -f "$work/$1".ns1 "$work/$1".ns2
	truncate -s 4M "$work/$1.ns1"
	truncate -s 256M "$work/$1.ns2"
}

# controller NAME BLOCKSIZE [OPTION] [FILE2]: QEMU's arguments for one controller with two namespaces, in the array qemu.
controller() {
	local name=$1 lbs=$2 options=$3
	disks "$name"
	qemu+=(-device "nvme,id=$name,serial=test-$name,$options"
		-drive "file=$work/$name.ns1,if=none,id=$name-1,format=raw,cache=unsafe"
		-device "nvme-ns,bus=$name,drive=$name-1,nsid=1,logical_block_size=$lbs,physical_block_size=$lbs"
		-drive "file=${4:-$work/$name.ns2},if=none,id=$name-2,format=raw,cache=unsafe"
		-device "nvme-ns,bus=$name,drive=$name-2,nsid=2,logical_block_size=$lbs,physical_block_size=$lbs")
}

tests() { # where [-race]
	CGO_ENABLED=$([ $# -gt 1 ] && echo 1 || echo 0) go test -c ${2:-} -o "$work/$1" ./nvme/qemu
}

# driver NAME [FLAG...]: boots a guest that runs the package's tests on the controllers in the array qemu.
driver() {
	local name=$1 binary=${binary:-guest.test} meta=${meta:-linux-image-cloud-amd64} dir
	shift
	dir=$(kernel "$meta") || return 1
	initramfs "$dir" "$work/$name.cpio" "bind; run $binary -test.v -test.timeout 10m -test.run TestGuest -vfio.devices \$devices $*" "$work/$binary"
	guest 600 "$work/$name.log" "$dir" "$work/$name.cpio" "${iommu:-$intel}" "${qemu[@]}"
}

variant() {
	local qemu=()
	case $1 in
	blocks4096) # the usual controller; kill -9 in the middle of I/O
		controller a 4096 mdts=5
		driver "$1" ;;
	blocks512) # 512-byte blocks, one queue pair that all queues share, a CMB, two controllers
		controller a 512 mdts=7,max_ioqpairs=1,cmb_size_mb=4
		controller b 512 mdts=5,max_ioqpairs=1
		driver "$1" -vfio.lbs=512 -vfio.pairs=1 ;;
	unlimited) # no limit of a transfer
		controller a 4096 mdts=0
		driver "$1" ;;
	twopairs)
		controller a 4096 mdts=7,max_ioqpairs=2
		driver "$1" -vfio.pairs=2 ;;
	amd) # another IOMMU, which the cloud kernel has no driver for
		controller a 4096 mdts=5
		meta=linux-image-amd64 iommu=amd-iommu,intremap=on driver "$1" ;;
	errors) # the disk below the controller fails at one block
		printf '[inject-error]\nevent = "%s"\nerrno = "5"\nsector = "64000"\nonce = "off"\n' read_aio >"$work/blkdebug.conf"
		printf '[inject-error]\nevent = "%s"\nerrno = "5"\nsector = "64000"\nonce = "off"\n' write_aio >>"$work/blkdebug.conf"
		controller a 4096 mdts=5 "blkdebug:$work/blkdebug.conf:$work/a.ns2"
		driver "$1" -vfio.errors=8000 ;;
	race)
		tests guest-race.test -race
		controller a 4096 mdts=5
		binary=guest-race.test driver "$1" ;;
	server) server ;;
	*) echo "no such variant"; return 1 ;;
	esac
}

# The whole server on the device: write, kill -9, restart, verify, power off. Key and counter leave the guest on a second disk, which the
# kernel's driver has; then the image is opened here.
server() {
	local dir store=$work/store
	dir=$(kernel linux-image-cloud-amd64) || return 1
	rm -rf "$work"/server.img "$work"/out.img "$store"
	truncate -s 512M "$work/server.img"
	truncate -s 1M "$work/out.img"
	CGO_ENABLED=0 go build -trimpath -o "$work/cvmstore" .
	initramfs "$dir" "$work/server.cpio" "devices=0000:00:03.0
		run cvmstore nvme list
		run guest.test -test.v -test.timeout 8m -test.run TestServerInGuest -server.program /bin/cvmstore -server.dir /tmp/store -vfio.devices \$devices
		for n in /sys/class/nvme/nvme*; do if grep -q '^out' \$n/serial; then out=/dev/\$(basename \$n)n1; fi; done
		tar -c -C /tmp/store . | dd of=\$out bs=64k 2>/dev/null; sync" "$work/guest.test" "$work/cvmstore"
	guest 500 "$work/server.log" "$dir" "$work/server.cpio" "$intel" \
		-device nvme,serial=test-server,addr=3,drive=s,logical_block_size=4096,physical_block_size=4096,mdts=5 \
		-drive "file=$work/server.img,if=none,id=s,format=raw,cache=unsafe" \
		-device nvme,serial=out,addr=4,drive=o -drive "file=$work/out.img,if=none,id=o,format=raw,cache=unsafe" || return 1
	mkdir -p "$store"
	tar -x -C "$store" -f "$work/out.img" || return 1
	go test -count=1 -timeout 2m -run TestImageOnTheHost -v ./nvme/qemu -server.program "$work/cvmstore" -server.dir "$store" \
		-server.image "$work/server.img" >"$work/host.log" 2>&1 || { cat "$work/host.log"; return 1; }
	grep -a 'keys of the guest' "$work/host.log"
}

case ${1:-ci} in
ci) set -- blocks4096 blocks512 server ;;
soak) set -- blocks4096 blocks512 server unlimited twopairs amd errors race ;;
esac

start=$SECONDS
tests guest.test
failed=()
for v in "$@"; do
	at=$SECONDS
	if variant "$v"; then
		printf 'test-vfio: %-12s ok     %3d s  %s\n' "$v" $((SECONDS - at)) "$(tr -d '\r' <"$work/$v.log" | grep -ac '^ *--- PASS') tests"
	else
		failed+=("$v")
		printf 'test-vfio: %-12s FAILED %3d s\n' "$v" $((SECONDS - at))
		tr -d '\r' <"$work/$v.log" | tail -n 60
		tail -n 5 "$work/$v.log.qemu"
	fi
done
printf 'test-vfio: %d s altogether\n' $((SECONDS - start))
[ ${#failed[@]} -eq 0 ] || { printf 'test-vfio: failed: %s\n' "${failed[*]}"; exit 1; }
