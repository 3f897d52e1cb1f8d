package resp

import (
	"cvmstore/keyspace"
	"cvmstore/resp/acl"
	"cvmstore/resp/command"
	"cvmstore/resp/pubsub"
	"cvmstore/volume"
)

// session is one client: its socket, its unprocessed input, its replies, and the state that commands see. It is a state machine
// that one loop moves on; it owns no goroutine and, while it is idle, no buffers.
type session struct {
	command.Session
	queue
	conn     conn
	loop     *loop
	p        parser
	own      []byte // small memory for replies that wait
	lent     bool   // out is the loop's shared buffer
	in       []byte // input that is not processed yet; the shared read buffer serves clients without a rest
	tx       *keyspace.Tx
	users    *userSet     // in which who was looked up
	who      *acl.User    // see loop.user
	multi    *transaction // since MULTI or WATCH; nil: neither
	body     *body        // of the command that is being read or runs
	phase    phase
	park     command.Park
	wait     *waiter // among those who wait for keys; nil: it does not
	serving  *pass   // its command runs because a key that it waits for has changed
	resume   command.Resume
	answer   *gathering
	reloaded error // of a reload that this session asked for
	receipt  *receipt

	attestation *attestation

	softSince int64 // monotonic nanoseconds since which its pending output is above the soft limit; 0: it is not
	since     int64 // monotonic nanoseconds at which it was parked for the volume
	fetches   int   // outstanding reads from the device, and transfers
	jobs      []*volume.Transfer
	settled   bool // the input of the command that runs stands at the front of in, and stays there while it is parked
	misses    int  // how often the current command has missed
	fetchErr  error
	streamed  int64 // monotonic nanoseconds at which it last took something of a blob

	subs     [pubsub.Kinds]map[string]uint64 // by name: the order in which they came
	subSeq   uint64
	lastSeen volume.Counter // the newest that any of its replies depended on
	pushed   bool           // stands in loop.pushed

	waitAt   int // place in loop.waiting, parkedAt in loop.parked; -1: not there
	parkedAt int
	queued   bool // stands in loop.ready
	muted    bool // not polled for input
	wantOut  bool // polled for room to write
	starved  bool // what in holds is not a complete command
	closed   bool
	streams  bool // stands in loop.streams
	pinned   bool // p holds a complete command that is parked; it runs again before anything else is parsed
}

// phase says whether a session's next command may run, and what it waits for if not.
type phase uint8

const (
	phaseRun   phase = iota
	phaseFetch       // for values from the device
	phaseBusy        // for the volume's progress
	phasePark        // for what park says
	phaseSlow        // for the client to take its replies
	phaseBody        // for room, or a flush, for a large value that it sends
	phaseEnd         // for the last replies to leave; nothing more is executed
)

// parkedPhase reports whether a command of this session is under way.
func (s *session) parkedPhase() bool { return s.phase >= phaseFetch && s.phase <= phasePark }

// take keeps what is left of the input: rest is a part of the shared read buffer, or of s.in itself.
func (l *loop) take(s *session, rest []byte, shared bool) {
	switch {
	case shared && len(rest) > 0:
		s.in = append(l.inBuffer(2*len(rest)), rest...)
	case shared || len(rest) == len(s.in) && len(rest) > 0:
	case len(rest) == 0:
		if cap(s.in) >= inPoolMin && cap(s.in) <= inPoolMax && len(l.inPool) < inPoolLen {
			l.inPool = append(l.inPool, s.in[:0])
		}
		s.in = nil
	default:
		n := copy(s.in, rest)
		s.in = s.in[:n]
	}
}

// Input buffers of usual size go round, so that a client whose pipelines do not fit one read costs no allocation each time.
const (
	inPoolMin = 16 << 10
	inPoolMax = 256 << 10
	inPoolLen = 32
)

func (l *loop) inBuffer(size int) []byte {
	if n := len(l.inPool); n > 0 && size >= 4<<10 && cap(l.inPool[n-1]) >= size {
		b := l.inPool[n-1]
		l.inPool[n-1] = nil
		l.inPool = l.inPool[:n-1]
		return b
	}
	return make([]byte, 0, max(size, 512))
}

// room makes space to read into behind the kept input. A large argument's space grows with what has arrived, not with what was
// announced; when the rest fits into double the space, exactly that is taken.
func (s *session) room() {
	free := cap(s.in) - len(s.in)
	need := s.p.need()
	if free >= 16<<10 || need > 0 && need-int64(len(s.in)) <= int64(free) && free > 0 {
		return
	}
	size := max(int64(2*cap(s.in)), 32<<10)
	if need > int64(len(s.in)) && need < size {
		size = need
	}
	s.in = append(make([]byte, 0, size), s.in...)
}
