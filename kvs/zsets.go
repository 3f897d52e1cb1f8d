package kvs

import (
	"errors"
	"math"

	"cvmstore/keyspace"
)

// ErrScoreNaN: an increment would make a score that is no number.
var ErrScoreNaN = errors.New("ERR resulting score is not a number (NaN)")

// Scored is a member and its score.
type Scored struct {
	Member []byte
	Score  float64
}

// ZAddOptions of a ZADD.
type ZAddOptions struct {
	NX, XX, GT, LT bool
	Incr           bool // add to the score
}

// ZAddResult counts what a ZADD did.
type ZAddResult struct {
	Added, Changed int     // new members; old ones with another score
	Score          float64 // with Incr: the score after it
	Done           bool    // with Incr: false if a condition did not hold
}

// ZAdd sets the scores of members.
func ZAdd(t *keyspace.Tx, key []byte, pairs []Scored, o ZAddOptions) (res ZAddResult, err error) {
	h, err := open(t, key, keyspace.TypeZSet)
	if err != nil {
		return res, err
	}
	if o.XX && !h.exists() {
		return res, nil
	}
	for i := range pairs {
		if err := h.zadd(&pairs[i], o, &res); err != nil {
			return ZAddResult{}, err
		}
	}
	if res.Added+res.Changed == 0 {
		return res, nil
	}
	event := "zadd"
	if o.Incr {
		event = "zincr"
	}
	return res, h.commit(event)
}

func (h *handle) zadd(p *Scored, o ZAddOptions, res *ZAddResult) error {
	old, found := h.score(p.Member)
	score := p.Score
	if found && o.NX || !found && o.XX {
		return nil
	}
	if found && o.Incr {
		if score += old; math.IsNaN(score) {
			return ErrScoreNaN
		}
	}
	if found && (o.GT && score <= old || o.LT && score >= old) {
		return nil
	}
	res.Score, res.Done = score, true
	switch {
	case !found:
		res.Added++
	case score != old:
		res.Changed++
	default:
		return nil
	}
	h.set(p.Member, nil, score)
	return nil
}

// ZRem removes members and returns how many there were.
func ZRem(t *keyspace.Tx, key []byte, members [][]byte) (int, error) {
	return removeMembers(t, key, keyspace.TypeZSet, members, "zrem")
}

// ZCard counts the members.
func ZCard(t *keyspace.Tx, key []byte) (int, error) { return countMembers(t, key, keyspace.TypeZSet) }

// ZScore returns the scores of members; OK is false where there is none.
func ZScore(t *keyspace.Tx, key []byte, members [][]byte, f func(score float64, ok bool)) error {
	h, err := open(t, key, keyspace.TypeZSet)
	if err != nil {
		return err
	}
	for _, m := range members {
		f(h.score(m))
	}
	return nil
}

// ZRank returns how many members come before one, from the highest with reverse, and its score.
func ZRank(t *keyspace.Tx, key, member []byte, reverse bool) (rank int, score float64, ok bool, err error) {
	h, err := open(t, key, keyspace.TypeZSet)
	if err != nil {
		return 0, 0, false, err
	}
	if score, ok = h.score(member); !ok {
		return 0, 0, false, nil
	}
	rank = h.before(func(s float64, m []byte) bool { return compareMembers(s, m, score, member) < 0 })
	if reverse {
		rank = h.count - 1 - rank
	}
	return rank, score, true, nil
}

// before counts the members before a point of the order.
func (h *handle) before(f func(score float64, member []byte) bool) int {
	if h.big != nil {
		return h.big.tree.search(func(id elemID) bool {
			e := h.big.at(id)
			return f(scoreOf(e.aux), h.big.name(e))
		})
	}
	lo, hi := 0, len(h.list)
	for lo < hi {
		if mid := (lo + hi) / 2; f(h.list[mid].score, h.list[mid].name) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// ranked calls f for the members with ranks in [from, to), backwards with reverse.
func (h *handle) ranked(from, to int, reverse bool, f func(member []byte, score float64)) {
	if h.big != nil {
		h.big.tree.walk(from, to, reverse, func(id elemID) bool {
			e := h.big.at(id)
			f(h.big.name(e), scoreOf(e.aux))
			return true
		})
		return
	}
	for i := range to - from {
		m := &h.list[from+i]
		if reverse {
			m = &h.list[to-1-i]
		}
		f(m.name, m.score)
	}
}

// The ways.
const (
	ByRank ZBy = iota
	ByScore
	ByLex
)

// ZStore makes a key a sorted set of these members, which are all different, over whatever it held. Without any it is deleted.
// The members must not be those of a key of this transaction's, but copies.
func ZStore(t *keyspace.Tx, key []byte, members []Scored, event string) error {
	h := &handle{t: t, key: key, typ: keyspace.TypeZSet, k: t.TypeOf(keyspace.TypeZSet).(*collType).Collections}
	for _, m := range members {
		h.list = append(h.list, member{name: m.Member, score: m.Score, changed: true})
	}
	h.count = len(h.list)
	return h.overwrite(event)
}

// takeRanks removes the members with ranks in [from, to) and returns copies.
func (h *handle) takeRanks(from, to int, reverse bool) []Scored {
	out := make([]Scored, 0, to-from)
	h.ranked(from, to, reverse, func(member []byte, score float64) {
		out = append(out, Scored{append([]byte{}, member...), score})
	})
	for i := range out {
		h.del(out[i].Member)
	}
	return out
}

// ZPop removes up to count members with the lowest scores, or the highest, and returns them.
func ZPop(t *keyspace.Tx, key []byte, highest bool, count int64) ([]Scored, error) {
	h, err := open(t, key, keyspace.TypeZSet)
	if err != nil || h.count == 0 || count <= 0 {
		return nil, err
	}
	n := int(min(count, int64(h.count)))
	from, to, event := 0, n, "zpopmin"
	if highest {
		from, to, event = h.count-n, h.count, "zpopmax"
	}
	out := h.takeRanks(from, to, highest)
	return out, h.commit(event)
}

// ZRandMember chooses members as HRandField chooses fields.
func ZRandMember(t *keyspace.Tx, key []byte, count int64) ([]Picked, error) {
	return pick(t, key, keyspace.TypeZSet, count, false)
}

// The ways.
const (
	AggregateSum Aggregate = iota
	AggregateMin
	AggregateMax
)
