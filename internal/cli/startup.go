package cli

import (
	"time"

	"github.com/rs/zerolog"
)

// startup is what a start takes, by phase: the log has it in one line.
type startup struct {
	began, last time.Time
	phases      []phase
}

type phase struct {
	name string
	took time.Duration
}

func newStartup() *startup {
	now := time.Now()
	return &startup{began: now, last: now}
}

// end ends a phase. What the phase itself measured, named before, is not counted twice.
func (s *startup) end(name string, within ...phase) {
	now := time.Now()
	took := now.Sub(s.last)
	for _, p := range within {
		took -= p.took
		s.phases = append(s.phases, p)
	}
	s.phases = append(s.phases, phase{name, max(took, 0)})
	s.last = now
}

// report logs all phases, in milliseconds.
func (s *startup) report(log zerolog.Logger) {
	line := log.Info()
	for _, p := range s.phases {
		line = line.Dur(p.name+"_ms", p.took)
	}
	line.Dur("total_ms", s.last.Sub(s.began)).Msg("start-up took")
}
