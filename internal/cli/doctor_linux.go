package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe" // for the parameters of io_uring_setup

	"golang.org/x/sys/unix"

	"cvmstore/ioengine/aegis"
)

// machine looks at the kernel and the hardware.
func machine() []finding {
	return []finding{cipher(), ring(), hugePages(), memlock(), openFiles(), iommu(), vfioDevice(), snp(), sharedHeap(), clock()}
}

func cipher() finding {
	name := aegis.Implementation()
	return finding{"cipher", !strings.Contains(name, "generic"), "aegis: " + name, "The processor, or the hypervisor's choice of it, has no AES instructions: sealing is slow. Pass the host's processor through."}
}

func ring() finding {
	var p [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p[0])), 0)
	if errno != 0 {
		return finding{"io_uring", false, errno.Error(), "Set kernel.io_uring_disabled to 0, and allow io_uring_setup, io_uring_enter and io_uring_register in the service's system-call filter."}
	}
	_ = unix.Close(int(fd))
	return finding{"io_uring", true, "works", ""}
}

func number(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

func hugePages() finding {
	n, err := number("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	return finding{"huge pages", err == nil && n >= 64, fmt.Sprintf("%d free of 2 MiB", n), "Buffers for the device come from ordinary pages. For an NVMe controller of one's own: sysctl vm.nr_hugepages=256."}
}

func memlock() finding {
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r)
	return finding{"memlock", err == nil && r.Cur >= 64<<20, limit(r.Cur), "Registered buffers and pinned memory need more: LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited."}
}

func openFiles() finding {
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	return finding{"open files", err == nil && r.Cur >= 10032, limit(r.Cur), "maxclients is 10000: LimitNOFILE=65536 in the unit, or ulimit -n."}
}

func limit(n uint64) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

func iommu() finding {
	groups, _ := filepath.Glob("/sys/kernel/iommu_groups/*")
	return finding{"IOMMU", len(groups) > 0, fmt.Sprintf("%d groups", len(groups)), "Only for an NVMe controller of one's own: intel_iommu=on or amd_iommu=on for the kernel, or no-IOMMU mode of VFIO in a VM."}
}

func vfioDevice() finding {
	_, err := os.Stat("/dev/vfio/vfio")
	return finding{"vfio", err == nil, "/dev/vfio/vfio", "Only for an NVMe controller of one's own: modprobe vfio-pci."}
}

func snp() finding {
	for dev, name := range map[string]string{"/dev/sev-guest": "SEV-SNP guest", "/dev/tdx_guest": "TDX guest"} {
		if _, err := os.Stat(dev); err == nil {
			return finding{"confidential VM", true, name, ""}
		}
	}
	return finding{"confidential VM", false, "no /dev/sev-guest, no /dev/tdx_guest", "This machine's memory is not protected from its host. In such a VM: modprobe sev-guest."}
}

func sharedHeap() finding {
	_, err := os.Stat("/dev/dma_heap/system_cc_shared")
	return finding{"shared heap", err == nil, "/dev/dma_heap/system_cc_shared", "Only within an SNP or TDX guest with an NVMe controller of one's own: it needs a kernel with that heap."}
}

func clock() finding {
	b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	name := strings.TrimSpace(string(b))
	return finding{"clock", err == nil && (name == "tsc" || name == "kvm-clock" || name == "arch_sys_counter"), name, "Reading the clock costs a system call: choose tsc for the kernel (clocksource=tsc), in an SNP guest with SecureTSC."}
}
