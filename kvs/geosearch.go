package kvs

import (
	"slices"

	"cvmstore/keyspace"
	"cvmstore/kvs/geo"
)

// Located is a member of a sorted set whose score is a place, as a search has found it.
type Located struct {
	Member   []byte // valid until End
	Score    float64
	At       geo.Point
	Distance float64 // from the middle of the area, in metres
}

// GeoOrder is the order of what a search finds.
type GeoOrder uint8

// The orders. None is that of the cells of the grid.
const (
	GeoUnordered GeoOrder = iota
	GeoNearest
	GeoFarthest
)

// GeoSearch returns the members within an area. limit ends the search when so many were found, whichever they are; 0: none.
func GeoSearch(t *keyspace.Tx, key []byte, a *geo.Area, order GeoOrder, limit int64) ([]Located, error) {
	h, err := open(t, key, keyspace.TypeZSet)
	if err != nil || !h.exists() {
		return nil, err
	}
	var out []Located
	for _, r := range a.Ranges() {
		in := ZRange{By: ByScore, Low: ScoreBound{Score: r.Min}, High: ScoreBound{Score: r.Max, Open: true}}
		from, to := in.in(h)
		h.ranked(from, to, false, func(member []byte, score float64) {
			if limit > 0 && int64(len(out)) >= limit {
				return
			}
			at := geo.Place(score)
			if d, inside := a.Contains(at); inside {
				out = append(out, Located{member, score, at, d})
			}
		})
	}
	if order != GeoUnordered {
		slices.SortStableFunc(out, func(x, y Located) int {
			if order == GeoFarthest {
				x, y = y, x
			}
			switch {
			case x.Distance < y.Distance:
				return -1
			case x.Distance > y.Distance:
				return 1
			}
			return 0
		})
	}
	return out, nil
}
