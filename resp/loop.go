package resp

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"cvmstore/keyspace"
	"cvmstore/resp/command"
	"cvmstore/volume"
)

// readBytes is the size of the read buffer that a loop's sessions share.
const readBytes = 64 << 10

// loop serves its sessions on one goroutine, round by round: it waits for sockets, the volume and its own wake-up, reads,
// executes, leads one step of the committer, and writes the replies whose level is reached. Nothing in a round blocks.
type loop struct {
	srv  *Server
	vol  Volume
	poll *poller
	num  int

	sessions map[int]*session // by descriptor
	ready    []*session       // to be looked at in the next round
	spare    []*session
	waiting  []*session        // with replies that wait for their level
	parked   []*session        // in phasePark
	busy     []*session        // in phaseBusy
	doomed   []*session        // closed in this round
	shown    []shown           // for monitoring clients, in this round
	unwatch  []*keyspace.Watch // to be ended once no transaction is under way
	running  *session          // whose command is being executed
	settling bool              // in settle
	held     []held            // for it, from its own command
	pushed   []*session        // to be flushed at the end of the round
	fetches  fetchTable
	reader   *volume.Reader
	blobs    *volume.BlobIO // nil until the first blob
	bodies   []*session     // that send a large value
	streams  []*session     // that are sent one
	parsing  *session       // whose input is being parsed
	takes    bodyFunc
	stirred  bool // the volume has moved: blobs may go on
	turn     int  // bytes that one client may move of a large value in this round

	bodiesWait  bool // some of bodies wait for room or a flush
	bodiesTried int64

	ctx    command.Ctx
	tx     keyspace.Tx
	txPool []*keyspace.Tx
	argv   [][]byte
	rbuf   []byte
	obuf   []byte
	inPool [][]byte
	round  uint64
	now    int64
	config *Config
	level  volume.Level
	wants  [volume.LevelFresh + 1]volume.Counter
	// The watermarks as they were after the last step.
	durable, fresh volume.Counter

	nextBreath int64
	nextCron   int64
	nextPark   int64 // the earliest deadline in parked, 0: none
	expireMore bool
	evictMore  bool // keys have to go, and some are left
	busyTried  int64
	stats      loopStats
	stopping   bool
	stopBy     int64

	called  [][]byte // lines for monitoring clients, of commands that a script has called
	aside   bool     // it answers others while a script runs; see aside.go
	asideRB []byte

	inRound atomic.Bool // at work, with several loops: a script of another one waits for its end

	asleep atomic.Bool
	news   atomic.Bool // the inbox has something new
	moved  atomic.Bool // the watermarks may have moved under another leader
	inbox  struct {
		sync.Mutex
		calls []func(*loop)
	}
}

// run is the loop's goroutine.
func (l *loop) run() {
	for !l.done() {
		events := l.poll.wait(l.sleep())
		l.asleep.Store(false)
		l.enterRound()
		l.round++
		l.now = nanos()
		if l.news.Swap(false) {
			l.readInbox()
		}
		l.config = l.srv.config.Load()
		l.level = levelOf(l.config.Durability)
		l.turn = l.bulkTurn()
		for i := range events {
			l.event(&events[i])
		}
		l.runReady()
		l.pollReader()
		l.stepBlobs()
		l.deliver()
		l.deliverPushed()
		l.step()
		if l.now >= l.nextCron {
			l.cron()
		}
		l.sweep()
		l.inRound.Store(false)
		l.breathe()
	}
	l.stop()
}

// breathe lets the Go scheduler see this goroutine now and then. One that it has not seen for 10 ms it interrupts with a signal,
// and takes the processor from in every system call that it comes upon, looking for those every 20 µs: on two cores that cost a
// twentieth of the CPU time.
func (l *loop) breathe() {
	if l.now >= l.nextBreath {
		l.nextBreath = l.now + int64(breath)
		runtime.Gosched()
	}
}

// breath is well below those 10 ms.
const breath = 4 * time.Millisecond

