package streams

import "sort"

// pending is an entry that was delivered to a consumer and not yet acknowledged.
type pending struct {
	item
	id        ID
	consumer  *consumer
	delivered int64 // store time, ms
	count     uint64
}

// pendings is a list of pending entries in order, in short pieces, so that an insertion or removal moves little.
type pendings struct {
	chunks [][]*pending
	n      int
}

const pendingChunk = 256

// spot returns the chunk for an ID, and where in it the first one at or behind it is.
func (l *pendings) spot(id ID) (i, j int) {
	i = sort.Search(len(l.chunks), func(i int) bool {
		c := l.chunks[i]
		return !c[len(c)-1].id.Less(id)
	})
	if i == len(l.chunks) {
		return i, 0
	}
	c := l.chunks[i]
	return i, sort.Search(len(c), func(j int) bool { return !c[j].id.Less(id) })
}

func (l *pendings) find(id ID) *pending {
	i, j := l.spot(id)
	if i == len(l.chunks) || l.chunks[i][j].id != id {
		return nil
	}
	return l.chunks[i][j]
}

// insert adds p, whose ID is not in the list.
func (l *pendings) insert(p *pending) {
	l.n++
	i, j := l.spot(p.id)
	if i == len(l.chunks) {
		if i == 0 || len(l.chunks[i-1]) >= pendingChunk {
			l.chunks = append(l.chunks, append(make([]*pending, 0, 4), p))
			return
		}
		i--
		j = len(l.chunks[i])
	}
	c := append(l.chunks[i], nil)
	copy(c[j+1:], c[j:])
	c[j] = p
	l.chunks[i] = c
	if len(c) > pendingChunk {
		half := append(make([]*pending, 0, pendingChunk), c[len(c)/2:]...)
		l.chunks[i] = c[:len(c)/2]
		l.chunks = append(l.chunks, nil)
		copy(l.chunks[i+2:], l.chunks[i+1:])
		l.chunks[i+1] = half
	}
}

// remove takes out the entry of an ID, which is in the list.
func (l *pendings) remove(id ID) {
	i, j := l.spot(id)
	c := l.chunks[i]
	copy(c[j:], c[j+1:])
	c[len(c)-1] = nil
	l.chunks[i] = c[:len(c)-1]
	l.n--
	if len(c) == 1 {
		l.chunks = append(l.chunks[:i], l.chunks[i+1:]...)
	}
}

// ascend calls f for those from id on until it returns false. f changes nothing.
func (l *pendings) ascend(id ID, f func(p *pending) bool) {
	i, j := l.spot(id)
	for ; i < len(l.chunks); i, j = i+1, 0 {
		for _, p := range l.chunks[i][j:] {
			if !f(p) {
				return
			}
		}
	}
}

// first and last are those with the lowest and highest ID, nil if there are none.
func (l *pendings) first() *pending {
	if l.n == 0 {
		return nil
	}
	return l.chunks[0][0]
}

func (l *pendings) last() *pending {
	if l.n == 0 {
		return nil
	}
	c := l.chunks[len(l.chunks)-1]
	return c[len(c)-1]
}
