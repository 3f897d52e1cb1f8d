package seal

import "encoding/binary"

// rdseedTries bounds the retries of one word: RDSEED answers "not now" while its conditioner refills, which takes about a
// microsecond, and Intel advises to give up at some point.
const rdseedTries = 1000

// readRDSEED fills b, whose length is a multiple of 8, from the processor's entropy source. False: there is none, or it did
// not answer, and b holds zeros.
func readRDSEED(b []byte) bool {
	if !hasRDSEED {
		return false
	}
	for at := 0; at < len(b); at += 8 {
		x, ok := uint64(0), false
		for try := 0; try < rdseedTries && !ok; try++ {
			x, ok = rdseed64()
		}
		// All zeros or all ones for 64 bits is how a broken RDSEED has been seen to answer, with its carry set.
		if !ok || x == 0 || x == ^uint64(0) {
			clear(b)
			return false
		}
		binary.LittleEndian.PutUint64(b[at:], x)
	}
	return true
}
