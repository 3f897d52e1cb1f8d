package vfio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cvmstore/ioengine/device"
)

// backend is one of the ways to the device.
type backend interface {
	name() string
	// spans are the device addresses that can be mapped; nil: not known. Without an IOMMU there is nothing to map.
	spans() ([]span, error)
	mapDMA(b []byte, iova uint64) error
	unmapDMA(n int, iova uint64) error
	translated() bool // an IOMMU stands between the device and memory
	close() error
}

// openBackend returns a way to the device and its descriptor.
func openBackend(a Address, allowNoIOMMU bool) (backend, int, error) {
	if b, fd, err := openIOMMUFD(a); !errors.Is(err, errNotThere) {
		return b, fd, err
	}
	return openGroup(a, allowNoIOMMU)
}

var errNotThere = errors.New("the kernel does not have it")

// Errors that say what to do.
var (
	ErrNotBound = errors.New("the device is not bound to vfio-pci: cvmstore nvme bind")
	ErrNoIOMMU  = errors.New("there is no IOMMU: the device could reach all memory of the guest. " +
		"If that is so anyway, because the host can, allow it with --vfio-no-iommu")
)

// group is a VFIO group in a container of its own, with an IOMMU of type 1 or none.
type group struct {
	container, fd int
	none          bool
}

func openGroup(a Address, allowNoIOMMU bool) (_ backend, _ int, err error) {
	link, err := os.Readlink(filepath.Join("/sys/bus/pci/devices", a.PCI, "iommu_group"))
	if err != nil {
		if _, statErr := os.Stat(filepath.Join("/sys/bus/pci/devices", a.PCI)); statErr != nil {
			return nil, 0, fmt.Errorf("no PCI device %s: %w", a.PCI, statErr)
		}
		return nil, 0, fmt.Errorf("%s is in no IOMMU group: %w", a.PCI, ErrNoIOMMU)
	}
	number := filepath.Base(link)
	g := &group{container: -1, fd: -1}
	defer func() {
		if err != nil {
			_ = g.close()
		}
	}()
	path := "/dev/vfio/" + number
	if g.fd, err = openPath(path); errors.Is(err, unix.ENOENT) {
		path = "/dev/vfio/noiommu-" + number
		if g.fd, err = openPath(path); err == nil {
			g.none = true
		}
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, 0, fmt.Errorf("open %s: %w", path, ErrNotBound)
	case errors.Is(err, unix.EBUSY):
		return nil, 0, fmt.Errorf("open %s: %w", path, device.ErrLocked)
	case err != nil:
		return nil, 0, fmt.Errorf("open %s: %w", path, err)
	case g.none && !allowNoIOMMU:
		return nil, 0, fmt.Errorf("%s: %w", path, ErrNoIOMMU)
	}
	if g.container, err = openPath("/dev/vfio/vfio"); err != nil {
		return nil, 0, fmt.Errorf("open /dev/vfio/vfio: %w", err)
	}
	if err = g.join(); err != nil {
		return nil, 0, err
	}
	fd, err := groupDevice(g.fd, a.PCI)
	if err != nil {
		return nil, 0, fmt.Errorf("get the device out of its group: %w", err)
	}
	return g, fd, nil
}

// join puts the group into the container and gives that an IOMMU.
func (g *group) join() error {
	if v, err := controlValue(g.container, vfioGetAPIVersion, 0); err != nil || v != apiVersion {
		return fmt.Errorf("VFIO of version %d: %w", v, errors.Join(err, errors.ErrUnsupported))
	}
	status := groupStatus{argsz: 8}
	if err := control(g.fd, vfioGroupGetStatus, &status); err != nil {
		return fmt.Errorf("status of the group: %w", err)
	}
	if status.flags&groupViable == 0 {
		return errors.New("another device of the same IOMMU group is bound to another driver than vfio-pci: bind or unbind it, too")
	}
	container := int32(g.container)
	if err := control(g.fd, vfioGroupSetContainer, &container); err != nil {
		return fmt.Errorf("put the group into a container: %w", err)
	}
	kinds := []uintptr{type1v2, type1IOMMU}
	if g.none {
		kinds = []uintptr{noIOMMU}
	}
	var all error
	for _, kind := range kinds {
		_, err := controlValue(g.container, vfioSetIOMMU, kind)
		if err == nil {
			return nil
		}
		all = errors.Join(all, fmt.Errorf("set IOMMU %d: %w", kind, err))
	}
	if errors.Is(all, unix.EPERM) {
		all = fmt.Errorf("%w (no interrupt remapping? In QEMU: intel-iommu,intremap=on)", all)
	}
	return all
}

