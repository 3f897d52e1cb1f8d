package keyspace

// A ring caches the values of one stripe's strings, newest last, in chunks that are allocated when first needed and then
// written over, oldest first. An entry remembers the position that append returned; a position is a chunk's number and an
// offset in it, so whether the bytes are still there is one comparison, and nothing has to be told when they go.
//
// Bytes handed out by get are valid while the stripe stays locked: a chunk that was lent under the present lock is not
// written over but replaced.
type ring struct {
	chunks [][]byte
	lent   []uint64 // for each chunk: the stripe's lock number under which bytes of it were last handed out
	cur    uint64   // number of the chunk being filled; chunk n stands at chunks[n%len]. 0: none yet
	used   int      // bytes of it that are taken
	shift  uint8    // a chunk is 1<<shift bytes
	bytes  int      // allocated

	hits, misses, evicted uint64 // evicted counts chunks
}

const (
	chunkShiftMax = 16 // a value above 64 KiB is not cached
	chunkShiftMin = 10
	chunksWanted  = 8 // smaller chunks rather than fewer: a whole chunk is evicted at a time
)

// newRing makes a ring of about the given size; below 1 KiB it caches nothing.
func newRing(size int64) ring {
	shift := uint8(chunkShiftMax)
	for shift > chunkShiftMin && size>>shift < chunksWanted {
		shift--
	}
	n := size >> shift
	if n <= 0 {
		return ring{}
	}
	return ring{chunks: make([][]byte, n), lent: make([]uint64, n), shift: shift, used: 1 << shift}
}

// append stores a copy of val and returns its position, or 0 if it is not cached. lock is the stripe's lock number.
func (r *ring) append(val []byte, lock uint64) uint64 {
	if len(r.chunks) == 0 || len(val) > 1<<r.shift || len(val) == 0 {
		return 0
	}
	if r.used+len(val) > 1<<r.shift {
		r.cur++
		r.used = 0
		i := r.cur % uint64(len(r.chunks))
		switch {
		case r.chunks[i] == nil:
			r.chunks[i] = make([]byte, 1<<r.shift)
			r.bytes += 1 << r.shift
		case r.lent[i] == lock:
			r.chunks[i] = make([]byte, 1<<r.shift)
			r.evicted++
		default:
			r.evicted++
		}
	}
	pos := r.cur<<r.shift | uint64(r.used)
	copy(r.chunks[r.cur%uint64(len(r.chunks))][r.used:], val)
	r.used += len(val)
	return pos
}

// get returns the n bytes at pos, if they are still there. old says that they lie in the oldest quarter.
func (r *ring) get(pos uint64, n int, lock uint64) (val []byte, old, ok bool) {
	chunk := pos >> r.shift
	chunks := uint64(len(r.chunks))
	age := r.cur - chunk
	if chunk == 0 || age >= chunks {
		r.misses++
		return nil, false, false
	}
	r.hits++
	i := chunk % chunks
	r.lent[i] = lock
	off := int(pos & (1<<r.shift - 1))
	return r.chunks[i][off : off+n : off+n], age > 0 && age >= chunks-chunks/4, true
}
