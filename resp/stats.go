package resp

import (
	"net"
	"sync/atomic"
	"time"

	"cvmstore/resp/command"
	"cvmstore/volume"
)

// loopStats are one loop's counters: it alone writes them, INFO reads them from any loop.
type loopStats struct {
	commands, errors, uncertain atomic.Uint64
	accepted, rejected          atomic.Uint64
	netIn, netOut               atomic.Uint64
	queryClosed, outputClosed   atomic.Uint64
	expired                     atomic.Uint64
	blocked                     atomic.Int64
	perCommand                  []commandStats
	waits                       [volume.LevelFresh + 1]waitStats // by level
}

// waitStats say how long replies of a level waited.
type waitStats struct {
	nanos   atomic.Uint64
	buckets [command.Buckets]atomic.Uint64
}

type commandStats struct {
	calls, failed, rejected, nanos atomic.Uint64
	buckets                        [command.Buckets]atomic.Uint64
}

// opsMeter turns the number of commands into a rate, over about a second. Loop 0 samples, anyone reads.
type opsMeter struct {
	at, commands, in, out int64
	rate, kbIn, kbOut     atomic.Uint64 // commands, and hundredths of kilobytes, a second
}

func (m *opsMeter) sample(now int64, s *Server) {
	if now-m.at < int64(time.Second) {
		return
	}
	var total, in, out int64
	for _, l := range s.loops {
		total += int64(l.stats.commands.Load())
		in += int64(l.stats.netIn.Load())
		out += int64(l.stats.netOut.Load())
	}
	if m.at > 0 && total >= m.commands && in >= m.in && out >= m.out {
		each := float64(time.Second) / float64(now-m.at)
		m.rate.Store(uint64(float64(total-m.commands) * each))
		m.kbIn.Store(uint64(float64(in-m.in) * each * 100 / 1024))
		m.kbOut.Store(uint64(float64(out-m.out) * each * 100 / 1024))
	}
	m.at, m.commands, m.in, m.out = now, total, in, out
}

func (v *view) Stats() *command.Stats {
	s := v.s
	config := s.config.Load()
	out := &command.Stats{
		Version: s.opts.Version, RunID: s.runID, Loops: len(s.loops), Started: s.started,
		Connected: s.connected.Load(), MaxClients: config.MaxClients, OpsPerSec: s.ops.rate.Load(),
		KBIn: float64(s.ops.kbIn.Load()) / 100, KBOut: float64(s.ops.kbOut.Load()) / 100, Extra: s.opts.Info,
		ConfigFile: s.opts.ConfigFile, Monitors: s.monitors.Load(), TLSFailed: s.tlsFailed.Load(), PerError: s.errors.each,
	}
	if a, ok := s.TLSAddr().(*net.TCPAddr); ok {
		out.TLSPort = a.Port
	}
	if a, ok := s.Addr().(*net.TCPAddr); ok {
		out.Port = a.Port
	}
	for _, l := range s.loops {
		st := &l.stats
		out.Blocked += st.blocked.Load()
		out.Connections += st.accepted.Load()
		out.Rejected += st.rejected.Load()
		out.Commands += st.commands.Load()
		out.NetIn += st.netIn.Load()
		out.NetOut += st.netOut.Load()
		out.OutputLimitClosed += st.outputClosed.Load()
		out.QueryLimitClosed += st.queryClosed.Load()
		out.ErrorReplies += st.errors.Load()
		out.Uncertain += st.uncertain.Load()
		out.ActiveExpired += st.expired.Load()
	}
	out.PerCommand = v.perCommand
	return out
}

func (v *view) perCommand(emit func(cmd *command.Command, calls, failed, rejected uint64, busy time.Duration)) {
	for i, cmd := range command.All() {
		var calls, failed, rejected, nanos uint64
		for _, l := range v.s.loops {
			st := &l.stats.perCommand[i]
			calls += st.calls.Load()
			failed += st.failed.Load()
			rejected += st.rejected.Load()
			nanos += st.nanos.Load()
		}
		if calls > 0 || rejected > 0 {
			emit(cmd, calls, failed, rejected, time.Duration(nanos))
		}
	}
}

func (v *view) Latencies(emit func(cmd *command.Command, buckets *[command.Buckets]uint64)) {
	for i, cmd := range command.All() {
		var sum [command.Buckets]uint64
		var calls uint64
		for _, l := range v.s.loops {
			for b := range sum {
				n := l.stats.perCommand[i].buckets[b].Load()
				sum[b] += n
				calls += n
			}
		}
		if calls > 0 {
			emit(cmd, &sum)
		}
	}
}

// ResetStats sets the counters of every loop to zero, each on its own loop.
func (v *view) ResetStats() {
	v.s.errors.reset()
	v.s.tlsFailed.Store(0)
	for _, l := range v.s.loops {
		if l == v.l {
			l.resetStats() // at once: the command itself is counted after it
		} else {
			l.post((*loop).resetStats)
		}
	}
}

func (l *loop) resetStats() {
	st := &l.stats
	for _, c := range []*atomic.Uint64{
		&st.commands, &st.errors, &st.uncertain, &st.accepted, &st.rejected, &st.netIn, &st.netOut,
		&st.queryClosed, &st.outputClosed, &st.expired,
	} {
		c.Store(0)
	}
	for i := range st.perCommand {
		c := &st.perCommand[i]
		c.calls.Store(0)
		c.failed.Store(0)
		c.rejected.Store(0)
		c.nanos.Store(0)
		for b := range c.buckets {
			c.buckets[b].Store(0)
		}
	}
}
