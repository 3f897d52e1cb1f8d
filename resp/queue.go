package resp

import (
	"math"

	"cvmstore/resp/command"
	"cvmstore/volume"
)

// queue holds a session's replies in order: bytes, and marks that say what the bytes wait for. A reply leaves when everything
// that it saw has reached the level of its connection, and when the replies before it have left (DESIGN.md 4.1, 4.3).
//
// Bytes of out: [0, sent) have left, [sent, released) may leave, the rest waits for marks.
type queue struct {
	out      []byte
	sent     int
	released int
	marks    []mark
	parts    []outPart // blobs that stand between bytes of out, in order (stream.go)
}

// mark covers the bytes of out from the mark before it (or from released) up to end.
type mark struct {
	end      int
	counter  volume.Counter // 0: these replies wait only for those before them
	level    volume.Level
	replies  int
	instead  []byte // what follows the errors if they take the place of all this
	round    uint64 // of the loop, in which the mark was made
	deadline int64  // monotonic nanoseconds
}

// waterline tells what has been reached; the volume, or a fake.
type waterline interface {
	Reached(volume.Counter, volume.Level) bool
}

// add ends a reply that was appended to out and depends on counter (0: on nothing that has not been reached).
func (q *queue) add(counter volume.Counter, level volume.Level, round uint64, deadline int64) {
	q.append(counter, level, round, deadline, 1)
}

// addPush ends a piece that is no reply: nothing takes its place if it does not get out.
func (q *queue) addPush(counter volume.Counter, level volume.Level, round uint64, deadline int64) {
	q.append(counter, level, round, deadline, 0)
}

func (q *queue) append(counter volume.Counter, level volume.Level, round uint64, deadline int64, replies int) {
	end := len(q.out)
	if counter == 0 && len(q.marks) == 0 {
		q.released = end
		return
	}
	if n := len(q.marks); n > 0 {
		last := &q.marks[n-1]
		// A pipeline waits once: replies of one round that wait for the same level wait together, since one frame carries
		// all their writes.
		switch {
		case counter == 0 && last.counter == 0,
			counter != 0 && last.counter != 0 && level == last.level && (counter <= last.counter || round == last.round):
			last.end = end
			last.replies += replies
			last.counter = max(last.counter, counter)
			return
		}
	}
	q.marks = append(q.marks, mark{end: end, counter: counter, level: level, replies: replies, round: round, deadline: deadline})
}

// release moves released over the marks that have been reached and reports whether it moved.
func (q *queue) release(v waterline) bool {
	n := 0
	for n < len(q.marks) && (q.marks[n].counter == 0 || v.Reached(q.marks[n].counter, q.marks[n].level)) {
		n++
	}
	if n == 0 {
		return false
	}
	q.released = q.marks[n-1].end
	q.marks = append(q.marks[:0], q.marks[n:]...)
	return true
}

// expire replaces the replies that have not been reached and whose deadline has passed (all of them if cause, the volume's
// failure, is not nil) by text, and returns how many. Replies that wait for nothing themselves stay as they are. The caller has
// called release.
func (q *queue) expire(v waterline, now int64, cause error, text string) (replaced int) {
	if len(q.marks) == 0 || cause == nil && q.marks[0].deadline > now {
		return 0
	}
	r := command.Reply{Buf: append([]byte(nil), q.out[q.sent:q.released]...)}
	var kept []outPart
	keep := func(from, to, at int) { kept = q.moveParts(kept, from, to, at) }
	keep(q.sent, q.released, 0)
	from, n := q.released, 0
	defer func() { q.parts = q.moveParts(kept, from, math.MaxInt, q.released) }()
	for ; n < len(q.marks); n++ {
		m := &q.marks[n]
		switch {
		case m.counter == 0 || v.Reached(m.counter, m.level):
			keep(from, m.end, len(r.Buf))
			r.Buf = append(r.Buf, q.out[from:m.end]...)
		case cause != nil || m.deadline <= now:
			if m.end > from { // nothing was to be sent after CLIENT REPLY OFF
				for range m.replies {
					r.Error(text)
				}
				r.Buf = append(r.Buf, m.instead...)
			}
			replaced += m.replies
		default:
			return replaced + q.replace(r.Buf, from, n)
		}
		from = m.end
	}
	return replaced + q.replace(r.Buf, from, n)
}

// replace puts front in place of what stands before from, which n marks covered, and releases it.
func (q *queue) replace(front []byte, from, n int) int {
	shift := len(front) - from
	q.released = len(front)
	q.out = append(front, q.out[from:]...)
	q.sent = 0
	q.marks = append(q.marks[:0], q.marks[n:]...)
	for i := range q.marks {
		q.marks[i].end += shift
	}
	return 0
}

// pending is the number of bytes that have not left.
func (q *queue) pending() int { return len(q.out) - q.sent }

// ready is what may be written now.
func (q *queue) ready() []byte {
	end := q.released
	if len(q.parts) > 0 {
		end = min(end, q.parts[0].At)
	}
	return q.out[q.sent:end]
}

// wrote takes note that n bytes of ready have left. It reports whether nothing is pending any more.
func (q *queue) wrote(n int) bool {
	q.sent += n
	if q.sent < len(q.out) {
		if q.sent > compactAt && q.sent > len(q.out)/2 {
			q.compact()
		}
		return false
	}
	q.out, q.sent, q.released = q.out[:0], 0, 0
	return true
}

const compactAt = 64 << 10

// compact drops what has left from the front of out.
func (q *queue) compact() {
	n := copy(q.out, q.out[q.sent:])
	q.out = q.out[:n]
	q.released -= q.sent
	for i := range q.parts {
		q.parts[i].At -= q.sent
	}
	for i := range q.marks {
		q.marks[i].end -= q.sent
	}
	q.sent = 0
}
