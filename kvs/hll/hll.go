// Package hll holds HyperLogLogs in the bytes that Redis gives them: a string that begins with "HYLL". So they travel by GET,
// SET, DUMP and RESTORE between the two. It keeps nothing and knows no keys.
//
//	offset  bytes
//	0       4      "HYLL"
//	4       1      encoding: 0 dense, 1 sparse
//	5       3      0
//	8       8      cached cardinality, little endian; the top bit says that it is out of date
//	16      12288  dense: 16384 registers of 6 bits, the lowest bits of a byte first
//	        ...    sparse: runs that cover 16384 registers in order:
//	                 00llllll           l+1 registers that are 0
//	                 01llllll llllllll  l+1 registers that are 0
//	                 1vvvvvll           l+1 registers that are v+1
//
// The bytes come from clients, who may write any: every function checks what it reads.
package hll

import (
	"encoding/binary"
	"math"
	"math/bits"
)

const (
	indexBits = 14
	registers = 1 << indexBits
	rankMax   = 64 - indexBits // the longest run of zeros that is counted, but one

	headerSize = 16
	denseSize  = headerSize + registers*6/8

	encodingDense  = 0
	encodingSparse = 1

	zeroMax   = 64
	xzeroMax  = 1 << 14
	valueMax  = 32 // of a register in sparse form
	valuesMax = 4  // registers in one run of a value

	staleBit = 0x80 // in the last byte of the cached cardinality
)

// textError is an error whose text is Redis' reply.
type textError string

func (e textError) Error() string { return string(e) }

const (
	// ErrNotHLL: a string that is no HyperLogLog.
	ErrNotHLL = textError("WRONGTYPE Key is not a valid HyperLogLog string value.")
	// ErrCorrupt: it says that it is one, but its registers are not right.
	ErrCorrupt = textError("INVALIDOBJ Corrupted HLL object detected")
)

// HLL is the bytes of one HyperLogLog. Add and Merge change them, and may return others.
type HLL []byte

// New returns an empty one, in sparse form.
func New() HLL {
	h := make(HLL, headerSize, 64)
	copy(h, "HYLL")
	h[4] = encodingSparse
	return appendZeros(h, registers)
}

// Check reports whether b is a HyperLogLog, as far as the header tells.
func Check(b []byte) (HLL, error) {
	if len(b) < headerSize || string(b[:4]) != "HYLL" || b[4] > encodingSparse || b[4] == encodingDense && len(b) != denseSize {
		return nil, ErrNotHLL
	}
	return b, nil
}

// Sparse reports which form it has.
func (h HLL) Sparse() bool { return h[4] == encodingSparse }

// Stale says that the cached cardinality no longer holds.
func (h HLL) Stale() { h[15] |= staleBit }

// Cached returns the cached cardinality.
func (h HLL) Cached() (n uint64, ok bool) {
	return binary.LittleEndian.Uint64(h[8:]), h[15]&staleBit == 0
}

// Cache stores the cardinality.
func (h HLL) Cache(n uint64) { binary.LittleEndian.PutUint64(h[8:], n) }

// place returns the register that an element belongs to, and the rank it has there.
func place(element []byte) (index int, rank byte) {
	x := murmur(element, 0xadc83b19)
	index = int(x & (registers - 1))
	return index, byte(bits.TrailingZeros64(x>>indexBits|1<<rankMax) + 1)
}

// murmur is MurmurHash2, 64 bits, variant A.
func murmur(b []byte, seed uint64) uint64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	h := seed ^ uint64(len(b))*m
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		k ^= k >> r
		h = (h ^ k*m) * m
	}
	if len(b) > 0 {
		var tail [8]byte
		copy(tail[:], b)
		h = (h ^ binary.LittleEndian.Uint64(tail[:])) * m
	}
	h ^= h >> r
	h *= m
	return h ^ h>>r
}

// Add adds an element. It reports whether a register changed. The sparse form becomes dense above sparseMax bytes.
func (h HLL) Add(element []byte, sparseMax int) (HLL, bool, error) {
	index, rank := place(element)
	return h.raise(index, rank, sparseMax)
}

// raise makes a register at least rank.
func (h HLL) raise(index int, rank byte, sparseMax int) (HLL, bool, error) {
	if h.Sparse() {
		return h.raiseSparse(index, rank, sparseMax)
	}
	if h.register(index) >= rank {
		return h, false, nil
	}
	h.setRegister(index, rank)
	h.Stale()
	return h, true, nil
}

// register returns a register of the dense form.
func (h HLL) register(i int) byte {
	at, shift := headerSize+i*6/8, i*6%8
	word := uint(h[at])
	if at+1 < len(h) {
		word |= uint(h[at+1]) << 8
	}
	return byte(word >> shift & 63)
}

func (h HLL) setRegister(i int, v byte) {
	at, shift := headerSize+i*6/8, i*6%8
	h[at] = h[at]&^byte(63<<shift) | byte(uint(v)<<shift)
	if shift > 2 {
		h[at+1] = h[at+1]&^byte(63>>(8-shift)) | byte(v>>(8-shift))
	}
}

// Registers raises max, of 16384 registers, to those of h.
func (h HLL) Registers(max []byte) error {
	if !h.Sparse() {
		for i := range max {
			if v := h.register(i); v > max[i] {
				max[i] = v
			}
		}
		return nil
	}
	return h.runs(func(r run, first int) {
		for i := first; i < first+r.length && r.value > 0; i++ {
			if r.value > max[i] {
				max[i] = r.value
			}
		}
	})
}

// NewRegisters returns registers for Registers and CountRegisters.
func NewRegisters() []byte { return make([]byte, registers) }

// Merge raises the registers of h to those of max. With dense the result is in dense form.
func (h HLL) Merge(max []byte, dense bool, sparseMax int) (out HLL, err error) {
	if out = h; dense {
		if out, err = h.Dense(); err != nil {
			return nil, err
		}
	}
	for i, v := range max {
		if v == 0 {
			continue
		}
		if out, _, err = out.raise(i, v, sparseMax); err != nil {
			return nil, err
		}
	}
	out.Stale()
	return out, nil
}

// Count estimates the cardinality.
func (h HLL) Count() (uint64, error) {
	var histogram [64]int
	if !h.Sparse() {
		for i := range registers {
			histogram[h.register(i)]++
		}
		return estimate(&histogram), nil
	}
	err := h.runs(func(r run, _ int) { histogram[r.value] += r.length })
	return estimate(&histogram), err
}

// CountRegisters estimates the cardinality that registers tell.
func CountRegisters(regs []byte) uint64 {
	var histogram [64]int
	for _, v := range regs {
		histogram[v&63]++
	}
	return estimate(&histogram)
}

// estimate is the estimator of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", from how many
// registers have each value.
func estimate(histogram *[64]int) uint64 {
	const m = float64(registers)
	const alpha = 0.721347520444481703680 // 1 / (2 ln 2)
	z := m * tau((m-float64(histogram[rankMax+1]))/m)
	for j := rankMax; j >= 1; j-- {
		z = (z + float64(histogram[j])) * 0.5
	}
	z += m * sigma(float64(histogram[0])/m)
	return uint64(math.Round(alpha * m * m / z))
}

// sigma is x + the sum of x^(2^k) * 2^(k-1) over k from 1 on.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	for y, z := 1.0, x; ; {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

// tau is a third of 1 - x - the sum of (1 - x^(2^-k))^2 * 2^-k over k from 1 on.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	for y, z := 1.0, 1-x; ; {
		x = math.Sqrt(x)
		before := z
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}
