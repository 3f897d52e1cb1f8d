package kvs

import (
	"math"
	"slices"

	"cvmstore/keyspace"
)

// Union, intersection and difference of sorted sets.

// Aggregate says what becomes of the scores of a member that several sets have.
type Aggregate uint8

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
