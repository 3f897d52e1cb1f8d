package kvs

// A dict finds elements by name: an extendible hash of small open-addressing tables that are split one at a time, so that no
// insertion pays for a long rehash. A slot is an element's number plus one.
type dict struct {
	tables []*dictTable // 1<<depth; one of less depth stands at several neighbouring indices
	depth  uint8
}

type dictTable struct {
	slots []uint32
	n     int
	depth uint8
}

const (
	dictSlotsMax = 1024
	dictSlotsMin = 16
	dictDepthMax = 22
)

func (d *dict) index(h uint32) int { return int(uint64(h) >> (32 - d.depth)) }

func (d *dict) find(c *coll, h uint32, name []byte) (elemID, bool) {
	if d.tables == nil {
		return 0, false
	}
	t := d.tables[d.index(h)]
	mask := uint32(len(t.slots) - 1)
	for s := h & mask; t.slots[s] != 0; s = (s + 1) & mask {
		id := elemID(t.slots[s] - 1)
		if e := c.at(id); e.hash == h && string(c.name(e)) == string(name) {
			return id, true
		}
	}
	return 0, false
}

func (d *dict) insert(c *coll, id elemID, h uint32) {
	if d.tables == nil {
		d.tables = []*dictTable{{slots: make([]uint32, dictSlotsMin)}}
	}
	t := d.tables[d.index(h)]
	for (t.n+1)*4 > len(t.slots)*3 {
		if len(t.slots) < dictSlotsMax || t.depth >= dictDepthMax {
			t.grow(c)
		} else {
			d.split(c, t, h)
		}
		t = d.tables[d.index(h)]
	}
	t.put(id, h)
}

func (t *dictTable) put(id elemID, h uint32) {
	mask := uint32(len(t.slots) - 1)
	s := h & mask
	for t.slots[s] != 0 {
		s = (s + 1) & mask
	}
	t.slots[s] = uint32(id) + 1
	t.n++
}

func (t *dictTable) grow(c *coll) {
	old := t.slots
	t.slots, t.n = make([]uint32, 2*len(old)), 0
	for _, v := range old {
		if v != 0 {
			t.put(elemID(v-1), c.at(elemID(v-1)).hash)
		}
	}
}

// split replaces the table of hash h by its two halves.
func (d *dict) split(c *coll, t *dictTable, h uint32) {
	if t.depth == d.depth {
		tables := make([]*dictTable, 2*len(d.tables))
		for i, x := range d.tables {
			tables[2*i], tables[2*i+1] = x, x
		}
		d.tables = tables
		d.depth++
	}
	halves := [2]*dictTable{}
	for i := range halves {
		halves[i] = &dictTable{slots: make([]uint32, len(t.slots)), depth: t.depth + 1}
	}
	for _, v := range t.slots {
		if v != 0 {
			x := c.at(elemID(v - 1)).hash
			halves[x<<t.depth>>31].put(elemID(v-1), x)
		}
	}
	span := 1 << (d.depth - t.depth)
	first := d.index(h) &^ (span - 1)
	for i := range span {
		d.tables[first+i] = halves[i*2/span]
	}
}

// remove takes an element out and moves back what had been pushed past it, so that probing needs no marks.
func (d *dict) remove(c *coll, id elemID, h uint32) {
	t := d.tables[d.index(h)]
	mask := uint32(len(t.slots) - 1)
	s := h & mask
	for t.slots[s] != uint32(id)+1 {
		s = (s + 1) & mask
	}
	for next := s; ; {
		next = (next + 1) & mask
		v := t.slots[next]
		if v == 0 {
			break
		}
		if home := c.at(elemID(v-1)).hash & mask; (next-home)&mask >= (next-s)&mask {
			t.slots[s] = v
			s = next
		}
	}
	t.slots[s] = 0
	t.n--
}

// scan calls f for about count elements, in the order of their hashes from cursor on, and returns where to go on; 0 at the
// end. Elements that are there all the time are passed on exactly once, whatever comes and goes.
func (d *dict) scan(c *coll, cursor uint64, count int, f func(id elemID)) uint64 {
	for count > 0 && cursor < 1<<32 && d.tables != nil {
		t := d.tables[d.index(uint32(cursor))]
		width := uint64(1) << (32 - t.depth)
		end := cursor&^(width-1) + width
		if t.n > count {
			end = min(end, cursor+width*uint64(count)/uint64(t.n)+1)
		}
		for _, v := range t.slots {
			if v == 0 {
				continue
			}
			e := c.at(elemID(v - 1))
			if h := uint64(e.hash); h >= cursor && h < end {
				count--
				if e.is(elemLive) {
					f(elemID(v - 1))
				}
			}
		}
		cursor = end
	}
	if cursor >= 1<<32 || d.tables == nil {
		return 0
	}
	return cursor
}

func (d *dict) bytes() (n int) {
	n = 8 * len(d.tables)
	for i := 0; i < len(d.tables); i += 1 << (d.depth - d.tables[i].depth) {
		n += 4*len(d.tables[i].slots) + 48
	}
	return n
}
