package streams

import (
	"sync"

	"cvmstore/volume"
)

// A cache keeps the fields of entries that were appended or read lately, by counter, and forgets the oldest. What it holds is
// never changed, so readers need no copy.
type cache struct{ parts [cacheParts]cachePart }

type cachePart struct {
	mu     sync.Mutex
	m      map[volume.Counter][]byte
	order  []volume.Counter
	bytes  int64
	budget int64
}

const (
	cacheParts = 16
	cacheCost  = 96 // of an entry, beside its bytes
)

func newCache(bytes int64) *cache {
	k := &cache{}
	for i := range k.parts {
		k.parts[i].budget = bytes / cacheParts
	}
	k.clear()
	return k
}

func (k *cache) clear() {
	for i := range k.parts {
		p := &k.parts[i]
		p.mu.Lock()
		p.m, p.order, p.bytes = map[volume.Counter][]byte{}, nil, 0
		p.mu.Unlock()
	}
}

func (k *cache) part(c volume.Counter) *cachePart { return &k.parts[c%cacheParts] }

// put takes over b.
func (k *cache) put(c volume.Counter, b []byte) {
	p := k.part(c)
	n := int64(len(b)) + cacheCost
	if n > p.budget/4 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.m[c]; ok {
		return
	}
	p.m[c] = b
	p.order = append(p.order, c)
	for p.bytes += n; p.bytes > p.budget; {
		old := p.order[0]
		p.order = p.order[1:]
		if b, ok := p.m[old]; ok {
			p.bytes -= int64(len(b)) + cacheCost
			delete(p.m, old)
		}
	}
}

func (k *cache) get(c volume.Counter) ([]byte, bool) {
	p := k.part(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.m[c]
	return b, ok
}
