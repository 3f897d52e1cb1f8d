package resp

import (
	"time"

	"cvmstore/resp/command"
)

// What other goroutines ask of a loop: calls in its inbox, news of watermarks, and its end.

// post has f called on the loop, in its next round. Any goroutine may call it.
func (l *loop) post(f func(*loop)) {
	l.inbox.Lock()
	l.inbox.calls = append(l.inbox.calls, f)
	l.inbox.Unlock()
	l.notify()
}

// notify tells the loop that something is new. It costs a system call only while the loop sleeps.
func (l *loop) notify() {
	l.news.Store(true)
	if l.asleep.CompareAndSwap(true, false) {
		l.poll.signal()
	}
}

// watermarks tells the loop that watermarks have moved.
func (l *loop) watermarks() {
	l.moved.Store(true)
	if l.asleep.CompareAndSwap(true, false) {
		l.poll.signal()
	}
}

func (l *loop) readInbox() {
	l.inbox.Lock()
	calls := l.inbox.calls
	l.inbox.calls = nil
	l.inbox.Unlock()
	for _, f := range calls {
		f(l)
	}
}

// beginStop stops reading; what is queued still leaves.
func (l *loop) beginStop() {
	l.stopping = true
	l.stopBy = l.now + int64(time.Hour)
	if l.num == 0 {
		for _, ln := range l.srv.listening() {
			l.poll.remove(ln.fd)
			ln.close()
		}
	}
	for _, s := range l.sessions {
		if s.phase == phasePark {
			l.unpark(s, command.ResumeTimeout)
		}
		if s.parkedPhase() || s.pinned {
			s.CloseAfter = true // the command that is under way is the last one
		} else {
			s.phase = phaseEnd
		}
		l.mute(s, true)
		l.flush(s)
	}
}

// done reports whether the loop may end: nothing is pending, or the time for it is up.
func (l *loop) done() bool {
	return l.stopping && (len(l.sessions) == 0 && len(l.doomed) == 0 || l.now >= l.stopBy)
}

// stop closes what is left.
func (l *loop) stop() {
	for _, s := range l.sessions {
		l.close(s)
	}
	l.sweep()
}
