package resp

import (
	"time"

	"cvmstore/resp/command"
	"cvmstore/volume"
)

// Work on blobs that commands ask for (keyspace.Tx.Jobs). It runs on the loop's BlobIO, a few chunks a round, while the session
// is parked like one that waits for a read.

// blobIO returns the loop's BlobIO, made when the first blob comes by.
func (l *loop) blobIO() (*volume.BlobIO, error) {
	if l.blobs != nil {
		return l.blobs, nil
	}
	b, err := l.vol.NewBlobIO()
	if err != nil {
		return nil, err
	}
	if b.Fd() >= 0 {
		if err := l.poll.add(b.Fd(), pollIn); err != nil {
			_ = b.Close()
			return nil, err
		}
	}
	l.blobs = b
	return b, nil
}

// stepBlobs moves everything on that has to do with blobs.
func (l *loop) stepBlobs() {
	if l.blobs == nil {
		return
	}
	moved := l.blobs.Step() || l.stirred
	l.stirred = false
	l.stepBodies(moved)
	l.stepStreams(moved)
}

// blobPause is how long a loop with busy blobs may sleep, in nanoseconds: a transfer may wait for room that another loop gives
// back.
func (l *loop) blobPause() int64 {
	if l.blobs.Fd() < 0 {
		return int64(blindPoll)
	}
	return int64(2 * time.Millisecond)
}

const (
	// bulkTurn bounds what one client may move of a large value in one round, so that others get their turn.
	bulkTurn = 512 << 10
	// While small commits are under way, all such clients together may move bulkPressed a round, and each at least bulkLeast:
	// a small command waits for a round or two.
	bulkPressed = 512 << 10
	bulkLeast   = 32 << 10
)

// bulkTurn is how much that is in this round.
func (l *loop) bulkTurn() int {
	if l.blobs == nil || !l.blobs.Pressed() {
		return bulkTurn
	}
	return max(bulkPressed/max(len(l.bodies)+len(l.streams), 2), bulkLeast)
}

func (l *loop) closeBlobs() {
	if l.blobs == nil {
		return
	}
	if err := l.blobs.Close(); err != nil {
		l.srv.log.Warn().Err(err).Msg("blobs")
	}
	l.blobs = nil
}

// hasBytes says whether a transfer takes bytes from a command's arguments.
func hasBytes(jobs []*volume.Transfer) bool {
	for _, j := range jobs {
		for i := range j.Source {
			if len(j.Source[i].Bytes) > 0 {
				return true
			}
		}
	}
	return false
}

func (l *loop) startJob(s *session, t *volume.Transfer) {
	b, err := l.blobIO()
	if err != nil {
		t.Fail(err)
		l.jobEnded(s, t)
		return
	}
	s.jobs = append(s.jobs, t)
	b.Start(t, func(t *volume.Transfer) { l.jobEnded(s, t) })
}

func (l *loop) jobEnded(s *session, t *volume.Transfer) {
	for i, j := range s.jobs {
		if j == t {
			s.jobs = append(s.jobs[:i], s.jobs[i+1:]...)
			break
		}
	}
	s.fetches--
	l.fetched(s)
}

// cancelJobs gives up what a session that is closed has under way.
func (l *loop) cancelJobs(s *session) {
	for _, t := range s.jobs {
		l.blobs.Cancel(t)
		s.fetches--
	}
	s.jobs = nil
}

// errExchanged is the answer to a command whose large value was on its way when the volume was exchanged.
var errExchanged = command.Error("ERR the volume was exchanged while the value arrived: send it again")

// letGoBlobs ends all that has to do with blobs, for the volume is to be exchanged: commands that wait run again, values that arrive
// are thrown away, and replies that are not complete end with their connection.
func (l *loop) letGoBlobs() {
	for _, s := range l.sessions {
		l.cancelJobs(s)
		if s.phase == phaseFetch && s.fetches == 0 {
			l.wake(s)
		}
		if b := s.body; b != nil {
			if b.w != nil {
				b.w.Abandon()
			}
			if b.blob != nil {
				b.blob.Release(0)
			}
			b.w, b.blob, b.err = nil, nil, errExchanged
			if s.phase == phaseBody {
				s.phase = phaseRun
				l.again(s)
			}
		}
		if len(s.parts) > 0 {
			l.close(s)
		}
	}
	if l.blobs != nil && l.blobs.Fd() >= 0 {
		l.poll.remove(l.blobs.Fd())
	}
	l.closeBlobs()
}
