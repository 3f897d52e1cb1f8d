package kvs

import (
	"errors"
	"math/big"
	"strconv"

	"cvmstore/keyspace"
)

// Errors of hashes.
var (
	ErrHashNotInteger = errors.New("ERR hash value is not an integer")
	ErrHashNotFloat   = errors.New("ERR hash value is not a float")
)

// HSet sets fields: pairs is field, value, field, value and so on. It returns how many are new.
func HSet(t *keyspace.Tx, key []byte, pairs [][]byte) (added int, err error) {
	h, err := open(t, key, keyspace.TypeHash)
	if err != nil {
		return 0, err
	}
	for i := 0; i < len(pairs); i += 2 {
		if h.set(pairs[i], pairs[i+1], 0) {
			added++
		}
	}
	return added, h.commit("hset")
}

// HSetNX sets a field that is absent, and says whether it was.
func HSetNX(t *keyspace.Tx, key, field, val []byte) (bool, error) {
	h, err := open(t, key, keyspace.TypeHash)
	if err != nil || h.has(field) {
		return false, err
	}
	h.set(field, val, 0)
	return true, h.commit("hset")
}

// HGet returns the value of a field.
func HGet(t *keyspace.Tx, key, field []byte) (val []byte, ok bool, err error) {
	h, err := open(t, key, keyspace.TypeHash)
	if err != nil {
		return nil, false, err
	}
	return h.value(field)
}

// HMGet looks fields up into out, which is as long. It returns ErrMiss only after it has asked for all values.
func HMGet(t *keyspace.Tx, key []byte, fields [][]byte, out []Value) error {
	h, err := open(t, key, keyspace.TypeHash)
	if err != nil {
		return err
	}
	var missed error
	for i, f := range fields {
		val, ok, err := h.value(f)
		if err != nil {
			if missed = err; !isMiss(err) {
				return err
			}
		}
		out[i] = Value{Bytes: val, OK: ok}
	}
	return missed
}

// HGetAll calls f for each field; with values false, val is nil. begin is told the number of fields before.
func HGetAll(t *keyspace.Tx, key []byte, values bool, begin func(n int), f func(field, val []byte)) error {
	h, err := open(t, key, keyspace.TypeHash)
	if err != nil {
		return err
	}
	if h.big != nil && values { // so that nothing is emitted before a miss
		if err := h.allValues(func([]byte, []byte, float64) bool { return false }); err != nil {
			return err
		}
	}
	begin(h.count)
	return h.all(values, func(name, val []byte, _ float64) bool {
		f(name, val)
		return true
	})
}

// HDel removes fields and returns how many there were.
func HDel(t *keyspace.Tx, key []byte, fields [][]byte) (int, error) {
	return removeMembers(t, key, keyspace.TypeHash, fields, "hdel")
}

