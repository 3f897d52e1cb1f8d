package keyspace

import (
	"runtime"
	"slices"
	"sync"

	"cvmstore/volume"
)

// Settle implements volume.Replayer. It drops what a flush made absent, adds every live item to the multiset hash, counts keys,
// and says which records are live. Each stripe is looked at once, on all cores.
func (s *Space) Settle(v *volume.Volume, d *volume.Delta) error {
	workers := min(runtime.GOMAXPROCS(0), 16)
	sums := make([][]table, workers) // of each worker, by number of the table
	var all sync.WaitGroup
	for i := range workers {
		sums[i] = make([]table, len(s.numbered))
		all.Add(1)
		go func() {
			defer all.Done()
			w := &writer{s: s, v: v}
			for j := i; j < stripeCount; j += workers {
				w.settleStripe(&s.stripes[j], d, sums[i])
			}
		}()
	}
	all.Wait()
	s.indexed.Store(0)
	for n, tb := range s.numbered {
		tb.sum, tb.live, tb.keyBytes, tb.expires, tb.newest = volume.Sum{}, 0, 0, 0, tb.flushed
		for i := range sums {
			part := &sums[i][n]
			tb.sum.Add(part.sum)
			tb.live += part.live
			tb.keyBytes += part.keyBytes
			tb.expires += part.expires
			tb.newest = max(tb.newest, part.newest)
		}
		s.indexed.Add(tb.cost())
		d.Add(tb.sum)
		if tb.flushed != 0 {
			d.Live(tb.flushPlace, flushSize)
		}
	}
	w := &writer{s: s, v: v}
	for db, c := range s.swapped {
		if c != 0 {
			d.Add(w.databaseHash(db))
			if slices.Index(s.swapPlace, s.swapPlace[db]) == db { // two databases have it from one record
				d.Live(s.swapPlace[db], swapSize)
			}
		}
	}
	for _, x := range s.elements {
		if err := x.e.Settle(v, d); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) settleStripe(st *stripe, d *volume.Delta, sums []table) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for n, dir := range st.dirs {
		if dir == nil {
			continue
		}
		tb, sum := w.s.numbered[n], &sums[n]
		dir.each(func(sh *shard) bool {
			for i := len(sh.entries) - 1; i >= 0; i-- {
				if p := (spot{st, dir, sh, i}); !w.settleEntry(tb, p, d, sum) {
					w.drop(tb, p.entry(), tb.flushed)
					sh.remove(i)
				}
			}
			return true
		})
	}
}

// settleEntry reports whether the entry stays.
func (w *writer) settleEntry(tb *table, p spot, d *volume.Delta, sum *table) bool {
	e := p.entry()
	switch {
	case e.value <= tb.flushed, e.access&flagPending != 0:
		return false
	case !e.live(): // a tombstone that still hides something in an older segment
		if e.first() >= ordinal(e.place) {
			return false
		}
		d.Live(e.place, int(e.size))
		p.st.kept = append(p.st.kept, tombstone{e.counter, e.hash, uint16(tb.slot)})
		return true
	}
	x := w.hash(tb, p)
	sum.sum.Add(x)
	sum.live++
	sum.keyBytes += e.keyLen()
	sum.newest = max(sum.newest, e.counter)
	d.Live(e.place, int(e.size))
	if e.counter > e.value {
		d.Live(placeIn(e.metaSeg), ExpireSize(e.keyLen()))
	}
	if e.expiry != 0 {
		sum.expires++
		p.noteExpiry(e.expiry)
	}
	if e.large() {
		w.s.types[e.typ()].Found(tb.number, stripeOf(e.hash), e.ref)
	}
	return true
}
