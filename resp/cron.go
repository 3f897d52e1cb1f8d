package resp

import (
	"time"

	"cvmstore/resp/command"
)

// expireBudget bounds the deletions of one round of active expiry.
const expireBudget = 200

// cronSessions bounds the sessions that one round of cron looks at for idleness.
const cronSessions = 1000

// cron does the periodic work: active expiry (on loop 0), reply deadlines, idle clients.
func (l *loop) cron() {
	every := int64(time.Second) / max(l.config.Hz, 1)
	if l.now >= l.nextCron {
		l.nextCron = l.now + every
	}
	l.timeouts()
	l.settle() // what happened in transactions that no loop began
	l.stalledBodies()
	if l.blobs != nil {
		l.stepStreams(true)
	}
	if l.num == 0 {
		l.invalidate(nil) // tracking-table-max-keys may have become smaller
	}
	if l.num != 0 {
		return
	}
	for _, ln := range l.srv.listening() {
		if ln.mutedN && !ln.closed {
			ln.mutedN = false
			_ = l.poll.modify(ln.fd, pollIn)
		}
	}
	l.srv.ops.sample(l.now, l.srv)
	l.srv.checkMemory(l.now)
	l.deletes()
}

// deletes makes the deletes that nobody asked for, unless CLIENT PAUSE holds them back.
func (l *loop) deletes() {
	if l.vol == nil || l.vol.Err() != nil || l.stopping {
		l.expireMore, l.evictMore = false, false
		return
	}
	if l.srv.pause.until.Load() > l.now {
		l.expireMore, l.evictMore = false, false
		return
	}
	if l.srv.pause.until.Swap(0) != 0 {
		l.srv.space.HoldDeletes(false)
	}
	if !l.srv.expireOff.Load() {
		l.expireCycle()
	}
	if l.srv.usedMemory() > l.srv.gauge.limit.Load() {
		l.evictCycle()
	}
}

// expireCycle deletes keys whose time has come. With more to do it goes on in the next round, between two reads of the sockets.
func (l *loop) expireCycle() {
	n, more := l.srv.space.ExpireCycle(expireBudget)
	if limit := l.config.LatencyMillis; limit > 0 {
		if ms := (nanos() - l.now) / int64(time.Millisecond); ms >= limit {
			l.srv.observed.Latency("expire-cycle", ms)
		}
	}
	bump(&l.stats.expired, uint64(n))
	l.settle()
	l.expireMore = more && n > 0
	if l.expireMore {
		l.nextCron = l.now
	}
}

// timeouts turns replies that waited too long into errors, and closes idle clients.
func (l *loop) timeouts() {
	timeout := l.config.ReplyTimeoutDuration()
	text := command.Unreached(nil, timeout)
	for i := len(l.waiting) - 1; i >= 0; i-- {
		s := l.waiting[i]
		moved := s.release(l.vol) // another loop may have led since this one's step
		marks := len(s.marks)
		n := s.expire(l.vol, l.now, nil, text)
		moved = moved || len(s.marks) < marks // what was dropped without an error counts too
		bump(&l.stats.uncertain, uint64(n))
		if len(s.marks) == 0 {
			l.waitingRemove(s)
		}
		if moved || n > 0 {
			l.flush(s)
		}
	}
	if l.config.Timeout > 0 || l.config.OutBuf[outNormal].soft > 0 || l.config.OutBuf[outPubSub].soft > 0 {
		l.idle()
	}
}

// idle closes clients that have said nothing for too long, or have taken no replies. A map's order is random: every session's
// turn comes.
func (l *loop) idle() {
	limit := l.now - l.config.Timeout*int64(time.Second)
	looked := 0
	for _, s := range l.sessions {
		if looked++; looked > cronSessions {
			break
		}
		if l.config.Timeout > 0 && s.LastUsed < limit && s.phase != phasePark && len(s.marks) == 0 && s.class() == outNormal {
			l.close(s)
		} else if n := int64(s.pending()); l.config.OutBuf[s.class()].exceeded(n, l.now, &s.softSince) {
			l.overflow(s, n)
		}
	}
}
