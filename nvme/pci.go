package nvme

import (
	"errors"
	"fmt"
)

// ErrConfigSpace is wrapped when a capability list is not one.
var ErrConfigSpace = errors.New("bad PCI configuration space")

// Capability is an entry of a PCI function's capability list.
type Capability struct {
	ID     uint8
	Offset int
}

// Capabilities identifiers that somebody looks for.
const (
	CapabilityPower = 0x01
	CapabilityPCIe  = 0x10
)

// Fields of PCI configuration space (PCI Local Bus Specification 3.0, sections 6.1 and 6.7).
const (
	configBytes        = 256
	configStatus       = 0x06
	configPointer      = 0x34
	configHeader       = 0x40 // capabilities lie behind it
	statusCapabilities = 1 << 4
)

// Capabilities walks the list in a private copy of configuration space (row 33). Each entry has a place of its own, so the walk
// ends after at most 48 of them, whatever the pointers say.
func Capabilities(config *[configBytes]byte) ([]Capability, error) {
	if config[configStatus]&statusCapabilities == 0 {
		return nil, nil
	}
	var all []Capability
	var seen [configBytes / 4]bool
	for at := int(config[configPointer] &^ 3); at != 0; at = int(config[at+1] &^ 3) {
		if at < configHeader {
			return nil, fmt.Errorf("capability %d at %#x, inside the header: %w", len(all), at, ErrConfigSpace)
		}
		if seen[at/4] {
			return nil, fmt.Errorf("the list of capabilities comes back to %#x: %w", at, ErrConfigSpace)
		}
		seen[at/4] = true
		all = append(all, Capability{config[at], at})
	}
	return all, nil
}
