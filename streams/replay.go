package streams

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"cvmstore/volume"
)

// replaying is what recovery has seen of a stream: its records, in any order.
type replaying struct {
	runs  []*run
	open  map[uint32]*run // by segment: the run that grows
	head  head
	since volume.Counter
	at    volume.Place
	gaps  map[[2]volume.Counter]gap // by first and last
	blobs map[volume.Counter]*volume.Blob
	names map[nameKey]*named
}

// run is a number of entries of one segment with rising counters, packed like a leaf. Almost always an entry's predecessor is the one
// before it; where not, it is listed.
type run struct {
	leaf
	odd []oddPrev
}

type oddPrev struct {
	i    int
	prev volume.Counter
}

func newReplaying() *replaying {
	return &replaying{
		open: map[uint32]*run{}, gaps: map[[2]volume.Counter]gap{},
		blobs: map[volume.Counter]*volume.Blob{}, names: map[nameKey]*named{},
	}
}

// Replay implements keyspace.Elements.
func (y *Streams) Replay(v *volume.Volume, r volume.Record) error {
	if len(r.Payload) < 8 {
		return malformed(r.Kind, r.Payload)
	}
	s := y.obtain(le.Uint64(r.Payload))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replay == nil {
		s.replay = newReplaying()
	}
	q := s.replay
	switch r.Kind {
	case KindEntry, KindBlobEntry:
		return q.entry(v, &r)
	case KindHead:
		h, err := decodeHead(r.Payload)
		switch {
		case err != nil:
			return err
		case r.Counter > q.since:
			q.head, q.since, q.at = h, r.Counter, r.Place
		case r.Counter == q.since:
			q.at = max(q.at, r.Place)
		}
		return nil
	case KindGap:
		g, err := decodeGap(r.Payload)
		if err != nil {
			return err
		}
		g.counter, g.place = r.Counter, r.Place
		k := [2]volume.Counter{g.first, g.last}
		if old, ok := q.gaps[k]; !ok || old.counter < g.counter || old.counter == g.counter && old.place < g.place {
			q.gaps[k] = g
		}
		return nil
	}
	return q.name(&r)
}

func (q *replaying) entry(v *volume.Volume, r *volume.Record) error {
	x, err := decodeEntry(r.Kind, r.Payload)
	if err != nil {
		return err
	}
	if x.prev >= r.Counter {
		return fmt.Errorf("stream %d: entry %s of record %d follows record %d: %w", x.incarnation, x.id, r.Counter, x.prev, errRecord)
	}
	m := meta{id: x.id, counter: r.Counter, place: r.Place, size: uint32(r.Size), blob: r.Kind == KindBlobEntry}
	if m.blob {
		if err := q.adopt(v, r.Counter, x.rest); err != nil {
			return err
		}
	}
	segment := uint32(r.Place >> 32)
	u := q.open[segment]
	if u == nil || u.last.counter >= m.counter {
		u = &run{}
		q.open[segment] = u
		q.runs = append(q.runs, u)
	}
	if u.n == 0 || u.last.counter != x.prev {
		u.odd = append(u.odd, oddPrev{u.n, x.prev})
	}
	u.push(&m)
	return nil
}

// adopt takes a reference to an entry's blob, one however often its record is found.
func (q *replaying) adopt(v *volume.Volume, c volume.Counter, rest []byte) error {
	if q.blobs[c] != nil {
		return nil
	}
	_, pointer, err := splitBlob(rest)
	if err != nil {
		return err
	}
	b, err := v.AdoptBlob(pointer)
	if err == nil {
		q.blobs[c] = b
	}
	return err
}

// walker goes through a run.
type walker struct {
	cursor
	odd  []oddPrev
	i    int
	prev volume.Counter
}

func (u *run) walker() *walker {
	w := &walker{cursor: u.cursor(), odd: u.odd[1:], prev: u.odd[0].prev}
	return w
}

// step goes on to the next entry and reports whether there was one.
func (w *walker) step() bool {
	if w.n <= 1 {
		return false
	}
	w.prev = w.m.counter
	w.next()
	if w.i++; len(w.odd) > 0 && w.odd[0].i == w.i {
		w.prev, w.odd = w.odd[0].prev, w.odd[1:]
	}
	return true
}

