package resp

import (
	"net"
	"sync/atomic"
	"time"

	"cvmstore/resp/command"
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
}

type commandStats struct{ calls, failed, nanos atomic.Uint64 }

// opsMeter turns the number of commands into a rate, over about a second. Loop 0 samples, anyone reads.
type opsMeter struct {
	at, commands int64
	rate         atomic.Uint64
}

func (m *opsMeter) sample(now int64, s *Server) {
	if now-m.at < int64(time.Second) {
		return
	}
	var total int64
	for _, l := range s.loops {
		total += int64(l.stats.commands.Load())
	}
	if m.at > 0 && total >= m.commands {
		m.rate.Store(uint64(float64(total-m.commands) * float64(time.Second) / float64(now-m.at)))
	}
	m.at, m.commands = now, total
}

func (v *view) Stats() *command.Stats {
	s := v.s
	config := s.config.Load()
	out := &command.Stats{
		Version: s.opts.Version, RunID: s.runID, Loops: len(s.loops), Started: s.started,
		Connected: s.connected.Load(), MaxClients: config.MaxClients, OpsPerSec: s.ops.rate.Load(), Extra: s.opts.Info,
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

func (v *view) perCommand(emit func(cmd *command.Command, calls, failed uint64, busy time.Duration)) {
	for i, cmd := range command.All() {
		var calls, failed, nanos uint64
		for _, l := range v.s.loops {
			st := &l.stats.perCommand[i]
			calls += st.calls.Load()
			failed += st.failed.Load()
			nanos += st.nanos.Load()
		}
		if calls > 0 {
			emit(cmd, calls, failed, time.Duration(nanos))
		}
	}
}

// ResetStats sets the counters of every loop to zero, each on its own loop.
func (v *view) ResetStats() {
	for _, l := range v.s.loops {
		l.post(func(l *loop) {
			st := &l.stats
			for _, c := range []*atomic.Uint64{
				&st.commands, &st.errors, &st.uncertain, &st.accepted, &st.rejected, &st.netIn, &st.netOut,
				&st.queryClosed, &st.outputClosed, &st.expired,
			} {
				c.Store(0)
			}
			for i := range st.perCommand {
				st.perCommand[i].calls.Store(0)
				st.perCommand[i].failed.Store(0)
				st.perCommand[i].nanos.Store(0)
			}
		})
	}
}
