package hostile

// ConfigSpace returns PCI configuration space of an NVMe function, with a capability list as the attacks say.
func (c *Controller) ConfigSpace() *[256]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := new([256]byte)
	b[0x06] = 1 << 4
	b[0x0a], b[0x0b] = 0x08, 0x01
	b[0x09] = 0x02
	b[0x34] = 0x40
	b[0x40], b[0x41] = 0x01, 0x50 // power management
	b[0x50], b[0x51] = 0x10, 0x80 // PCI Express
	b[0x80], b[0x81] = 0x11, 0x00 // MSI-X, the last
	if c.makes(CapabilityLoop) {
		b[0x81] = 0x40
	}
	if c.makes(CapabilityOutside) {
		b[0x51] = 0x3c
	}
	return b
}