// merge calls f for all entries that were found, in the order of their counters; of two records of one counter, the one that lies
// later in the chain. It needs no more memory than the runs.
func (q *replaying) merge(f func(m *meta, prev volume.Counter) error) error {
	var h walkers
	for _, u := range q.runs {
		h.push(u.walker())
	}
	for len(h) > 0 {
		w := h[0]
		m, prev := w.m, w.prev
		for {
			if w.step() {
				h.down(0)
			} else {
				h.pop()
			}
			if len(h) == 0 || h[0].m.counter != m.counter {
				break
			}
			if w = h[0]; w.m.place > m.place {
				m, prev = w.m, w.prev
			}
		}
		if err := f(&m, prev); err != nil {
			return err
		}
	}
	return nil
}

// walkers is a heap by counter.
type walkers []*walker

func (h *walkers) push(w *walker) {
	*h = append(*h, w)
	for i := len(*h) - 1; i > 0 && (*h)[i].m.counter < (*h)[(i-1)/2].m.counter; i = (i - 1) / 2 {
		(*h)[i], (*h)[(i-1)/2] = (*h)[(i-1)/2], (*h)[i]
	}
}

func (h walkers) down(i int) {
	for {
		least := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < len(h) && h[k].m.counter < h[least].m.counter {
				least = k
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func (h *walkers) pop() {
	last := len(*h) - 1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	if last > 0 {
		h.down(0)
	}
}

// Settle implements keyspace.Elements.
func (y *Streams) Settle(v *volume.Volume, d *volume.Delta) error {
	var live []*stream
	for ref, s := range y.streams {
		f, ok := y.found.Load(ref)
		if !ok {
			s.releaseReplayed()
			delete(y.streams, ref)
			continue
		}
		key := f.(foundKey)
		s.table = key.table
		s.stripe.Store(int32(key.stripe))
		live = append(live, s)
	}
	slices.SortFunc(live, func(a, b *stream) int { return cmp.Compare(a.incarnation, b.incarnation) })
	var missing error
	y.found.Range(func(ref, _ any) bool {
		if y.streams[ref.(uint64)] == nil {
			missing = fmt.Errorf("stream %d: no record of it was found: %w", ref, volume.ErrCorrupt)
		}
		return missing == nil
	})
	y.found.Clear()
	if missing != nil {
		return missing
	}
	errs := make([]error, len(live))
	work := make(chan int)
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 16) {
		all.Go(func() {
			for i := range work {
				errs[i] = live[i].settle(v, d)
			}
		})
	}
	for i := range live {
		work <- i
	}
	close(work)
	all.Wait()
	for i, s := range live {
		if errs[i] != nil {
			return fmt.Errorf("stream %d: %w: %w", s.incarnation, errs[i], volume.ErrCorrupt)
		}
		s.hashAll(v)
		d.Add(s.sum)
		s.weigh()
	}
	return nil
}

func (s *stream) releaseReplayed() {
	if s.replay == nil {
		return
	}
	for _, b := range s.replay.blobs {
		b.Release(0)
	}
	s.replay = nil
}

// settle makes the stream of what was found, and checks that nothing is missing, was added, or is out of order.
func (s *stream) settle(v *volume.Volume, d *volume.Delta) error {
	q := s.replay
	s.replay = nil
	if q.since == 0 {
		return fmt.Errorf("its header is missing")
	}
	s.head, s.headSince, s.headAt, s.newest = q.head, q.since, q.at, q.since
	s.took(q.at, headSize)
	d.Live(q.at, headSize)
	s.settleGaps(q, d)
	if err := s.settleEntries(q, d); err != nil {
		return err
	}
	for c, b := range q.blobs {
		if s.blobs[c] == 0 {
			b.Release(0)
		}
	}
	return s.settleNames(v, q.names, d)
}

// settleGaps keeps the gaps that no wider one and not the header covers.
func (s *stream) settleGaps(q *replaying, d *volume.Delta) {
	all := make([]gap, 0, len(q.gaps))
	for _, g := range q.gaps {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.last, a.last))
	})
	end := volume.Counter(0)
	for _, g := range all {
		if g.last < s.head.low || g.last <= end {
			continue
		}
		end = g.last
		s.newest = max(s.newest, g.counter)
		s.gaps = append(s.gaps, g)
		s.took(g.place, gapSize)
		d.Live(g.place, gapSize)
	}
}

