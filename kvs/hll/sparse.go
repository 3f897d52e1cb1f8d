package hll

// run is one run of registers of the sparse form, all of one value.
type run struct {
	value  byte
	length int
	size   int // bytes
}

// runAt reads the run at b[0].
func runAt(b []byte) (r run, ok bool) {
	switch c := b[0]; {
	case c&0x80 != 0:
		return run{c>>2&31 + 1, int(c&3) + 1, 1}, true
	case c&0x40 == 0:
		return run{0, int(c&63) + 1, 1}, true
	case len(b) < 2:
		return run{}, false
	default:
		return run{0, int(c&63)<<8 + int(b[1]) + 1, 2}, true
	}
}

// runs calls each for every run with the register at which it begins. They must cover all registers and no more.
func (h HLL) runs(each func(r run, first int)) error {
	first := 0
	for b := h[headerSize:]; len(b) > 0; {
		r, ok := runAt(b)
		if !ok || first+r.length > registers {
			return ErrCorrupt
		}
		each(r, first)
		first += r.length
		b = b[r.size:]
	}
	if first != registers {
		return ErrCorrupt
	}
	return nil
}

// appendZeros appends runs of n registers that are 0. A short run takes one byte.
func appendZeros(b []byte, n int) []byte {
	for n > 0 {
		l := min(n, xzeroMax)
		if l > zeroMax {
			b = append(b, 0x40|byte((l-1)>>8), byte(l-1))
		} else {
			b = append(b, byte(l-1))
		}
		n -= l
	}
	return b
}

// appendValues appends a run of n registers, at most valuesMax, with one value.
func appendValues(b []byte, value byte, n int) []byte {
	if n == 0 {
		return b
	}
	return append(b, 0x80|(value-1)<<2|byte(n-1))
}

// appendRun appends n registers of a run's value.
func appendRun(b []byte, value byte, n int) []byte {
	if value == 0 {
		return appendZeros(b, n)
	}
	return appendValues(b, value, n)
}

// raiseSparse splits the run that covers the register, and then joins what lies around it, exactly as far as Redis does.
func (h HLL) raiseSparse(index int, rank byte, sparseMax int) (HLL, bool, error) {
	if rank > valueMax {
		return h.raiseDense(index, rank)
	}
	prev, at, first := headerSize, headerSize, 0
	var r run
	for {
		if at >= len(h) {
			return h, false, ErrCorrupt
		}
		var ok bool
		if r, ok = runAt(h[at:]); !ok {
			return h, false, ErrCorrupt
		}
		if index < first+r.length {
			break
		}
		prev = at
		at += r.size
		first += r.length
	}
	if r.value >= rank {
		return h, false, nil
	}
	var room [8]byte
	parts := appendRun(room[:0], r.value, index-first)
	parts = appendValues(parts, rank, 1)
	parts = appendRun(parts, r.value, first+r.length-index-1)
	grown := len(parts) - r.size
	if grown > 0 && len(h)+grown > sparseMax {
		return h.raiseDense(index, rank)
	}
	rest := h[at+r.size:]
	out := make(HLL, 0, len(h)+grown+8)
	out = append(append(append(out, h[:at]...), parts...), rest...)
	out = out.join(prev)
	out.Stale()
	return out, true, nil
}

// joinSteps is how many runs from the one before the change on Redis looks at.
const joinSteps = 5

// join makes one run of two neighbours with the same value where that fits.
func (h HLL) join(at int) HLL {
	for step := 0; at < len(h) && step < joinSteps; step++ {
		r, ok := runAt(h[at:])
		if !ok {
			break
		}
		if r.value > 0 && at+1 < len(h) {
			if next, ok := runAt(h[at+1:]); ok && next.value == r.value && r.length+next.length <= valuesMax {
				appendValues(h[:at], r.value, r.length+next.length)
				h = append(h[:at+1], h[at+2:]...)
				continue
			}
		}
		at += r.size
	}
	return h
}

// Dense returns h in dense form.
func (h HLL) Dense() (HLL, error) {
	if !h.Sparse() {
		return h, nil
	}
	out := make(HLL, denseSize)
	copy(out, h[:headerSize])
	out[4] = encodingDense
	err := h.runs(func(r run, first int) {
		for i := first; i < first+r.length && r.value > 0; i++ {
			out.setRegister(i, r.value)
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (h HLL) raiseDense(index int, rank byte) (HLL, bool, error) {
	d, err := h.Dense()
	if err != nil {
		return h, false, err
	}
	return d.raise(index, rank, 0)
}

// Runs calls each for every run of the sparse form: the value (0: none), the number of registers, and whether a run of zeros
// is in the long form.
func (h HLL) Runs(each func(value byte, n int, long bool)) error {
	for b := h[headerSize:]; len(b) > 0; {
		r, ok := runAt(b)
		if !ok {
			return ErrCorrupt
		}
		each(r.value, r.length, r.size == 2)
		b = b[r.size:]
	}
	return nil
}
