package keyspace

import "cvmstore/volume"

// Commands on whole databases, in a transaction begun with BeginAll. What they return depends on the newest counter.

func (t *Tx) needAll() {
	for _, w := range t.held {
		if w != ^uint64(0) {
			panic("internal error: keyspace: needs BeginAll")
		}
	}
}

// seeAll makes the reply depend on everything that was applied.
func (t *Tx) seeAll() {
	applied, _, _ := t.w.v.Watermarks()
	t.see(applied)
}

// DBSize counts the keys of the transaction's database. Like Redis', it counts expired keys that nobody has come upon.
func (t *Tx) DBSize() int {
	keys, _ := t.Info(t.db)
	return keys
}

// Info counts the keys of a database, and those of them that have an expiry.
func (t *Tx) Info(db int) (keys, expires int) {
	t.needAll()
	t.seeAll()
	tb := t.w.s.tables[db]
	return tb.live, tb.expires
}

// FlushDB deletes all keys of the transaction's database, by one record.
func (t *Tx) FlushDB() error {
	t.needAll()
	t.seeAll()
	if t.tb.live == 0 {
		t.toldNothing()
		return nil
	}
	if err := t.Reserve(flushSize, 1, volume.ClassReclaim); err != nil {
		return err
	}
	t.flush(t.db)
	return nil
}

// FlushAll deletes all keys of all databases, by one record each, in one batch.
func (t *Tx) FlushAll() error {
	t.needAll()
	t.seeAll()
	n := 0
	for _, tb := range t.w.s.tables[:t.w.s.o.Databases] {
		if tb.live > 0 {
			n++
		}
	}
	if n == 0 {
		t.toldNothing()
		return nil
	}
	if err := t.Reserve(n*flushSize, n, volume.ClassReclaim); err != nil {
		return err
	}
	for db, tb := range t.w.s.tables[:t.w.s.o.Databases] {
		if tb.live > 0 {
			t.flush(db)
		}
	}
	return nil
}

func (t *Tx) flush(db int) {
	tb := t.w.s.tables[db]
	payload, c, at := t.append(KindFlush, flushSize)
	encodeFlush(payload, tb.number)
	t.touchDatabase(db, c, tb)
	t.w.flush(tb, c, at)
	t.toldOf(db, "flushdb", c)
}

// Swap exchanges two databases, by one record: every client of one sees the keys of the other. It reads and moves no key.
func (t *Tx) Swap(a, b int) error {
	t.needAll()
	t.seeAll()
	if a == b {
		return nil
	}
	if err := t.Reserve(swapSize, 1, volume.ClassReclaim); err != nil {
		return err
	}
	ta, tb := t.w.s.tables[a], t.w.s.tables[b]
	payload, c, at := t.append(KindSwap, swapSize)
	encodeSwap(payload, &swap{db: [2]uint16{uint16(a), uint16(b)}, table: [2]uint16{tb.number, ta.number}})
	t.w.assign(a, tb, c, at)
	t.w.assign(b, ta, c, at)
	t.Use(t.db)
	for _, db := range []int{a, b} {
		t.touchDatabase(db, c, ta, tb)
		t.toldOf(db, "swapdb", c)
	}
	return nil
}

// RandomKey returns a key, each with the same chance. It is valid until End.
func (t *Tx) RandomKey() (key []byte, ok bool, err error) {
	t.needAll()
	t.seeAll()
	const tries = 100 // then the first live one from there on: almost all entries are tombstones
	for i := 0; t.tb.live > 0 && (i < 2*tries || t.batch == nil); i++ {
		p := t.nth(int(t.w.s.o.Rand(uint64(t.entries()))), i >= tries)
		if p.i < 0 {
			continue
		}
		if e := p.entry(); e.expired(t.Now()) {
			if err := t.expire(p); err != nil {
				return nil, false, err
			}
			continue
		}
		return p.key(), true, nil
	}
	return nil, false, nil
}

// entries counts the entries of the transaction's table, tombstones included.
func (t *Tx) entries() int {
	n := 0
	for i := range t.w.s.stripes {
		if d := t.w.s.stripes[i].dirs[t.tb.slot]; d != nil {
			d.each(func(sh *shard) bool {
				n += len(sh.entries)
				return true
			})
		}
	}
	return n
}

// nth returns the n-th entry if it is live, or with onward the first live one from there on; else i is -1.
func (t *Tx) nth(n int, onward bool) spot {
	found := spot{i: -1}
	done := false
	for i := 0; i < stripeCount && !done; i++ {
		st := &t.w.s.stripes[i]
		d := st.dirs[t.tb.slot]
		if d == nil {
			continue
		}
		d.each(func(sh *shard) bool {
			if n >= len(sh.entries) {
				n -= len(sh.entries)
				return true
			}
			for ; n < len(sh.entries) && !done; n++ {
				if sh.entries[n].live() {
					found = spot{st, d, sh, n}
				}
				done = found.i >= 0 || !onward
			}
			n = 0
			return !done
		})
	}
	return found
}
