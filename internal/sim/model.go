package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"cvmstore/volume"
)

// model is the dumb twin of the store: maps, and a journal of all batches in commit order. What a batch replaced is kept with
// it, so that the state at the end of any batch can be had back by cutting the journal there.
type model struct {
	dbs     [databases]map[string]item
	changed [databases]map[string]volume.Counter // newest change of each key, deletes included
	batches []batch
	highest volume.Counter // ever handed out, in whatever generation
	clock   *clock
}

type item struct {
	val     string
	expiry  int64
	counter volume.Counter
}

// batch is one atomic batch: its last counter, when it was applied (store time), and what it replaced.
type batch struct {
	last    volume.Counter
	records int
	at      int64
	mono    time.Duration // when it was applied, by the host's monotonic clock
	undo    []undo
}

type undo struct {
	db      int
	key     string
	old     item
	had     bool
	changed volume.Counter // 0: never
}

// change is what a command does to one key.
type change struct {
	db  int
	key string // "" with flush
	to  *item  // nil: it is gone
	ev  string // keyspace's name for it
}

func newModel(c *clock) *model {
	m := &model{clock: c}
	for i := range m.dbs {
		m.dbs[i], m.changed[i] = map[string]item{}, map[string]volume.Counter{}
	}
	return m
}

func (m *model) newest() volume.Counter {
	if n := len(m.batches); n > 0 {
		return m.batches[n-1].last
	}
	return 0
}

// apply journals one batch: its changes and their counters.
func (m *model) apply(at int64, changes []change, counters []volume.Counter) {
	b := batch{last: counters[len(counters)-1], records: len(changes), at: at, mono: m.clock.mono}
	for i, ch := range changes {
		if ch.key != "" {
			b.undo = m.put(b.undo, ch.db, ch.key, ch.to, counters[i], b.last)
			continue
		}
		keys := make([]string, 0, len(m.dbs[ch.db]))
		for k := range m.dbs[ch.db] {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			b.undo = m.put(b.undo, ch.db, k, nil, counters[i], b.last)
		}
	}
	m.batches = append(m.batches, b)
}

func (m *model) put(list []undo, db int, key string, to *item, c, last volume.Counter) []undo {
	old, had := m.dbs[db][key]
	list = append(list, undo{db, key, old, had, m.changed[db][key]})
	if to == nil {
		delete(m.dbs[db], key)
	} else {
		to.counter = c
		m.dbs[db][key] = *to
	}
	m.changed[db][key] = last // whoever sees part of a batch depends on all of it
	return list
}

// endBefore returns the end of the newest batch that lies within a committed state.
func (m *model) endBefore(c volume.Counter) volume.Counter {
	for _, b := range slices.Backward(m.batches) {
		if b.last <= c {
			return b.last
		}
	}
	return 0
}

// cut goes back to the state at counter c (0: the beginning): the end of a batch, or an opening frame after it. It reports
// false if c lies inside a batch.
func (m *model) cut(c volume.Counter) bool {
	n := len(m.batches)
	for n > 0 && m.batches[n-1].last > c {
		n--
	}
	if n < len(m.batches) && c > m.batches[n].last-volume.Counter(m.batches[n].records) {
		return false
	}
	for i := len(m.batches) - 1; i >= n; i-- {
		for _, u := range slices.Backward(m.batches[i].undo) {
			if u.had {
				m.dbs[u.db][u.key] = u.old
			} else {
				delete(m.dbs[u.db], u.key)
			}
			if u.changed == 0 {
				delete(m.changed[u.db], u.key)
			} else {
				m.changed[u.db][u.key] = u.changed
			}
		}
	}
	m.batches = m.batches[:n]
	return true
}

// looksAt lists the keys that a command looks at: a plain overwrite at none, MSETNX at none after the first that exists.
func (m *model) looksAt(c *command, reply string) [][]byte {
	switch {
	case c.verb == vMulti:
		var keys [][]byte
		if reply != replyWatched {
			for i, p := range c.tx.parts {
				keys = append(keys, m.looksAt(p, c.tx.reply(i))...)
			}
		}
		return keys
	case c.verb == vSet, c.verb == vSetEx, c.verb == vMSet, reply == errTooLarge && c.verb != vAppend:
		return nil
	case c.verb == vMSetNX:
		for i, k := range c.keys {
			if _, ok := m.dbs[c.db][string(k)]; ok {
				return c.keys[:i+1]
			}
		}
	}
	return c.keys
}

