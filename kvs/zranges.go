package kvs

import (
	"bytes"

	"cvmstore/keyspace"
)

// Ranges of sorted sets.

// ZBy says what a range's ends are.
type ZBy uint8

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
