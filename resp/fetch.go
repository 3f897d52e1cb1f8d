package resp

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// readerDepth is the number of reads that one loop keeps in flight.
const readerDepth = 128

// fetchTable holds the reads that a loop has asked its Reader for, by token, and those that found the Reader full.
type fetchTable struct {
	slots []fetchSlot
	free  []uint32
	queue []pendingFetch
	got   [32]volume.Fetched
}

type fetchSlot struct {
	s  *session
	at volume.Place
}

type pendingFetch struct {
	s *session
	f volume.Fetch
}

// fetch parks a session until the values that its command missed have arrived. False: there is no reader.
func (l *loop) fetch(s *session, tx *keyspace.Tx) bool {
	misses, jobs := tx.Misses(), tx.Jobs()
	if l.reader == nil || len(misses)+len(jobs) == 0 {
		return false
	}
	if len(jobs) > 0 && !s.settled && hasBytes(jobs) {
		tx.Forget() // its arguments will move: it runs again when they have
		l.again(s)
		return true
	}
	l.txTake(s)
	if tx != s.tx {
		// The command ran on the loop's transaction; what it asked for and supplied would be lost there.
		s.tx.TakeOver(tx)
	}
	s.phase = phaseFetch
	s.fetches += len(misses) + len(jobs)
	for _, f := range misses {
		l.submitFetch(s, f)
	}
	for _, j := range jobs {
		l.startJob(s, j)
	}
	return true
}

func (l *loop) submitFetch(s *session, f volume.Fetch) {
	t := &l.fetches
	if len(t.queue) > 0 && l.reader.Outstanding() > 0 {
		t.queue = append(t.queue, pendingFetch{s, f})
		return
	}
	var token uint32
	if n := len(t.free); n > 0 {
		token, t.free = t.free[n-1], t.free[:n-1]
	} else {
		token = uint32(len(t.slots))
		t.slots = append(t.slots, fetchSlot{})
	}
	t.slots[token] = fetchSlot{s, f.At}
	err := l.reader.Submit(f, uint64(token))
	switch {
	case err == nil:
	case errors.Is(err, volume.ErrBusy) && l.reader.Outstanding() > 0:
		l.freeSlot(token)
		t.queue = append(t.queue, pendingFetch{s, f})
	default:
		l.freeSlot(token)
		l.arrived(s, f.At, nil, err)
	}
}

func (l *loop) freeSlot(token uint32) {
	l.fetches.slots[token] = fetchSlot{}
	l.fetches.free = append(l.fetches.free, token)
}

// pollReader takes what the device has answered and submits what had to wait. A value that is in memory is answered at once and
// signals nothing, so it looks again after each submission.
func (l *loop) pollReader() {
	if l.reader == nil {
		return
	}
	t := &l.fetches
	for l.reader.Outstanding() > 0 || len(t.queue) > 0 {
		n := l.reader.Poll(t.got[:])
		for i := range t.got[:n] {
			g := &t.got[i]
			slot := t.slots[g.Token]
			l.freeSlot(uint32(g.Token))
			l.arrived(slot.s, slot.at, g.Payload, g.Err)
			*g = volume.Fetched{}
		}
		if submitted := l.submitQueued(); n == 0 && !submitted {
			return
		}
	}
}

// submitQueued submits the reads that found the Reader full, as far as it takes them, and reports whether it took any.
func (l *loop) submitQueued() bool {
	t := &l.fetches
	queue := t.queue
	t.queue = nil
	for i, p := range queue {
		l.submitFetch(p.s, p.f)
		if len(t.queue) > 0 {
			t.queue = append(t.queue, queue[i+1:]...)
			return i > 0
		}
	}
	return len(queue) > 0
}

// arrived hands one value to the session that waits for it; with the last one its command runs again.
func (l *loop) arrived(s *session, at volume.Place, payload []byte, err error) {
	s.fetches--
	switch {
	case errors.Is(err, volume.ErrMoved): // by compaction, since the command looked: it runs again and finds the new place
	case errors.Is(err, volume.ErrCorrupt) && s.tx != nil:
		s.tx.Refuse(at, err)
	case err != nil:
		s.fetchErr = err
	case s.tx != nil:
		s.tx.Supply(at, payload)
	}
	l.fetched(s)
}

// fetched lets a session go on whose command has all that it asked for.
func (l *loop) fetched(s *session) {
	if s.fetches > 0 {
		return
	}
	if s.closed {
		if s.tx != nil {
			l.txFree(s)
		}
		return
	}
	if s.phase == phaseFetch {
		l.wake(s)
	}
}