func (g *group) name() string {
	if g.none {
		return "VFIO group without an IOMMU"
	}
	return "VFIO group, IOMMU of type 1"
}

func (g *group) translated() bool { return !g.none }

func (g *group) spans() ([]span, error) { return iovaSpans(g.container) }

func (g *group) mapDMA(b []byte, iova uint64) error {
	m := dmaMap{argsz: 32, flags: mapRead | mapWrite, vaddr: addressOf(b), iova: iova, size: uint64(len(b))}
	return explainMap(len(b), control(g.container, vfioIOMMUMapDMA, &m))
}

func (g *group) unmapDMA(n int, iova uint64) error {
	u := dmaUnmap{argsz: 24, iova: iova, size: uint64(n)}
	if err := control(g.container, vfioIOMMUUnmapDMA, &u); err != nil {
		return fmt.Errorf("unmap %d MiB: %w", n>>20, err)
	}
	return nil
}

func (g *group) close() error {
	var err error
	for _, fd := range []int{g.fd, g.container} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}

// explainMap says what the usual reason is.
func explainMap(n int, err error) error {
	if errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("map %d MiB for the device: %w: raise the limit of locked memory (ulimit -l, LimitMEMLOCK=)", n>>20, err)
	}
	if err != nil {
		return fmt.Errorf("map %d MiB for the device: %w", n>>20, err)
	}
	return nil
}

func openPath(path string) (int, error) {
	return retry(func() (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) })
}

// iommufd is the character device of VFIO, attached to an address space of an iommufd.
type iommufd struct {
	fd    int
	space uint32
}

// openIOMMUFD takes the way of Linux 6.6. errNotThere: the kernel or the device has none.
func openIOMMUFD(a Address) (_ backend, _ int, err error) {
	names, _ := filepath.Glob(filepath.Join("/sys/bus/pci/devices", a.PCI, "vfio-dev", "vfio*"))
	if len(names) != 1 {
		return nil, 0, errNotThere
	}
	b := &iommufd{}
	if b.fd, err = openPath("/dev/iommu"); err != nil {
		return nil, 0, errNotThere
	}
	path := "/dev/vfio/devices/" + strings.TrimSpace(filepath.Base(names[0]))
	fd, err := openPath(path)
	if err == nil {
		if err = b.attach(fd); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		_ = b.close()
		switch {
		case errors.Is(err, unix.ENOENT):
			return nil, 0, errNotThere
		case errors.Is(err, unix.EBUSY):
			return nil, 0, fmt.Errorf("%s: %w", path, device.ErrLocked)
		}
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return b, fd, nil
}

func (b *iommufd) attach(fd int) error {
	bind := deviceBind{argsz: 16, iommufd: int32(b.fd)}
	if err := control(fd, vfioDeviceBind, &bind); err != nil {
		return fmt.Errorf("bind to iommufd: %w", err)
	}
	alloc := ioasAlloc{size: 12}
	if err := control(b.fd, iommuIOASAlloc, &alloc); err != nil {
		return fmt.Errorf("make an address space: %w", err)
	}
	b.space = alloc.id
	attach := deviceAttach{argsz: 12, space: b.space}
	if err := control(fd, vfioDeviceAttach, &attach); err != nil {
		return fmt.Errorf("attach to an address space: %w", err)
	}
	return nil
}

func (b *iommufd) name() string { return "VFIO character device, iommufd" }

func (b *iommufd) translated() bool { return true }

func (b *iommufd) spans() ([]span, error) {
	rangesMutex.Lock()
	defer rangesMutex.Unlock()
	list := &rangesScratch
	r := ioasRanges{size: 32, id: b.space, count: rangesMax, ranges: addressOfWords(list)}
	if err := control(b.fd, iommuIOASRanges, &r); err != nil {
		return nil, fmt.Errorf("ask the address space: %w", err)
	}
	var all []span
	for i := range min(int(r.count), rangesMax) {
		all = append(all, span{list[2*i], list[2*i+1]})
	}
	return all, nil
}

func (b *iommufd) mapDMA(buf []byte, iova uint64) error {
	m := ioasMap{size: 40, flags: ioasFixed | ioasReadable | ioasWritable, id: b.space, vaddr: addressOf(buf), length: uint64(len(buf)), iova: iova}
	return explainMap(len(buf), control(b.fd, iommuIOASMap, &m))
}

func (b *iommufd) unmapDMA(n int, iova uint64) error {
	u := ioasUnmap{size: 24, id: b.space, iova: iova, length: uint64(n)}
	if err := control(b.fd, iommuIOASUnmap, &u); err != nil {
		return fmt.Errorf("unmap %d MiB: %w", n>>20, err)
	}
	return nil
}

func (b *iommufd) close() error { return unix.Close(b.fd) }
