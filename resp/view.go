package resp

import (
	"strings"
	"sync"

	"cvmstore/keyspace"
	"cvmstore/resp/command"
	"cvmstore/volume"
)

// view is the server as the commands of one loop see it.
type view struct {
	s *Server
	l *loop
}

func (v *view) DefaultLevel() volume.Level { return v.l.level }

func (v *view) Volume() command.Volume {
	if v.l.vol == nil {
		return nil
	}
	return v.l.vol
}

func (v *view) ConfigGet(patterns [][]byte, emit func(name, value string)) {
	config := v.s.config.Load()
	for i := range params {
		p := &params[i]
		for _, pattern := range patterns {
			name := strings.ToLower(string(pattern))
			if name == p.Name || !p.Hidden && keyspace.Match([]byte(name), []byte(p.Name)) {
				emit(p.Name, p.get(config))
				break
			}
		}
	}
}

func (v *view) ConfigSet(pairs [][]byte) error {
	v.s.configMu.Lock()
	defer v.s.configMu.Unlock()
	next := *v.s.config.Load()
	seen := map[string]bool{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name := strings.ToLower(string(pairs[i]))
		p := param(name)
		if p == nil {
			return command.Error("ERR Unknown option or number of arguments for CONFIG SET - '" + string(pairs[i]) + "'")
		}
		if seen[name] {
			return configError(name, "duplicate parameter")
		}
		seen[name] = true
		if !p.Mutable && p.keepable() && p.get(&next) == string(pairs[i+1]) {
			continue
		}
		if !p.Mutable {
			return configError(name, "can't set immutable config")
		}
		if err := p.set(&next, string(pairs[i+1])); err != nil {
			return configError(name, err.Error())
		}
	}
	if err := v.s.apply(&next, seen); err != nil {
		return err
	}
	v.s.setMemory(&next)
	if seen["requirepass"] {
		v.s.users.passwordSet(next.RequirePass)
	}
	v.s.config.Store(&next)
	applyLimits(v.s.space, &next)
	v.l.config = &next
	v.l.level = levelOf(next.Durability)
	return nil
}

func configError(name, why string) error {
	return command.Error("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + why)
}

func (v *view) Shutdown() {
	v.s.shutdown.Do(func() {
		v.s.log.Warn().Msg("a client sent SHUTDOWN")
		if f := v.s.opts.OnShutdown; f != nil {
			go f()
		}
	})
}

// gathering is a question to all loops: each adds its part, the last one wakes the session that asked.
type gathering struct {
	sync.Mutex
	out  []byte
	left int
}

func (v *view) Gather(c *command.Ctx, visit func(*command.Session, int64, []byte) []byte) (out []byte, ok bool) {
	if len(v.s.loops) == 1 {
		return v.l.visit(visit, nil), true
	}
	asker := v.l.sessions[c.S.FD]
	if c.Resume == command.ResumeReady && asker.answer != nil {
		g := asker.answer
		asker.answer = nil
		return g.out, true
	}
	g := &gathering{left: len(v.s.loops)}
	asker.answer = g
	for _, l := range v.s.loops {
		l.post(func(l *loop) {
			part := l.visit(visit, nil)
			g.Lock()
			defer g.Unlock()
			g.out = append(g.out, part...)
			if g.left--; g.left == 0 {
				v.l.post(func(l *loop) {
					if !asker.closed && asker.phase == phasePark && asker.answer == g {
						l.unpark(asker, command.ResumeReady)
					}
				})
			}
		})
	}
	return nil, false
}

// visit runs f for every session of this loop, and does to it what f asks for.
func (l *loop) visit(f func(*command.Session, int64, []byte) []byte, out []byte) []byte {
	for _, s := range l.sessions {
		s.QueryBytes, s.OutputBytes = len(s.in), s.pending()
		if &s.Session == l.ctx.S && s.phase == phaseRun {
			s.QueryBytes = max(s.QueryBytes, s.p.size()) // the command that asks
		}
		s.Blocked = s.phase == phasePark && !s.park.Answer && !s.park.Paused
		out = f(&s.Session, l.now, out)
		if why := s.Unblock; why != command.ResumeNone {
			s.Unblock = command.ResumeNone
			l.unpark(s, why)
		}
		if s.Kill {
			l.close(s)
		}
	}
	return out
}

func (v *view) Observed() *command.Observed { return &v.s.observed }
func (v *view) Monitoring(change int64)     { v.s.monitors.Add(change) }
func (v *view) SetActiveExpire(on bool)     { v.s.expireOff.Store(!on) }
func (v *view) LogLine(text string)         { v.s.log.Warn().Str("text", text).Msg("DEBUG LOG") }
func (v *view) MaxMemory() int64            { return v.l.config.MaxMemory }
func (v *view) HLLSparseMax() int           { return int(min(v.l.config.HLLSparse, 1<<30)) }

func (v *view) DebugAllowed(s *command.Session) bool {
	return v.l.config.DebugCommand == "yes" || v.l.config.DebugCommand == "local" && s.Near
}

func (v *view) ConfigRewrite() error {
	v.s.configMu.Lock()
	defer v.s.configMu.Unlock()
	if v.s.opts.Rewrite == nil {
		return command.Error("ERR The server is running without a config file")
	}
	if err := v.s.opts.Rewrite(*v.s.config.Load()); err != nil {
		v.s.log.Error().Err(err).Msg("configuration file not rewritten")
		return command.Error("ERR Rewriting config file: " + err.Error())
	}
	return nil
}