// exec says what a command must reply and change, if nothing expires any more while it runs. now is its store time; recordMax
// the largest payload of a record; need the newest counter that the reply depends on besides its own changes.
func (m *model) exec(c *command, now int64, recordMax int) (reply string, changes []change, need volume.Counter) {
	if c.verb == vMulti {
		return m.execMulti(c, now, recordMax)
	}
	if c.all() {
		return m.execAll(c, now)
	}
	db := m.dbs[c.db]
	for _, k := range m.looksAt(c, "") {
		need = max(need, m.changed[c.db][string(k)])
	}
	set := func(i int, val string, expiry int64, ev string) {
		changes = append(changes, change{c.db, string(c.keys[i]), &item{val: val, expiry: expiry}, ev})
	}
	k := string(c.keys[0])
	it, ok := db[k]
	for i, v := range c.vals {
		if c.verb != vAppend && tooLarge(c.keys[i], len(v), recordMax) {
			if c.verb == vMSetNX && m.anyExists(c) {
				continue
			}
			return errTooLarge, nil, 0
		}
	}
	switch c.verb {
	case vSet, vSetNX, vSetXX, vSetGet, vSetEx, vSetKeepTTL:
		if c.verb == vSetNX && ok || c.verb == vSetXX && !ok {
			return bulk(nil, false), nil, need
		}
		expiry := int64(0)
		if c.verb == vSetEx {
			expiry = now + max(c.ttl, 1)
		} else if c.verb == vSetKeepTTL {
			expiry = it.expiry
		}
		set(0, string(c.vals[0]), expiry, "set")
		if c.verb == vSetGet {
			return bulk([]byte(it.val), ok), changes, need
		}
		return "OK", changes, need
	case vGet:
		return bulk([]byte(it.val), ok), nil, need
	case vGetDel:
		if ok {
			changes = []change{{c.db, k, nil, "del"}}
		}
		return bulk([]byte(it.val), ok), changes, need
	case vStrLen:
		return integer(len(it.val)), nil, need
	case vIncrBy:
		n, number := parse(it.val)
		if ok && !number {
			return "ERR value is not an integer or out of range", nil, need
		}
		set(0, strconv.FormatInt(n+c.delta, 10), it.expiry, "incrby")
		return integer(n + c.delta), changes, need
	case vAppend:
		val := it.val + string(c.vals[0])
		switch {
		case ok && len(c.vals[0]) == 0:
			return integer(len(val)), nil, need
		case tooLarge(c.keys[0], len(val), recordMax):
			return errTooLarge, nil, need
		}
		set(0, val, it.expiry, "append")
		return integer(len(val)), changes, need
	}
	return m.execOther(c, now, need)
}

func (m *model) anyExists(c *command) bool {
	return slices.ContainsFunc(c.keys, func(k []byte) bool { _, ok := m.dbs[c.db][string(k)]; return ok })
}

// execOther is exec for the commands on several keys, and on a key's time.
func (m *model) execOther(c *command, now int64, need volume.Counter) (reply string, changes []change, _ volume.Counter) {
	db := m.dbs[c.db]
	it, ok := db[string(c.keys[0])]
	switch c.verb {
	case vMSet, vMSetNX:
		if c.verb == vMSetNX && m.anyExists(c) {
			return boolean(false), nil, need
		}
		for i, k := range c.keys {
			changes = append(changes, change{c.db, string(k), &item{val: string(c.vals[i])}, "set"})
		}
		if c.verb == vMSetNX {
			return boolean(true), changes, need
		}
		return "OK", changes, need
	case vMGet:
		var list []string
		for _, k := range c.keys {
			it, ok := db[string(k)]
			list = append(list, bulk([]byte(it.val), ok))
		}
		return strings.Join(list, " "), nil, need
	case vDel, vExists:
		n := 0
		gone := map[string]bool{}
		for _, k := range c.keys {
			if _, ok := db[string(k)]; !ok || gone[string(k)] {
				continue
			}
			n++
			if c.verb == vDel {
				gone[string(k)] = true
				changes = append(changes, change{c.db, string(k), nil, "del"})
			}
		}
		return integer(n), changes, need
	case vExpire:
		switch {
		case !ok:
			return boolean(false), nil, need
		case c.ttl <= 0:
			return boolean(true), []change{{c.db, string(c.keys[0]), nil, "del"}}, need
		}
		it.expiry = now + c.ttl
		return boolean(true), []change{{c.db, string(c.keys[0]), &it, "expire"}}, need
	case vPersist:
		if it.expiry == 0 {
			return boolean(false), nil, need
		}
		it.expiry = 0
		return boolean(true), []change{{c.db, string(c.keys[0]), &it, "persist"}}, need
	}
	return strings.TrimSpace(strconv.FormatInt(it.expiry, 10) + " " + strconv.FormatBool(ok)), nil, need // PEXPIRETIME
}

// execAll is exec for the commands on whole databases.
func (m *model) execAll(c *command, now int64) (reply string, changes []change, need volume.Counter) {
	need = m.newest()
	switch c.verb {
	case vDBSize:
		return integer(len(m.dbs[c.db])), nil, need
	case vKeys, vScan:
		var list []string
		for k, it := range m.dbs[c.db] {
			if it.expiry == 0 || it.expiry >= now {
				list = append(list, k)
			}
		}
		return sorted(list), nil, need
	}
	for db := range m.dbs {
		if (c.verb == vFlushAll || db == c.db) && len(m.dbs[db]) > 0 {
			changes = append(changes, change{db: db, ev: "flushdb"})
		}
	}
	return "OK", changes, need
}
