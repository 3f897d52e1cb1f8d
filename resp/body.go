package resp

import (
	"errors"
	"fmt"
	"time"

	"cvmstore/files"
	"cvmstore/resp/command"
	"cvmstore/volume"
)

// body is an argument that is sealed while it arrives: the value of a SET, say. The loop reads it from the socket into a chunk of
// private memory, and each chunk that is full goes to the device. The command runs when all of it is there and flushed, and
// finds a blob in place of the argument. What goes wrong before that is the command's error, after the rest was thrown away.
type body struct {
	l       *loop
	arg     int // which argument
	size    int64
	file    bool               // it becomes a part of a file
	chunk   int                // of it
	w       *volume.BlobWriter // nil: no room yet, thrown away, or done
	blob    *volume.Blob       // done
	err     error              // thrown away
	started int64              // monotonic nanoseconds
	last    int64              // when bytes came in
}

const (
	// bodyStall is how long a client may stop in the middle of a body: it holds memory and space.
	bodyStall = time.Minute
	// bodyRoom is how long a body waits for blocks that were freed to be free.
	bodyRoom = 30 * time.Second
	// bodyRetry is how often a body asks for room that nobody told it of.
	bodyRetry = 2 * time.Millisecond
)

// bodyFor is the parser's bodyFunc: it says which arguments are sealed as they arrive.
func (l *loop) bodyFor(p *parser, buf []byte, size int64) bodySink {
	s := l.parsing
	least := int64(l.srv.space.BlobBytes())
	if l.vol == nil || least < 0 || size < least || size == 0 || len(p.args) == 0 || !s.Authenticated || s.Queueing || s.body != nil {
		return nil
	}
	if !command.TakesBody(p.arg(buf, 0), len(p.args)) {
		return nil
	}
	s.body = &body{l: l, arg: len(p.args), size: size, started: l.now, last: l.now}
	if len(p.args) > 1 {
		s.body.file, s.body.chunk = command.FileBody(files.Of(l.srv.space), p.arg(buf, 0), p.arg(buf, 1))
	}
	l.bodies = append(l.bodies, s)
	return s.body
}

// begin makes the writer, if there is room.
func (b *body) begin() {
	if b.w != nil || b.err != nil || b.blob != nil {
		return
	}
	io, err := b.l.blobIO()
	switch {
	case err == nil && b.file:
		b.w, err = io.NewFileWriter(b.size, b.chunk)
	case err == nil:
		b.w, err = io.NewWriter(b.size)
	}
	switch {
	case err == nil:
	case errors.Is(err, volume.ErrBusy) && b.l.now-b.started < int64(bodyRoom):
	case errors.Is(err, volume.ErrBusy):
		b.err = fmt.Errorf("blocks that were freed are still in use: %w", volume.ErrFull)
	default:
		b.err = err
	}
}

// take implements bodySink.
func (b *body) take(piece []byte) int {
	b.begin()
	b.last = b.l.now
	if b.w != nil {
		n := b.w.Write(piece)
		if n == len(piece) || !b.broken() {
			return n
		}
	}
	if b.err != nil {
		return len(piece)
	}
	return 0
}

// broken notes that the writer has failed.
func (b *body) broken() bool {
	if _, err := b.w.Done(); err != nil {
		b.w.Abandon()
		b.w, b.err = nil, err
	}
	return b.err != nil
}

// space is where up to n bytes that come next go. Empty: it must wait.
func (b *body) space(n int64) []byte {
	b.begin()
	if b.w != nil {
		if into := b.w.Buffer(); len(into) > 0 || !b.broken() {
			return into
		}
	}
	if b.err != nil {
		return b.l.rbuf[:min(n, int64(len(b.l.rbuf)))]
	}
	return nil
}

func (b *body) filled(n int) {
	b.last = b.l.now
	if b.w != nil {
		b.w.Fill(n)
	}
}

// ready reports whether the command may run: the blob is there and flushed, or there is none.
func (b *body) ready() bool {
	if b.blob != nil || b.err != nil {
		return true
	}
	if b.w == nil {
		return false
	}
	done, err := b.w.Done()
	switch {
	case err != nil:
		b.broken()
	case done:
		b.blob, b.w = b.w.Blob(), nil
	}
	return done || err != nil
}

// dropBody ends a body: the command has run, or never will.
func (l *loop) dropBody(s *session) {
	b := s.body
	if b == nil {
		return
	}
	s.body = nil
	if b.w != nil {
		b.w.Abandon()
	}
	if b.blob != nil {
		b.blob.Release(0)
	}
	for i, x := range l.bodies {
		if x == s {
			l.bodies = append(l.bodies[:i], l.bodies[i+1:]...)
			break
		}
	}
}

// readBody reads from the socket into the body, past the input buffer.
func (l *loop) readBody(s *session) {
	for turn := l.turn; turn > 0; {
		left := s.p.bodyLeft()
		if left == 0 {
			break
		}
		into := s.body.space(left)
		into = into[:min(len(into), turn)]
		if len(into) == 0 {
			s.phase = phaseBody
			l.mute(s, true)
			return
		}
		n, err := s.conn.read(into)
		if err == errAgain {
			if s.conn.unsent() > 0 { // TLS may have answered by itself
				l.flush(s)
			}
			return
		}
		if err != nil || n == 0 {
			l.close(s) // in the middle of a command: nothing of it remains
			return
		}
		s.BytesIn += uint64(n)
		s.LastUsed = l.now
		bump(&l.stats.netIn, uint64(n))
		s.body.filled(n)
		s.p.sank(n)
		turn -= n
		if n < len(into) {
			break
		}
	}
	if s.conn.held() {
		l.again(s)
	}
}

// stepBodies lets sessions go on whose body can.
func (l *loop) stepBodies(moved bool) {
	if l.now-l.bodiesTried >= int64(bodyRetry) {
		moved = true
	}
	l.bodiesWait = false
	for _, s := range l.bodies {
		switch {
		case s.phase != phaseBody:
		case s.pinned && s.body.ready(), !s.pinned && moved:
			s.phase = phaseRun
			l.again(s)
		default:
			l.bodiesWait = true
		}
	}
	if moved {
		l.bodiesTried = l.now
	}
}

// stalledBodies closes clients that stopped in the middle of a body.
func (l *loop) stalledBodies() {
	for i := len(l.bodies) - 1; i >= 0; i-- {
		s := l.bodies[i]
		if s.phase == phaseRun && !s.pinned && l.now-s.body.last > int64(bodyStall) {
			l.srv.log.Warn().Uint64("client", s.ID).Int64("bytes", s.body.size).Msg("closed: it stopped in the middle of a value")
			l.close(s)
		}
	}
}
