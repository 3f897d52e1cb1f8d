package resp

import (
	"errors"
	"io"

	"cvmstore/resp/command"
	"cvmstore/volume"
)

// outPart is a blob in a session's output: when the bytes before it have left, it is sent while it is read. Nothing of a chunk leaves
// before its tag is verified (DESIGN.md 5.3).
type outPart struct {
	command.BlobPart
	r *volume.BlobReader // nil until its turn
}

const (
	// partsMax bounds the blobs in the replies of one client.
	partsMax = 256
	// streamIdle is how long, in nanoseconds, a client may leave a blob lying before its memory goes to others.
	streamIdle = int64(100e6)
)

func (p *outPart) drop() {
	if p.r != nil {
		p.r.Close()
		p.r = nil
	}
	if p.Blob != nil {
		p.Blob.Release(0)
		p.Blob = nil
	}
}

// moveParts appends the parts between from and to to list, as they stand when the bytes from from on stand at at, and drops those
// before from.
func (q *queue) moveParts(list []outPart, from, to, at int) []outPart {
	for len(q.parts) > 0 && q.parts[0].At <= to {
		p := q.parts[0]
		q.parts = q.parts[1:]
		if p.At < from {
			p.drop()
			continue
		}
		p.At += at - from
		list = append(list, p)
	}
	return list
}

// dropParts drops what stands behind end.
func (q *queue) dropParts(end int) {
	for n := len(q.parts); n > 0 && q.parts[n-1].At > end; n-- {
		q.parts[n-1].drop()
		q.parts = q.parts[:n-1]
	}
}

// addParts takes the blobs of a reply over.
func (l *loop) addParts(s *session, r *command.Reply) {
	for i := range r.Blobs {
		s.parts = append(s.parts, outPart{BlobPart: r.Blobs[i]})
		r.Blobs[i] = command.BlobPart{}
	}
	r.Blobs = r.Blobs[:0]
}

// due is the part whose turn it is to be sent, or nil.
func (q *queue) due() *outPart {
	if len(q.parts) > 0 && q.parts[0].At == q.sent && q.parts[0].At < q.released {
		return &q.parts[0]
	}
	return nil
}

// stream sends of the part at the front what the socket takes and the device has brought. It reports whether the part is done,
// and whether the socket is full or the turn is over: then the poller says when to go on.
func (l *loop) stream(s *session, p *outPart, turn *int) (done, blocked bool, err error) {
	if p.r == nil {
		bio, err := l.blobIO()
		if err == nil {
			p.r, err = bio.NewReader(p.Blob, p.From, p.To)
		}
		if err != nil {
			return false, false, err
		}
		if !s.streams {
			s.streams = true
			l.streams = append(l.streams, s)
		}
	}
	for {
		chunk, err := p.r.Next()
		switch {
		case err == io.EOF:
			return true, false, nil
		case err != nil || len(chunk) == 0:
			return false, false, err
		case *turn <= 0:
			return false, true, nil
		}
		n, err := s.conn.write(chunk[:min(len(chunk), *turn)])
		if err == errAgain {
			return false, true, nil
		}
		if err != nil {
			return false, false, errClient
		}
		s.streamed, s.LastUsed = l.now, l.now
		s.BytesOut += uint64(n)
		bump(&l.stats.netOut, uint64(n))
		p.r.Consume(n)
		*turn -= n
	}
}

// errClient: the socket is broken.
var errClient = errors.New("client has gone")

// streamFailed ends a session in the middle of a reply: what was sent of the value cannot be taken back, and the client must not
// take what comes next for the rest of it.
func (l *loop) streamFailed(s *session, p *outPart, err error) {
	if err == errClient {
		l.close(s)
		return
	}
	at := p.From
	if p.r != nil {
		at = p.To - p.r.Left()
	}
	l.srv.log.Error().Err(err).Uint64("client", s.ID).Str("key", l.vol.NameHash(p.Key)).Int64("offset", at).
		Msg("closed in the middle of a value: what comes next of it cannot be read or does not verify")
	s.phase = phaseEnd
	s.out, s.released, s.marks = s.out[:s.sent], s.sent, s.marks[:0]
	s.dropParts(-1)
	l.waitingRemove(s)
}

// stepStreams goes on with the blobs that the device has brought more of, and takes memory from clients that do not take theirs.
func (l *loop) stepStreams(moved bool) {
	for i := len(l.streams) - 1; i >= 0; i-- {
		s := l.streams[i]
		p := s.due()
		if s.closed || p == nil || p.r == nil {
			s.streams = false
			l.streams[i] = l.streams[len(l.streams)-1]
			l.streams[len(l.streams)-1] = nil
			l.streams = l.streams[:len(l.streams)-1]
			continue
		}
		switch {
		case !s.wantOut && moved:
			l.flush(s)
		case s.wantOut && l.now-s.streamed > streamIdle:
			p.r.Suspend()
		}
	}
}
