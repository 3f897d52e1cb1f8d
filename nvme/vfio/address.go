package vfio

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Address names a function of the PCI bus, and maybe a namespace of its controller.
type Address struct {
	PCI       string // as sysfs writes it: 0000:01:00.0
	Namespace uint32 // 0: not named
}

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// ParseAddress reads "0000:01:00.0" or "0000:01:00.0/2"; the domain may be left out if it is 0000. Nothing else gets through, so that
// an address can stand in a path.
func ParseAddress(s string) (Address, error) {
	pci, number, named := strings.Cut(strings.ToLower(s), "/")
	if strings.Count(pci, ":") == 1 {
		pci = "0000:" + pci
	}
	a := Address{PCI: pci}
	if !pciAddress.MatchString(pci) {
		return a, fmt.Errorf("%q is no PCI address such as 0000:01:00.0", s)
	}
	if named {
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || n == 0 || n == 1<<32-1 {
			return a, fmt.Errorf("%q: %q is no namespace number", s, number)
		}
		a.Namespace = uint32(n)
	}
	return a, nil
}

func (a Address) String() string {
	if a.Namespace == 0 {
		return a.PCI
	}
	return fmt.Sprintf("%s/%d", a.PCI, a.Namespace)
}