// removeMembers removes members of a collection and returns how many there were.
func removeMembers(t *keyspace.Tx, key []byte, typ keyspace.TypeID, names [][]byte, event string) (n int, err error) {
	h, err := open(t, key, typ)
	if err != nil || !h.exists() {
		return 0, err
	}
	for _, name := range names {
		if h.del(name) {
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, h.commit(event)
}

// HLen counts the fields.
func HLen(t *keyspace.Tx, key []byte) (int, error) { return countMembers(t, key, keyspace.TypeHash) }

func countMembers(t *keyspace.Tx, key []byte, typ keyspace.TypeID) (int, error) {
	h, err := open(t, key, typ)
	if err != nil {
		return 0, err
	}
	return h.count, nil
}

// HExists says whether there is such a field.
func HExists(t *keyspace.Tx, key, field []byte) (bool, error) {
	h, err := open(t, key, keyspace.TypeHash)
	return err == nil && h.has(field), err
}

// HStrLen returns the length of a field's value. Of a large hash it reads none.
func HStrLen(t *keyspace.Tx, key, field []byte) (int, error) {
	h, err := open(t, key, keyspace.TypeHash)
	if err != nil {
		return 0, err
	}
	m, id, ok := h.look(field)
	switch {
	case !ok:
		return 0, nil
	case m != nil:
		return len(m.val), nil
	}
	return h.big.at(id).valueLen(), nil
}

// HIncrBy adds to the number in a field, 0 if it is absent, and returns the sum.
func HIncrBy(t *keyspace.Tx, key, field []byte, delta int64) (int64, error) {
	h, err := open(t, key, keyspace.TypeHash)
	if err != nil {
		return 0, err
	}
	old, found, err := h.value(field)
	if err != nil {
		return 0, err
	}
	var n int64
	if found {
		var ok bool
		if n, ok = parseInt(old); !ok {
			return 0, ErrHashNotInteger
		}
	}
	sum := n + delta
	if delta != 0 && (delta > 0) != (sum > n) {
		return 0, ErrOverflow
	}
	h.set(field, strconv.AppendInt(nil, sum, 10), 0)
	return sum, h.commit("hincrby")
}

// HIncrByFloat adds to the number in a field, 0 if it is absent, and returns the sum as it is stored.
func HIncrByFloat(t *keyspace.Tx, key, field, delta []byte) ([]byte, error) {
	by, ok := parseFloat(delta)
	if !ok {
		return nil, ErrNotFloat
	}
	if by.IsInf() {
		return nil, errHashInfinite
	}
	h, err := open(t, key, keyspace.TypeHash)
	if err != nil {
		return nil, err
	}
	old, found, err := h.value(field)
	if err != nil {
		return nil, err
	}
	sum := new(big.Float).SetPrec(floatMantissa)
	if found {
		if sum, ok = parseFloat(old); !ok {
			return nil, ErrHashNotFloat
		}
	}
	if sum.IsInf() {
		return nil, ErrNotFinite
	}
	sum = new(big.Float).SetPrec(floatMantissa).Add(sum, by)
	if sum.MantExp(nil) > floatExponentMax {
		return nil, ErrNotFinite
	}
	val := formatFloat(sum)
	h.set(field, val, 0)
	return val, h.commit("hincrbyfloat")
}

var errHashInfinite = errors.New("ERR value is NaN or Infinity")

// Picked is one answer of a random choice.
type Picked struct {
	Name, Val []byte
	Score     float64
}

// HRandField chooses fields: at most count different ones, or exactly -count, each by itself, if count is negative.
func HRandField(t *keyspace.Tx, key []byte, count int64, values bool) ([]Picked, error) {
	return pick(t, key, keyspace.TypeHash, count, values)
}

// pick chooses members at random.
func pick(t *keyspace.Tx, key []byte, typ keyspace.TypeID, count int64, values bool) ([]Picked, error) {
	h, err := open(t, key, typ)
	if err != nil || h.count == 0 || count == 0 {
		return nil, err
	}
	return h.pick(count, values)
}

func (h *handle) pick(count int64, values bool) ([]Picked, error) {
	if count < 0 {
		return h.pickAny(int(-count), values)
	}
	n := int(min(count, int64(h.count)))
	if n == h.count || h.big == nil || n*3 > h.count {
		var all []Picked
		err := h.all(values, func(name, val []byte, score float64) bool {
			all = append(all, Picked{name, val, score})
			return true
		})
		if n < h.count {
			for i := range n { // the first n of a shuffle
				j := i + int(h.t.Random(uint64(len(all)-i)))
				all[i], all[j] = all[j], all[i]
			}
		}
		if len(all) < n {
			return nil, err
		}
		return all[:n], err
	}
	seen := make(map[elemID]bool, n)
	ids := make([]elemID, 0, n)
	for len(ids) < n {
		if id := h.big.random(h.t); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return h.picked(ids, values)
}

// pickAny chooses n members, each by itself.
func (h *handle) pickAny(n int, values bool) ([]Picked, error) {
	if h.big == nil {
		out := make([]Picked, n)
		for i := range out {
			m := &h.list[h.t.Random(uint64(len(h.list)))]
			out[i] = Picked{m.name, m.val, m.score}
		}
		return out, nil
	}
	ids := make([]elemID, n)
	for i := range ids {
		ids[i] = h.big.random(h.t)
	}
	return h.picked(ids, values)
}

func (h *handle) picked(ids []elemID, values bool) ([]Picked, error) {
	out := make([]Picked, len(ids))
	var missed error
	for i, id := range ids {
		e := h.big.at(id)
		out[i].Name = h.big.name(e)
		switch {
		case h.typ == keyspace.TypeZSet:
			out[i].Score = scoreOf(e.aux)
		case values && h.typ == keyspace.TypeHash:
			val, err := h.k.load(h.t, h.key, h.big, id)
			if err != nil {
				if missed = err; !isMiss(err) {
					return nil, err
				}
			}
			out[i].Val = val
		}
	}
	return out, missed
}

// ScanMembers calls f for about count members of a hash, set or sorted set, from cursor on, and returns the cursor at which to
// go on; 0 begins, 0 ends. Of what f was called for, nothing counts after an error. A small collection is passed on whole.
func ScanMembers(t *keyspace.Tx, key []byte, typ keyspace.TypeID, cursor uint64, count int, match []byte, f func(name, val []byte, score float64)) (uint64, error) {
	h, err := open(t, key, typ)
	if err != nil || !h.exists() {
		return 0, err
	}
	if h.big == nil {
		for i := range h.list {
			if m := &h.list[i]; match == nil || keyspace.Match(match, m.name) {
				f(m.name, m.val, m.score)
			}
		}
		return 0, nil
	}
	var missed error
	next := h.big.dict.scan(h.big, cursor, count, func(id elemID) {
		e := h.big.at(id)
		name := h.big.name(e)
		if match != nil && !keyspace.Match(match, name) {
			return
		}
		var val []byte
		var score float64
		switch typ {
		case keyspace.TypeHash:
			if val, err = h.k.load(t, key, h.big, id); err != nil && (missed == nil || isMiss(missed)) {
				missed = err
			}
		case keyspace.TypeZSet:
			score = scoreOf(e.aux)
		}
		f(name, val, score)
	})
	return next, missed
}
