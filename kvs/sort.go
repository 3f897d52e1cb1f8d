package kvs

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"cvmstore/keyspace"
)

// ErrSortNumbers: what SORT should compare are no numbers.
var ErrSortNumbers = errors.New("ERR One or more scores can't be converted into double")

// SortOptions of a SORT.
type SortOptions struct {
	By            []byte // a pattern whose keys hold what is compared; nil: the elements themselves
	Unsorted      bool   // leave the order as it is
	Desc, Alpha   bool
	Offset, Count int64    // skip and take; a negative Count takes all
	Get           [][]byte // patterns of what is returned for each element; none: the element itself
	Store         bool     // the result is stored, so its order must not depend on a hash table
}

// SortValue is one value of the result; OK is false where a pattern led nowhere.
type SortValue struct {
	Val []byte
	OK  bool
}

// sortable is an element and what it is compared by.
type sortable struct {
	val    []byte
	by     SortValue
	number float64
}

// Sort returns the elements of a list, set or sorted set in order, or what patterns make of them. All keys of the database have
// to be locked if there are patterns. Values are valid until End.
func Sort(t *keyspace.Tx, key []byte, o SortOptions) ([]SortValue, error) {
	vals, typ, err := elements(t, key)
	if err != nil {
		return nil, err
	}
	if o.Unsorted && typ == keyspace.TypeSet && o.Store {
		o.Unsorted, o.Alpha, o.By = false, true, nil
	}
	if o.Unsorted && o.Desc && typ != keyspace.TypeSet {
		slices.Reverse(vals)
	}
	if !o.Unsorted {
		if vals, err = sorted(t, vals, &o); err != nil {
			return nil, err
		}
	}
	from := min(max(o.Offset, 0), int64(len(vals)))
	to := int64(len(vals))
	if o.Count >= 0 {
		to = min(to, from+min(o.Count, to))
	}
	return project(t, vals[from:to], o.Get)
}

// elements returns all elements of a key, in a slice of their own.
func elements(t *keyspace.Tx, key []byte) (vals [][]byte, typ keyspace.TypeID, err error) {
	it, err := t.Find(key)
	if err != nil || !it.Exists() {
		return nil, 0, err
	}
	switch it.Type {
	case keyspace.TypeList:
		vals, err = LRange(t, key, 0, -1)
		return slices.Clone(vals), it.Type, err
	case keyspace.TypeSet, keyspace.TypeZSet:
		h, err := open(t, key, it.Type)
		if err != nil {
			return nil, 0, err
		}
		vals = make([][]byte, 0, h.count)
		err = h.all(false, func(name, _ []byte, _ float64) bool {
			vals = append(vals, name)
			return true
		})
		return vals, it.Type, err
	}
	return nil, 0, keyspace.ErrWrongType
}

// sorted looks up what the elements are compared by, and sorts them.
func sorted(t *keyspace.Tx, vals [][]byte, o *SortOptions) ([][]byte, error) {
	all := make([]sortable, len(vals))
	var missed error
	for i, v := range vals {
		all[i] = sortable{val: v, by: SortValue{v, true}}
		if o.By == nil {
			continue
		}
		var err error
		if all[i].by, err = pattern(o.By).value(t, v); err != nil {
			if missed = err; !isMiss(err) {
				return nil, err
			}
		}
	}
	if missed != nil {
		return nil, missed
	}
	if !o.Alpha {
		for i := range all {
			if s := &all[i]; s.by.OK {
				var ok bool
				if s.number, ok = leadingDouble(s.by.Val); !ok {
					return nil, ErrSortNumbers
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b sortable) int {
		if o.Desc {
			a, b = b, a
		}
		return a.compare(&b, o.Alpha)
	})
	for i := range all {
		vals[i] = all[i].val
	}
	return vals, nil
}

func (s *sortable) compare(b *sortable, alpha bool) int {
	switch {
	case !alpha && s.number < b.number:
		return -1
	case !alpha && s.number > b.number:
		return 1
	case !alpha:
		return bytes.Compare(s.val, b.val)
	case s.by.OK && b.by.OK:
		return bytes.Compare(s.by.Val, b.by.Val)
	case b.by.OK: // nothing comes before everything
		return -1
	case s.by.OK:
		return 1
	}
	return 0
}

// project returns what the patterns make of each element. It asks for all that is on the device before it gives up.
func project(t *keyspace.Tx, vals [][]byte, get [][]byte) (out []SortValue, missed error) {
	out = make([]SortValue, 0, len(vals)*max(1, len(get)))
	for _, v := range vals {
		if len(get) == 0 {
			out = append(out, SortValue{v, true})
		}
		for _, g := range get {
			x, err := pattern(g).value(t, v)
			if err != nil {
				if missed = err; !isMiss(err) {
					return nil, err
				}
			}
			out = append(out, x)
		}
	}
	return out, missed
}

// pattern is where SORT finds something about an element: "#" is the element, else it takes the place of the first "*" in a
// key's name, and a field of a hash may follow after "->".
type pattern []byte

// SortsBy says whether a pattern depends on the element at all.
func SortsBy(p []byte) bool { return bytes.IndexByte(text(p), '*') >= 0 }

// text is p as C reads it, up to the first zero byte.
func text(p []byte) []byte {
	p, _, _ = bytes.Cut(p, []byte{0})
	return p
}

func (p pattern) value(t *keyspace.Tx, element []byte) (SortValue, error) {
	if string(text(p)) == "#" {
		return SortValue{element, true}, nil
	}
	star := bytes.IndexByte(text(p), '*')
	if star < 0 {
		return SortValue{}, nil
	}
	rest, field := p[star+1:], []byte(nil)
	if i := bytes.Index(text(rest), []byte("->")); i >= 0 && len(text(rest)) > i+2 {
		rest, field = rest[:i], rest[i+2:]
	}
	key := slices.Concat(p[:star], element, rest)
	it, err := t.Find(key)
	if err != nil || !it.Exists() {
		return SortValue{}, err
	}
	var x SortValue
	switch {
	case field != nil && it.Type == keyspace.TypeHash:
		x.Val, x.OK, err = HGet(t, key, field)
	case field == nil && it.Type == keyspace.TypeString:
		x.Val, x.OK, err = Get(t, key)
	}
	return x, err
}

// leadingDouble reads a number as C's strtod does: blanks may come before it, a zero byte ends it, and nothing at all is 0.
func leadingDouble(b []byte) (float64, bool) {
	b = text(b)
	if len(b) == 0 {
		return 0, true
	}
	f, ok := ParseDouble(bytes.TrimLeft(b, " \t\n\v\f\r"))
	return f, ok && (f == 0 || math.Abs(f) >= 0x1p-1022) // what is denormal counts as out of range
}