// sleep returns how long the loop may sleep, and marks it asleep: from then on a post or a moved watermark wakes it.
func (l *loop) sleep() time.Duration {
	if len(l.ready) > 0 || l.expireMore || l.evictMore {
		return 0
	}
	if l.stirred && l.blobs != nil {
		return 0
	}
	l.asleep.Store(true)
	if l.news.Load() || l.moved.Load() {
		return 0
	}
	l.now = nanos()
	until := l.nextCron
	if l.nextPark > 0 {
		until = min(until, l.nextPark)
	}
	if len(l.busy) > 0 {
		until = min(until, l.busyTried+int64(busyRetry))
	}
	if l.reader != nil && l.reader.Outstanding() > 0 && l.reader.Fd() < 0 {
		until = min(until, l.now+int64(blindPoll))
	}
	if l.blobs != nil && (l.bodiesWait || l.blobs.Busy()) {
		until = min(until, l.now+l.blobPause())
	}
	d := max(time.Duration(until-l.now), 0)
	if l.vol != nil {
		if v, ok := l.vol.Deadline(); ok {
			d = min(d, max(v, 0))
		}
	}
	return d
}

// blindPoll is how often a reader is asked that has nothing to poll (a device in memory).
const blindPoll = 50 * time.Microsecond

// event handles what one descriptor has to say. Descriptors that are not sessions are looked at in every round anyway, except
// listeners.
func (l *loop) event(e *event) {
	fd := e.fd()
	s := l.sessions[fd]
	if s == nil {
		if ln := l.srv.listener(l, fd); ln != nil {
			l.accept(ln)
		} else if fd == l.poll.wake {
			l.poll.drain()
		}
		return
	}
	switch {
	case e.gone() && s.phase != phaseRun, e.ended() && s.phase == phasePark:
		l.close(s) // nobody is there to take the replies
		return
	case e.ended():
		l.rearm(s)
	}
	if e.writable() && !s.closed {
		l.flush(s)
	}
	if e.readable() && !s.closed {
		l.read(s)
	}
}

// read takes one buffer full from a client and executes what is complete. What it leaves in the socket is announced again.
func (l *loop) read(s *session) {
	if s.phase != phaseRun {
		l.mute(s, true)
		return
	}
	if len(s.in) > 0 && !s.starved {
		l.again(s) // there is enough to do
		return
	}
	if len(s.in) == 0 && s.body != nil && s.p.bodyLeft() > 0 {
		l.readBody(s)
		return
	}
	shared := len(s.in) == 0
	into := l.rbuf
	if !shared {
		s.room()
		into = s.in[len(s.in):cap(s.in)]
	}
	n, err := s.conn.read(into)
	switch {
	case err == errAgain:
		if s.conn.unsent() > 0 { // TLS may have answered by itself
			l.flush(s)
		}
		return
	case err != nil:
		l.close(s)
		return
	case n == 0:
		// The client sends no more but may still take replies that wait for their level.
		s.phase = phaseEnd
		l.mute(s, true)
		l.flush(s)
		return
	}
	s.BytesIn += uint64(n)
	s.LastUsed = l.now
	bump(&l.stats.netIn, uint64(n))
	if shared {
		l.take(s, l.consume(s, into[:n]), true)
	} else {
		s.in = s.in[:len(s.in)+n]
		l.take(s, l.consume(s, s.in), false)
	}
	if int64(len(s.in)+s.p.footprint()) > l.config.QueryBufLimit && !s.closed {
		bump(&l.stats.queryClosed, 1)
		l.srv.log.Warn().Uint64("client", s.ID).Int("bytes", len(s.in)).Msg("closed: input above client-query-buffer-limit")
		l.close(s)
	}
	if s.conn.held() {
		l.again(s)
	}
}

// again has a session looked at in the next round.
func (l *loop) again(s *session) {
	if !s.queued && !s.closed {
		s.queued = true
		l.ready = append(l.ready, s)
	}
}

// runReady goes on with sessions that have input left over or whose command may run again.
func (l *loop) runReady() {
	batch := l.ready
	l.ready, l.spare = l.spare[:0], batch
	for i, s := range batch {
		batch[i] = nil
		s.queued = false
		if s.closed {
			continue
		}
		if s.phase == phaseRun {
			l.take(s, l.consume(s, s.in), false)
		}
		if s.phase == phaseRun && !s.closed && s.conn.held() {
			l.read(s)
		}
		if s.phase == phaseRun && s.muted && !s.closed {
			l.mute(s, false)
		}
	}
}

// wake lets a parked session's command run again in the next round.
func (l *loop) wake(s *session) {
	if s.parkedPhase() {
		s.phase = phaseRun
		l.again(s)
	}
}