// chain is where the check of a stream's entries is.
type chain struct {
	end   volume.Counter // of the entry, or gap, before
	id    ID             // of the entry before
	after uint64         // entries that the header does not count
	gaps  int            // that were passed
}

// settleEntries makes the index.
func (s *stream) settleEntries(q *replaying, d *volume.Delta) error {
	var k chain
	err := q.merge(func(m *meta, prev volume.Counter) error {
		if m.counter < s.head.low {
			return nil
		}
		for k.gaps < len(s.gaps) && s.gaps[k.gaps].first <= m.counter {
			g := &s.gaps[k.gaps]
			if m.counter <= g.last {
				return nil // deleted
			}
			if !s.joins(&k, g.prev) {
				return s.missing(&k, g.prev, "the deleted entries of record", g.first)
			}
			k.end = g.last
			k.gaps++
		}
		if !s.joins(&k, prev) {
			return s.missing(&k, prev, "entry "+m.id.String()+" of record", m.counter)
		}
		if k.end != 0 && !k.id.Less(m.id) {
			return fmt.Errorf("entry %s follows entry %s", m.id, k.id)
		}
		k.end, k.id = m.counter, m.id
		s.adopted(q, m)
		s.index.push(m, volume.Sum{}, int(s.y.leafEntries.Load()))
		s.took(m.place, int(m.size))
		d.Live(m.place, int(m.size))
		if m.counter > s.headSince {
			k.after++
		}
		return nil
	})
	if err != nil {
		return err
	}
	for ; k.gaps < len(s.gaps); k.gaps++ {
		if g := &s.gaps[k.gaps]; !s.joins(&k, g.prev) {
			return s.missing(&k, g.prev, "the deleted entries of record", g.first)
		}
		k.end = s.gaps[k.gaps].last
	}
	return s.settleEnd(&k)
}

// joins checks that nothing is missing between what came last and what names prev as its predecessor.
func (s *stream) joins(k *chain, prev volume.Counter) bool {
	return k.end == 0 && prev < s.head.low || k.end != 0 && prev == k.end
}

func (s *stream) missing(k *chain, prev volume.Counter, what string, c volume.Counter) error {
	return fmt.Errorf("%s %d follows record %d, which is missing: the one before is %d (%s)", what, c, prev, k.end, k.id)
}

// settleEnd compares what was found with the header, and makes the header what it is now.
func (s *stream) settleEnd(k *chain) error {
	h := &s.head
	if k.end < h.tail && h.low <= h.tail {
		return fmt.Errorf("entry %s of record %d is missing: the last one is %s of record %d", h.last, h.tail, k.id, k.end)
	}
	if n := h.length + k.after; n != uint64(s.index.length) {
		return fmt.Errorf("%d entries behind %s, of %d", s.index.length, k.id, n)
	}
	if k.after > 0 {
		if !h.last.Less(k.id) {
			return fmt.Errorf("entry %s follows entry %s", k.id, h.last)
		}
		h.last = k.id
	}
	h.tail = max(h.tail, k.end)
	h.added += k.after
	h.length = uint64(s.index.length)
	s.newest = max(s.newest, k.end)
	return nil
}

func (s *stream) adopted(q *replaying, m *meta) {
	if !m.blob {
		return
	}
	if s.blobs == nil {
		s.blobs = map[volume.Counter]volume.BlobID{}
	}
	s.blobs[m.counter] = q.blobs[m.counter].ID()
}

// hashAll adds up the multiset items, those of the entries on all cores.
func (s *stream) hashAll(v *volume.Volume) {
	workers := min(runtime.GOMAXPROCS(0), 1+len(s.index.leaves)/16)
	sums := make([]volume.Sum, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			var scratch [leafMax]meta
			for i := w; i < len(s.index.leaves); i += workers {
				l := s.index.leaves[i]
				for _, m := range l.all(scratch[:]) {
					l.sum.Add(s.hashEntry(v, &m))
				}
				sums[w].Add(l.sum)
			}
		})
	}
	all.Wait()
	s.sum = volume.Sum{}
	for _, x := range sums {
		s.sum.Add(x)
	}
	s.sum.Add(s.hash(v, s.headSince, itemHead))
	for i := range s.gaps {
		s.sum.Add(s.hashGap(v, &s.gaps[i]))
	}
	s.sum.Add(s.hashNames(v))
}
