package keyspace

import (
	"errors"

	"cvmstore/volume"
)

// cycleShardsMax bounds how many shards one cycle looks through: about a millisecond's worth.
const cycleShardsMax = 128

// ExpireCycle deletes keys whose time has come, though nobody reads them: at most budget of them. The event loop calls it
// about ten times a second, and sooner if there is more to do. Shards, directories and stripes know a time before which
// nothing of theirs expires, so where nothing has expired a cycle costs 256 comparisons.
//
// It stops early when the volume takes no batch now; what is expired stays so, and readers find out by themselves.
func (s *Space) ExpireCycle(budget int) (deleted int, more bool) {
	s.cycleMu.Lock()
	defer s.cycleMu.Unlock()
	t := &s.cycle
	t.begin(s, 0)
	defer t.End()
	c := cycle{t: t, now: t.Now(), budget: budget, shards: cycleShardsMax}
	for range stripeCount {
		more, err := c.stripe(&s.stripes[s.cycleAt])
		if err != nil {
			return c.deleted, errors.Is(err, volume.ErrBusy)
		}
		if more {
			return c.deleted, true
		}
		s.cycleAt = (s.cycleAt + 1) % stripeCount
	}
	return c.deleted, false
}

// cycle is one run of ExpireCycle: what it may still do.
type cycle struct {
	t       *Tx
	now     int64
	budget  int
	shards  int
	deleted int
}

// stripe deletes the expired keys of a stripe. more: the cycle is at its bound, and the stripe not done.
func (c *cycle) stripe(st *stripe) (more bool, err error) {
	st.lock()
	defer c.t.unlock(st)
	if st.expiry >= c.now {
		return false, nil
	}
	earliest := int64(never)
	for db, tb := range c.t.w.s.tables {
		d := st.dirs[tb.slot]
		if d == nil {
			continue
		}
		c.t.Use(db)
		if d.expiry < c.now {
			if more, err = c.directory(st, d); more || err != nil {
				return more, err
			}
		}
		earliest = min(earliest, d.expiry)
	}
	st.expiry = earliest
	return false, nil
}

func (c *cycle) directory(st *stripe, d *directory) (more bool, err error) {
	earliest := int64(never)
	d.each(func(sh *shard) bool {
		if sh.expiry < c.now {
			more, err = c.shard(spot{st, d, sh, 0})
		}
		earliest = min(earliest, sh.expiry)
		return !more && err == nil
	})
	if !more && err == nil {
		d.expiry = earliest
	}
	return more, err
}

func (c *cycle) shard(p spot) (more bool, err error) {
	if c.shards == 0 || c.budget <= 0 {
		return true, nil
	}
	c.shards--
	t := c.t
	t.scratch = t.scratch[:0]
	earliest := int64(never)
	for i := range p.sh.entries {
		e := &p.sh.entries[i]
		switch {
		case !e.live() || e.expiry == 0:
		case e.expired(c.now):
			t.scratch = append(t.scratch, i)
		default:
			earliest = min(earliest, e.expiry)
		}
	}
	n, err := t.expireCollected(p, c.budget)
	c.deleted += n
	c.budget -= n
	if err != nil {
		return false, err
	}
	if n < len(t.scratch) {
		return true, nil
	}
	p.sh.expiry = earliest
	return false, nil
}
