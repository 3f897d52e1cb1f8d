package kvs

import "sync"

// A valueCache holds values of elements of large collections, newest last, and forgets the oldest. A position says by itself
// whether its bytes are still there. Bytes are copied in and out, for keys that share a cache are guarded by other locks.
type valueCache struct{ parts [cacheParts]cachePart }

type cachePart struct {
	mu     sync.Mutex
	chunks [][]byte
	cur    uint64 // number of the chunk being filled; chunk n stands at chunks[n%len]
	used   int
	_      [64]byte
}

const (
	cacheParts = 16
	cacheChunk = 64 << 10
)

func newValueCache(bytes int64) *valueCache {
	v := &valueCache{}
	for i := range v.parts {
		if n := bytes / cacheParts / cacheChunk; n > 0 {
			v.parts[i].chunks = make([][]byte, max(n, 2))
			v.parts[i].used = cacheChunk
		}
	}
	return v
}

func (v *valueCache) part(incarnation uint64) *cachePart { return &v.parts[incarnation%cacheParts] }

// put stores a copy and returns its position, 0 if it is not kept.
func (v *valueCache) put(incarnation uint64, val []byte) uint64 {
	p := v.part(incarnation)
	if len(p.chunks) == 0 || len(val) > cacheChunk || len(val) == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+len(val) > cacheChunk {
		p.cur++
		p.used = 0
		if i := p.cur % uint64(len(p.chunks)); p.chunks[i] == nil {
			p.chunks[i] = make([]byte, cacheChunk)
		}
	}
	pos := p.cur*cacheChunk + uint64(p.used)
	copy(p.chunks[p.cur%uint64(len(p.chunks))][p.used:], val)
	p.used += len(val)
	return pos
}

// get returns a copy of the n bytes at pos, if they are still there.
func (v *valueCache) get(incarnation, pos uint64, n int) ([]byte, bool) {
	if pos == 0 {
		return nil, false
	}
	p := v.part(incarnation)
	p.mu.Lock()
	defer p.mu.Unlock()
	chunk := pos / cacheChunk
	if p.cur-chunk >= uint64(len(p.chunks)) {
		return nil, false
	}
	off := int(pos % cacheChunk)
	return append(make([]byte, 0, n), p.chunks[chunk%uint64(len(p.chunks))][off:off+n]...), true
}
