package kvs

import "cvmstore/keyspace"

// SAdd adds members and returns how many are new.
func SAdd(t *keyspace.Tx, key []byte, members [][]byte) (added int, err error) {
	h, err := open(t, key, keyspace.TypeSet)
	if err != nil {
		return 0, err
	}
	for _, m := range members {
		if !h.has(m) {
			h.set(m, nil, 0)
			added++
		}
	}
	if added == 0 {
		return 0, nil
	}
	return added, h.commit("sadd")
}

// SRem removes members and returns how many there were.
func SRem(t *keyspace.Tx, key []byte, members [][]byte) (int, error) {
	return removeMembers(t, key, keyspace.TypeSet, members, "srem")
}

// SCard counts the members.
func SCard(t *keyspace.Tx, key []byte) (int, error) { return countMembers(t, key, keyspace.TypeSet) }

// SIsMember says of each member whether it is in the set.
func SIsMember(t *keyspace.Tx, key []byte, members [][]byte, out []bool) error {
	h, err := open(t, key, keyspace.TypeSet)
	if err != nil {
		return err
	}
	for i, m := range members {
		out[i] = h.has(m)
	}
	return nil
}

// SMembers calls f for each member; begin is told their number before.
func SMembers(t *keyspace.Tx, key []byte, begin func(n int), f func(member []byte)) error {
	h, err := open(t, key, keyspace.TypeSet)
	if err != nil {
		return err
	}
	begin(h.count)
	return h.all(false, func(name, _ []byte, _ float64) bool {
		f(name)
		return true
	})
}

// SRandMember chooses members as HRandField chooses fields.
func SRandMember(t *keyspace.Tx, key []byte, count int64) ([]Picked, error) {
	return pick(t, key, keyspace.TypeSet, count, false)
}

// SPop removes up to count members, chosen at random, and returns copies of them.
func SPop(t *keyspace.Tx, key []byte, count int64) ([][]byte, error) {
	h, err := open(t, key, keyspace.TypeSet)
	if err != nil || h.count == 0 || count == 0 {
		return nil, err
	}
	picked, err := h.pick(count, false)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(picked))
	for i := range picked {
		out[i] = append([]byte{}, picked[i].Name...)
	}
	for _, m := range out {
		h.del(m)
	}
	return out, h.commit("spop")
}

// SMove moves a member from one set to another and says whether it was there.
func SMove(t *keyspace.Tx, from, to, member []byte) (bool, error) {
	a, err := open(t, from, keyspace.TypeSet)
	if err != nil || !a.exists() {
		return false, err
	}
	b, err := open(t, to, keyspace.TypeSet)
	if err != nil || !a.has(member) {
		return false, err
	}
	if string(from) == string(to) {
		return true, nil
	}
	a.del(member)
	added := !b.has(member)
	if added {
		b.set(member, nil, 0)
	}
	p, err := a.plan("srem")
	if err != nil {
		return false, err
	}
	if !added {
		err = run(t, p)
		return err == nil, err
	}
	q, err := b.plan("sadd")
	if err != nil {
		return false, err
	}
	err = run(t, p, q)
	return err == nil, err
}

// SetOp is what several sets become.
type SetOp uint8

// The operations.
const (
	SetUnion SetOp = iota
	SetInter
	SetDiff
)

// openAll opens all keys, which must be sets or absent. It asks for all that is on the device before it gives up.
func openAll(t *keyspace.Tx, keys [][]byte, typ keyspace.TypeID) (hs []*handle, missed error) {
	for _, key := range keys {
		h, err := open(t, key, typ)
		if err != nil {
			if missed = err; !isMiss(err) {
				return nil, err
			}
		}
		hs = append(hs, h)
	}
	return hs, missed
}

// SetOperation combines sets and calls f for each member of the result until it returns false. Members are valid until End.
func SetOperation(t *keyspace.Tx, op SetOp, keys [][]byte, f func(member []byte) bool) error {
	hs, err := openAll(t, keys, keyspace.TypeSet)
	if err != nil {
		return err
	}
	each := func(h *handle, f func(name []byte) bool) error {
		return h.all(false, func(name, _ []byte, _ float64) bool { return f(name) })
	}
	switch op {
	case SetInter:
		least := hs[0]
		for _, h := range hs {
			if h.count < least.count {
				least = h
			}
		}
		return each(least, func(name []byte) bool {
			for _, h := range hs {
				if h != least && !h.has(name) {
					return true
				}
			}
			return f(name)
		})
	case SetDiff:
		return each(hs[0], func(name []byte) bool {
			for _, h := range hs[1:] {
				if h.has(name) {
					return true
				}
			}
			return f(name)
		})
	}
	seen := map[string]struct{}{}
	for i, h := range hs {
		stop := false
		err := each(h, func(name []byte) bool {
			if len(hs) > 1 {
				if _, again := seen[string(name)]; again {
					return true
				}
				if i < len(hs)-1 {
					seen[string(name)] = struct{}{}
				}
			}
			stop = !f(name)
			return !stop
		})
		if err != nil || stop {
			return err
		}
	}
	return nil
}

// SetStore combines sets into dest, over whatever it held, and returns the number of members. Without any, dest is deleted.
func SetStore(t *keyspace.Tx, op SetOp, dest []byte, keys [][]byte) (int, error) {
	h := &handle{t: t, key: dest, typ: keyspace.TypeSet, k: t.TypeOf(keyspace.TypeSet).(*collType).Collections}
	err := SetOperation(t, op, keys, func(member []byte) bool {
		h.list = append(h.list, member1(member))
		return true
	})
	if err != nil {
		return 0, err
	}
	h.count = len(h.list)
	return h.count, h.overwrite([...]string{"sunionstore", "sinterstore", "sdiffstore"}[op])
}

// member1 is a new member of a set that is being made. Its name is copied: the set it comes from may be overwritten.
func member1(name []byte) member { return member{name: append([]byte{}, name...), changed: true} }

// overwrite writes what is in list as the key's whole value.
func (h *handle) overwrite(event string) error {
	if h.count > 0 {
		return h.commit(event)
	}
	it, err := h.t.Find(h.key)
	if err != nil || !it.Exists() {
		return err
	}
	return run(h.t, erasePlan(h.t, h.key, "del"))
}
