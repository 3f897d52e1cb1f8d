package nvme

// doorbell is one doorbell register. On real hardware ringing it is one plain store.
type doorbell struct {
	reg *uint32
	bar Bar
	off int
}

// newDoorbell finds the doorbell of a queue (0: submission, 1: completion). Whoever made the pair has checked that it lies
// inside the BAR.
func newDoorbell(bar Bar, stride, id, which int) doorbell {
	d := doorbell{bar: bar, off: regDoorbells + (2*id+which)*stride}
	if m, ok := bar.(Mapped); ok {
		d.reg = m.Register(d.off)
	}
	return d
}

// ring stores a new tail or head. The entries before it must be visible first: see storeMMIO32.
func (d *doorbell) ring(v uint32) {
	if d.reg != nil {
		storeMMIO32(d.reg, v)
		return
	}
	d.bar.Write32(d.off, v)
}
