package keyspace

import "cvmstore/volume"

// ScanOptions of a SCAN.
type ScanOptions struct {
	Match []byte // glob that keys must match; nil: all
	Type  string // name of a type; "": all; a name that no type has matches nothing
	Count int    // about how many keys are looked at; at most 0: 10
}

const scanCountDefault = 10

// Scan passes on about o.Count keys from cursor on, and returns the cursor at which to go on; 0 begins, 0 ends.
//
// A cursor is a position in the order of hashes, so splits of shards, insertions and deletes between the calls do not
// move what is still to come: each key that exists all the time is passed on, exactly once. Within a shard, hashes are
// evenly spread, so a window of them holds about as many keys as it is wide.
//
// Scan locks one stripe after the other. t is not begun, or begun with BeginAll. Keys are valid during emit only. After an
// error, discard what was emitted, and run the call again.
func (s *Space) Scan(t *Tx, db int, cursor uint64, o ScanOptions, emit func(key []byte)) (next uint64, err error) {
	if t.begun {
		t.needAll()
		t.Use(db)
	} else {
		t.begin(s, db)
		defer t.End()
	}
	want := o.Count
	if want <= 0 {
		want = scanCountDefault
	}
	filter := s.filter(o.Match, o.Type)
	for want > 0 && cursor < 1<<32 {
		var n int
		if n, cursor, err = t.scanStripe(uint32(cursor), want, &filter, emit); err != nil {
			return 0, err
		}
		want -= n
	}
	t.seeAll()
	if cursor >= 1<<32 {
		cursor = 0
	}
	return cursor, nil
}

// scanStripe looks at about want keys of one stripe from hash from on. It returns how many it looked at and where it stopped.
func (t *Tx) scanStripe(from uint32, want int, f *filter, emit func(key []byte)) (n int, next uint64, err error) {
	i := stripeOf(from)
	st := &t.w.s.stripes[i]
	if t.held[i/64]&(1<<(i%64)) == 0 {
		st.lock()
		defer t.unlock(st)
	}
	t.Use(t.db)
	end := uint64(i+1) << (32 - stripeBits)
	d := st.dirs[t.tb.slot]
	if d == nil {
		return 0, end, nil
	}
	for next = uint64(from); n < want && next < end; {
		sh := d.shard(uint32(next))
		width := uint64(1) << (32 - stripeBits - sh.depth)
		to := next&^(width-1) + width // the end of the shard's hashes
		if len(sh.entries) > want-n {
			to = min(to, next+width*uint64(want-n)/uint64(len(sh.entries))+1)
		}
		t.window(sh, next, to)
		n += len(t.scratch)
		if err := t.pass(spot{st, d, sh, 0}, f, emit); err != nil {
			return n, next, err
		}
		next = to
	}
	return n, next, nil
}

// window collects the entries of a shard with hashes in [from, to). Tombstones count, so that a call stays bounded.
func (t *Tx) window(sh *shard, from, to uint64) {
	t.scratch = t.scratch[:0]
	for i := range sh.entries {
		if h := uint64(sh.entries[i].hash); h >= from && h < to {
			t.scratch = append(t.scratch, i)
		}
	}
}

// pass journals the deletes of those collected entries that have expired, and emits the others.
func (t *Tx) pass(p spot, f *filter, emit func(key []byte)) error {
	now := t.Now()
	if p.sh.expiry < now {
		if _, err := t.expireCollected(p, len(t.scratch)); err != nil {
			return err
		}
	}
	for _, i := range t.scratch {
		p.i = i
		if e := p.entry(); e.live() && !e.expired(now) && f.match(e, p.key()) {
			emit(p.key())
		}
	}
	return nil
}

// expireCollected deletes up to limit of the collected entries that have expired, in a batch of their own. Within an open
// batch it deletes nothing: the caller leaves them out, and the batch's frame holds a time at which they are gone.
func (t *Tx) expireCollected(p spot, limit int) (deleted int, err error) {
	if t.batch != nil {
		return 0, nil
	}
	now := t.Now()
	bytes, n := 0, 0
	for _, i := range t.scratch {
		if e := &p.sh.entries[i]; e.live() && e.expired(now) && n < limit {
			bytes += DeleteSize(e.keyLen())
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	if err := t.open(bytes, n, volume.ClassReclaim); err != nil {
		return 0, err
	}
	for _, i := range t.scratch {
		p.i = i
		if e := p.entry(); e.live() && e.expired(now) && deleted < n {
			t.bury(p, DeleteSize(e.keyLen()), "expired")
			deleted++
		}
	}
	t.close()
	return deleted, nil
}

// Keys passes on all keys of the transaction's database that match, in a transaction begun with BeginAll. After an error,
// discard what was emitted, and run it again: it gets further each time.
func (t *Tx) Keys(pattern []byte, emit func(key []byte)) error {
	t.needAll()
	f := t.w.s.filter(pattern, "")
	for i := range t.w.s.stripes {
		st := &t.w.s.stripes[i]
		d := st.dirs[t.tb.slot]
		if d == nil {
			continue
		}
		var err error
		d.each(func(sh *shard) bool {
			t.window(sh, 0, 1<<32)
			err = t.pass(spot{st, d, sh, 0}, &f, emit)
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	t.seeAll()
	return nil
}

// filter chooses the keys that a scan passes on.
type filter struct {
	pattern []byte
	all     bool
	types   uint32 // a bit for each TypeID
}

func (s *Space) filter(pattern []byte, typeName string) filter {
	f := filter{pattern: pattern, all: pattern == nil || string(pattern) == "*"}
	for id, t := range s.types {
		if t != nil && (typeName == "" || t.Name() == typeName) {
			f.types |= 1 << id
		}
	}
	return f
}

func (f *filter) match(e *entry, key []byte) bool {
	return f.types>>e.typ()&1 != 0 && (f.all || Match(f.pattern, key))
}
