package kvs

import (
	"bytes"
	"errors"
	"math"
	"slices"

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

// ZBy says what a range's ends are.
type ZBy uint8

// The ways.
const (
	ByRank ZBy = iota
	ByScore
	ByLex
)

// ScoreBound is an end of a range of scores.
type ScoreBound struct {
	Score float64
	Open  bool // the end itself is outside
}

// LexBound is an end of a range of members.
type LexBound struct {
	Member   []byte
	Open     bool
	Infinite int8 // -1: before all, 1: after all
}

// ZRange is a range of a sorted set.
type ZRange struct {
	By             ZBy
	Reverse        bool
	Start, Stop    int64 // ByRank: both inside, negative ones from the end; in the direction of Reverse
	Low, High      ScoreBound
	LexLow, LexTop LexBound
	Offset, Count  int64 // not ByRank: skip and take; a negative Count takes all
	Limited        bool  // Offset and Count are meant
}

// in returns the ranks [from, to) of the range.
func (r *ZRange) in(h *handle) (from, to int) {
	n := h.count
	switch r.By {
	case ByRank:
		start, stop := r.Start, r.Stop
		if start < 0 {
			start = max(start+int64(n), 0)
		}
		if stop < 0 {
			stop += int64(n)
		}
		stop = min(stop, int64(n)-1)
		if start > stop || start >= int64(n) {
			return 0, 0
		}
		if r.Reverse {
			return n - 1 - int(stop), n - int(start)
		}
		return int(start), int(stop) + 1
	case ByScore:
		if r.Low.Score > r.High.Score || r.Low.Score == r.High.Score && (r.Low.Open || r.High.Open) {
			return 0, 0
		}
		from = h.before(func(s float64, _ []byte) bool { return s < r.Low.Score || r.Low.Open && s == r.Low.Score })
		to = h.before(func(s float64, _ []byte) bool { return s < r.High.Score || !r.High.Open && s == r.High.Score })
	case ByLex:
		from = h.before(func(_ float64, m []byte) bool {
			c := r.LexLow.compare(m)
			return c < 0 || c == 0 && r.LexLow.Open
		})
		to = h.before(func(_ float64, m []byte) bool {
			c := r.LexTop.compare(m)
			return c < 0 || c == 0 && !r.LexTop.Open
		})
	}
	if from >= to {
		return 0, 0
	}
	if !r.Limited {
		return from, to
	}
	if r.Offset < 0 || r.Offset >= int64(to-from) {
		return 0, 0
	}
	take := int64(to-from) - r.Offset
	if r.Count >= 0 {
		take = min(take, r.Count)
	}
	if r.Reverse {
		return to - int(r.Offset) - int(take), to - int(r.Offset)
	}
	return from + int(r.Offset), from + int(r.Offset) + int(take)
}

// compare says where a member is to the bound: negative before it.
func (b *LexBound) compare(m []byte) int {
	if b.Infinite != 0 {
		return int(-b.Infinite)
	}
	return bytes.Compare(m, b.Member)
}

// ZRangeOf calls f for the members of a range, in its direction; begin is told their number before.
func ZRangeOf(t *keyspace.Tx, key []byte, r ZRange, begin func(n int), f func(member []byte, score float64)) error {
	h, err := open(t, key, keyspace.TypeZSet)
	if err != nil {
		return err
	}
	from, to := r.in(h)
	begin(to - from)
	h.ranked(from, to, r.Reverse, f)
	return nil
}

// ZCount counts the members of a range.
func ZCount(t *keyspace.Tx, key []byte, r ZRange) (int, error) {
	h, err := open(t, key, keyspace.TypeZSet)
	if err != nil {
		return 0, err
	}
	from, to := r.in(h)
	return to - from, nil
}

// ZRangeStore makes dest the members of a range, over whatever it held, and returns their number.
func ZRangeStore(t *keyspace.Tx, dest, key []byte, r ZRange) (int, error) {
	var out []Scored
	err := ZRangeOf(t, key, r, func(int) {}, func(member []byte, score float64) {
		out = append(out, Scored{append([]byte{}, member...), score})
	})
	if err != nil {
		return 0, err
	}
	return len(out), ZStore(t, dest, out, "zrangestore")
}

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

// ZRemRange removes the members of a range and returns how many there were.
func ZRemRange(t *keyspace.Tx, key []byte, r ZRange) (int, error) {
	h, err := open(t, key, keyspace.TypeZSet)
	if err != nil || !h.exists() {
		return 0, err
	}
	from, to := r.in(h)
	if from == to {
		return 0, nil
	}
	h.takeRanks(from, to, false)
	return to - from, h.commit([...]string{"zremrangebyrank", "zremrangebyscore", "zremrangebylex"}[r.By])
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

// Aggregate says what becomes of the scores of a member that several sets have.
type Aggregate uint8

// The ways.
const (
	AggregateSum Aggregate = iota
	AggregateMin
	AggregateMax
)

func (a Aggregate) of(x, y float64) float64 {
	switch a {
	case AggregateMin:
		return min(x, y)
	case AggregateMax:
		return max(x, y)
	}
	if s := x + y; !math.IsNaN(s) {
		return s
	}
	return 0 // inf and -inf
}

// zSource is a sorted set, or a set whose members have the score 1.
type zSource struct {
	*handle
	weight float64
}

func (s *zSource) scoreOf(name []byte) (float64, bool) {
	if s.typ == keyspace.TypeSet {
		return s.weigh(1), s.has(name)
	}
	score, ok := s.score(name)
	return s.weigh(score), ok
}

func (s *zSource) weigh(score float64) float64 {
	if w := score * s.weight; !math.IsNaN(w) {
		return w
	}
	return 0
}

// CheckSources says whether all keys are sorted sets, sets or absent.
func CheckSources(t *keyspace.Tx, keys [][]byte) error {
	for _, key := range keys {
		it, err := t.Find(key)
		if err != nil {
			return err
		}
		if it.Exists() && it.Type != keyspace.TypeZSet && it.Type != keyspace.TypeSet {
			return keyspace.ErrWrongType
		}
	}
	return nil
}

// openSources opens keys that are sorted sets, sets or absent.
func openSources(t *keyspace.Tx, keys [][]byte, weights []float64) (out []zSource, missed error) {
	for i, key := range keys {
		typ := keyspace.TypeZSet
		it, err := t.Find(key)
		if err != nil {
			return nil, err
		}
		if it.Type == keyspace.TypeSet {
			typ = it.Type
		}
		h, err := open(t, key, typ)
		if err != nil {
			if missed = err; !isMiss(err) {
				return nil, err
			}
		}
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		out = append(out, zSource{h, w})
	}
	return out, missed
}

// ZOperation combines sorted sets and sets and returns the result in order; members are copies. limit stops an intersection
// that is only counted; 0: none.
func ZOperation(t *keyspace.Tx, op SetOp, keys [][]byte, weights []float64, agg Aggregate, limit int) ([]Scored, error) {
	src, err := openSources(t, keys, weights)
	if err != nil {
		return nil, err
	}
	var out []Scored
	switch op {
	case SetUnion:
		out, err = zUnion(src, agg)
	case SetInter:
		out, err = zInter(src, agg, limit)
	default:
		err = src[0].all(false, func(name, _ []byte, _ float64) bool {
			score, _ := src[0].scoreOf(name)
			for i := range src[1:] {
				if src[1+i].has(name) {
					return true
				}
			}
			out = append(out, Scored{append([]byte{}, name...), score})
			return true
		})
	}
	slices.SortFunc(out, func(a, b Scored) int { return compareMembers(a.Score, a.Member, b.Score, b.Member) })
	return out, err
}

func zUnion(src []zSource, agg Aggregate) (out []Scored, err error) {
	at := map[string]int{}
	for i := range src {
		s := &src[i]
		err := s.all(false, func(name, _ []byte, score float64) bool {
			if s.typ == keyspace.TypeSet {
				score = 1
			}
			score = s.weigh(score)
			if j, ok := at[string(name)]; ok {
				out[j].Score = agg.of(out[j].Score, score)
				return true
			}
			at[string(name)] = len(out)
			out = append(out, Scored{append([]byte{}, name...), score})
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func zInter(src []zSource, agg Aggregate, limit int) (out []Scored, err error) {
	// By size, as Redis does: the order is that in which scores are added up.
	slices.SortStableFunc(src, func(a, b zSource) int { return a.count - b.count })
	err = src[0].all(false, func(name, _ []byte, _ float64) bool {
		sum, _ := src[0].scoreOf(name)
		for i := range src[1:] {
			s := &src[1+i]
			score, ok := s.scoreOf(name)
			if !ok {
				return true
			}
			sum = agg.of(sum, score)
		}
		out = append(out, Scored{append([]byte{}, name...), sum})
		return limit == 0 || len(out) < limit
	})
	return out, err
}
