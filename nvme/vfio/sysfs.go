package vfio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Host is the machine as its sysfs and procfs show it. Root is "/", but for tests.
type Host struct{ Root string }

// Controller is an NVMe controller on the PCI bus.
type Controller struct {
	Address string
	Vendor  string // as sysfs has it: 0x1b36
	Device  string
	Driver  string // empty: none
	Group   string // IOMMU group; empty: none
	Uses    []Use  // of its namespaces, while the kernel's driver has it
}

// Use is what a block device of a controller is used for.
type Use struct {
	Block string   // nvme0n1
	For   []string // mounted on /home, partition nvme0n1p1, ...; empty: nothing
}

const driverName = "vfio-pci"

// ErrInUse is wrapped when a controller's namespaces hold what somebody may still want.
var ErrInUse = errors.New("in use")

func (h Host) path(parts ...string) string {
	return filepath.Join(append([]string{h.Root}, parts...)...)
}

func (h Host) read(parts ...string) string {
	b, _ := os.ReadFile(h.path(parts...))
	return strings.TrimSpace(string(b))
}

// Controllers lists all NVMe controllers.
func (h Host) Controllers() ([]Controller, error) {
	entries, err := os.ReadDir(h.path("sys/bus/pci/devices"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // a machine without a PCI bus
	}
	if err != nil {
		return nil, err
	}
	var all []Controller
	for _, e := range entries {
		if pciAddress.MatchString(e.Name()) && h.read("sys/bus/pci/devices", e.Name(), "class") == fmt.Sprintf("%#06x", classNVMe) {
			all = append(all, h.controller(e.Name()))
		}
	}
	return all, nil
}

// Controller returns one of them.
func (h Host) Controller(a Address) (Controller, error) {
	all, err := h.Controllers()
	if err != nil {
		return Controller{}, err
	}
	for _, c := range all {
		if c.Address == a.PCI {
			return c, nil
		}
	}
	return Controller{}, fmt.Errorf("no NVMe controller at %s: cvmstore nvme list shows all", a.PCI)
}

func (h Host) controller(address string) Controller {
	dir := filepath.Join("sys/bus/pci/devices", address)
	c := Controller{Address: address, Vendor: h.read(dir, "vendor"), Device: h.read(dir, "device")}
	if link, err := os.Readlink(h.path(dir, "driver")); err == nil {
		c.Driver = filepath.Base(link)
	}
	if link, err := os.Readlink(h.path(dir, "iommu_group")); err == nil {
		c.Group = filepath.Base(link)
	}
	found, _ := filepath.Glob(h.path(dir, "nvme/nvme*/nvme*n*"))
	for _, p := range found {
		name := blockName(filepath.Base(p))
		if name != "" && !slices.ContainsFunc(c.Uses, func(u Use) bool { return u.Block == name }) {
			c.Uses = append(c.Uses, h.use(name))
		}
	}
	return c
}

var namespaceName = regexp.MustCompile(`^(nvme[0-9]+)(?:c[0-9]+)?(n[0-9]+)$`)

// blockName turns the name of a namespace into the block device's: with multipath the controller has nvme0c0n1, whose block device is
// nvme0n1. Other names are none.
func blockName(s string) string {
	m := namespaceName.FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// use finds out what a block device is used for: partitions, mounts, swap, and what is stacked on it (LVM, RAID, dm-crypt).
func (h Host) use(block string) Use {
	u := Use{Block: block}
	parts := []string{block}
	entries, _ := os.ReadDir(h.path("sys/class/block", block))
	for _, e := range entries {
		if _, err := os.Stat(h.path("sys/class/block", block, e.Name(), "partition")); err == nil {
			parts = append(parts, e.Name())
			u.For = append(u.For, "partition "+e.Name())
		}
	}
	mounts, swaps := h.read("proc/self/mountinfo"), h.read("proc/swaps")
	for _, part := range parts {
		dir := filepath.Join("sys/class/block", part)
		if part != block {
			dir = filepath.Join("sys/class/block", block, part)
		}
		number := h.read(dir, "dev")
		for line := range strings.Lines(mounts) {
			if f := strings.Fields(line); len(f) > 4 && number != "" && f[2] == number {
				u.For = append(u.For, part+" mounted on "+f[4])
			}
		}
		for line := range strings.Lines(swaps) {
			if f := strings.Fields(line); len(f) > 0 && f[0] == "/dev/"+part {
				u.For = append(u.For, part+" is swap")
			}
		}
		holders, _ := os.ReadDir(h.path(dir, "holders"))
		for _, x := range holders {
			u.For = append(u.For, part+" is held by "+x.Name())
		}
	}
	return u
}

// Bind gives a controller to vfio-pci. A namespace with partitions, or mounted, or otherwise in use is refused, unless its block device is
// named in over.
func (h Host) Bind(a Address, over []string) error {
	c, err := h.Controller(a)
	if err != nil {
		return err
	}
	if c.Driver == driverName {
		return nil
	}
	for _, u := range c.Uses {
		if len(u.For) > 0 && !slices.Contains(over, u.Block) {
			return fmt.Errorf("%s has %s: %s: %w. If that may be destroyed, name it: --over %s",
				a.PCI, u.Block, strings.Join(u.For, ", "), ErrInUse, u.Block)
		}
	}
	if _, err := os.Stat(h.path("sys/bus/pci/drivers", driverName)); err != nil {
		return fmt.Errorf("the kernel has no driver %s (modprobe %s): %w", driverName, driverName, err)
	}
	return h.change(a, c, driverName)
}

// Unbind gives a controller back to the kernel's own driver.
func (h Host) Unbind(a Address) error {
	c, err := h.Controller(a)
	if err != nil {
		return err
	}
	if c.Driver != "" && c.Driver != driverName {
		return nil
	}
	return h.change(a, c, "")
}

// change makes the kernel match a device anew. driver empty: whichever fits.
func (h Host) change(a Address, c Controller, driver string) error {
	dir := filepath.Join("sys/bus/pci/devices", a.PCI)
	if err := h.write(driver+"\n", dir, "driver_override"); err != nil {
		return err
	}
	if c.Driver != "" {
		if err := h.write(a.PCI, dir, "driver/unbind"); err != nil {
			return err
		}
	}
	return h.write(a.PCI, "sys/bus/pci/drivers_probe")
}

func (h Host) write(s string, parts ...string) error {
	f, err := os.OpenFile(h.path(parts...), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(s)
	return errors.Join(err, f.Close())
}
