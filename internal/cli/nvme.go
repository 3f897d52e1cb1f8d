package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"cvmstore/nvme"
	"cvmstore/nvme/vfio"
)

// nvmeCommand is "cvmstore nvme".
type nvmeCommand struct {
	List        nvmeList     `cmd:"" help:"List the NVMe controllers of this machine, and what their disks are used for."`
	Bind        nvmeBind     `cmd:"" help:"Take a controller from the kernel's driver and give it to vfio-pci."`
	Unbind      nvmeUnbind   `cmd:"" help:"Give a controller back to the kernel's driver."`
	Identify    nvmeIdentify `cmd:"" help:"Show what a bound controller and its namespaces say of themselves."`
	FormatCheck nvmeFormat   `cmd:"" help:"Say whether a namespace of a bound controller can hold a volume, and what is on it now."`
}

// thisHost is the machine. Tests have their own.
var thisHost = vfio.Host{Root: "/"}

type nvmeList struct{}

// Run prints one line a controller, and one a disk that is in use.
func (nvmeList) Run(s *streams) error {
	all, err := thisHost.Controllers()
	if err != nil {
		return err
	}
	for _, c := range all {
		fmt.Fprintf(s.out, "%s  %s:%s  driver %s  IOMMU group %s\n", c.Address, c.Vendor, c.Device, orNone(c.Driver), orNone(c.Group))
		for _, u := range c.Uses {
			use := strings.Join(u.For, ", ")
			if use == "" {
				use = "no partitions, not mounted"
			}
			fmt.Fprintf(s.out, "    %s: %s\n", u.Block, use)
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(s.out, "no NVMe controllers")
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// nvmeAddress is the argument of the other commands.
type nvmeAddress struct {
	Address string `arg:"" placeholder:"ADDRESS" help:"PCI address: 0000:01:00.0; with /2 for namespace 2."`
}

func (n nvmeAddress) parse() (vfio.Address, error) {
	a, err := vfio.ParseAddress(strings.TrimPrefix(n.Address, vfioScheme))
	if err != nil {
		return a, usageError{err}
	}
	return a, nil
}

type nvmeBind struct {
	nvmeAddress
	Over []string `placeholder:"BLOCK" help:"Take it though this block device of it (nvme0n1) is in use: name each."`
}

// Run binds.
func (n *nvmeBind) Run(s *streams) error {
	a, err := n.parse()
	if err != nil {
		return err
	}
	if err := thisHost.Bind(a, n.Over); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s is bound to vfio-pci. Next: cvmstore nvme format-check %s\n", a.PCI, a.PCI)
	return err
}

type nvmeUnbind struct{ nvmeAddress }

// Run unbinds.
func (n *nvmeUnbind) Run(s *streams) error {
	a, err := n.parse()
	if err != nil {
		return err
	}
	if err := thisHost.Unbind(a); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s is given back\n", a.PCI)
	return err
}

// vfioFlags are how to reach a controller.
type vfioFlags struct {
	VfioNoIommu bool `help:"Allow a controller without an IOMMU."`
}

// inspect asks a controller.
func (f vfioFlags) inspect(a vfio.Address) (id nvme.Identity, all []nvme.Namespace, how string, err error) {
	function, err := vfio.Open(a, vfio.Options{NoIOMMU: f.VfioNoIommu})
	if err != nil {
		return id, nil, "", err
	}
	how = fmt.Sprintf("%s; memory for DMA: %s; lockable memory: %s", function.How(), function.DMA().Kind(), vfio.MemoryLimit())
	id, all, err = nvme.Inspect(function, function.DMA(), nvme.Options{})
	return id, all, how, errors.Join(err, function.Close())
}

type nvmeIdentify struct {
	nvmeAddress
	vfioFlags
}

// Run prints what the controller says. Its strings are escaped; nothing rests on them.
func (n *nvmeIdentify) Run(s *streams) error {
	a, err := n.parse()
	if err != nil {
		return err
	}
	id, all, how, err := n.inspect(a)
	if err != nil {
		return err
	}
	cache := "no volatile write cache (it is flushed all the same)"
	if id.WriteCache {
		cache = "volatile write cache"
	}
	fmt.Fprintf(s.out, "%s: \"%s\", serial \"%s\", firmware \"%s\", vendor %#04x, NVMe %s\n", a.PCI, id.Model, id.Serial, id.Firmware, id.Vendor, id.Version)
	fmt.Fprintf(s.out, "transfers of up to %d KiB, %s\n%s\n", id.TransferBlocks.Bytes()>>10, cache, how)
	for _, ns := range all {
		fmt.Fprintf(s.out, "namespace %d: %s\n", ns.Geometry.Namespace, suits(ns))
	}
	return nil
}

// suits says what a namespace is, or why it cannot be used.
func suits(ns nvme.Namespace) string {
	if ns.Err != nil {
		return "cannot be used: " + ns.Err.Error()
	}
	return fmt.Sprintf("%d blocks of 4096 bytes (%d MiB), formatted with %d", ns.Geometry.Blocks, ns.Geometry.Blocks>>8, ns.Geometry.LogicalBytes)
}

type nvmeFormat struct {
	nvmeAddress
	vfioFlags
}

// Run reads the front of each namespace that can be used, or of the one that was named. It writes nothing.
func (n *nvmeFormat) Run(s *streams) error {
	a, err := n.parse()
	if err != nil {
		return err
	}
	_, all, _, err := n.inspect(a)
	if err != nil {
		return err
	}
	usable := 0
	for _, ns := range all {
		if a.Namespace != 0 && ns.Geometry.Namespace != a.Namespace {
			continue
		}
		holds := ""
		if ns.Err == nil {
			usable++
			if holds, err = n.holds(vfio.Address{PCI: a.PCI, Namespace: ns.Geometry.Namespace}); err != nil {
				return err
			}
		}
		fmt.Fprintf(s.out, "namespace %d: %s%s\n", ns.Geometry.Namespace, suits(ns), holds)
	}
	if usable == 0 {
		return fmt.Errorf("%s: no namespace can hold a volume: format one with blocks of 4096 bytes and no metadata (nvme format --lbaf, in the kernel's driver)", a)
	}
	return nil
}

func (n *nvmeFormat) holds(a vfio.Address) (_ string, err error) {
	d, err := vfio.OpenDevice(a, vfio.Options{NoIOMMU: n.VfioNoIommu}, nvme.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	front, err := readFront(d)
	if err != nil {
		return "", err
	}
	switch {
	case len(bytes.Trim(front, "\x00")) == 0:
		return "; blank: ready for a new volume", nil
	case bytes.HasPrefix(front, []byte("CVMSTORE")) || len(front) > 4096 && bytes.HasPrefix(front[4096:], []byte("CVMSTORE")):
		return "; looks like a volume of cvmstore (only its key can tell)", nil
	}
	return "; holds other data: a new volume needs --format-over " + vfioScheme + a.String(), nil
}
