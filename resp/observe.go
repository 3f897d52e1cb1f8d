package resp

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cvmstore/resp/command"
	"cvmstore/volume"
)

// What a loop notes about the commands that it has executed, and the lines that it sends to monitoring clients.

// observe notes a command that took long, and shows the command to the monitoring clients.
func (l *loop) observe(s *session, cmd *command.Command, args [][]byte, took time.Duration, seen volume.Counter) {
	if limit := l.config.SlowlogUsec; limit >= 0 && took.Microseconds() >= limit {
		l.srv.observed.Slow(&s.Session, cmd, args, took, l.config.SlowlogLen, seen)
	}
	if limit := l.config.LatencyMillis; limit > 0 && took.Milliseconds() >= limit {
		event := "command"
		if cmd.Flags&command.Fast != 0 {
			event = "fast-command"
		}
		l.srv.observed.Latency(event, took.Milliseconds())
	}
	if l.srv.monitors.Load() > 0 && cmd.Flags&command.Admin == 0 {
		l.show(s, cmd, args, seen)
		if cmd.Locks == command.LockScript {
			for _, line := range l.called {
				l.showLine(shown{line, seen})
			}
		}
	}
	l.called = nil
}

// shown is a line for monitoring clients. Like a reply it waits for what the command's reply waits for (DESIGN.md 4.3).
type shown struct {
	line []byte
	seen volume.Counter
}

func (l *loop) show(s *session, cmd *command.Command, args [][]byte, seen volume.Counter) {
	l.showLine(shown{command.AppendMonitor(nil, time.Now(), &s.Session, cmd, args), seen})
}

func (l *loop) showLine(line shown) {
	for _, to := range l.srv.loops {
		if to == l {
			l.shown = append(l.shown, line)
		} else {
			to.post(func(l *loop) { l.shown = append(l.shown, line) })
		}
	}
}

// deliver queues what was shown in this round for this loop's monitoring clients. No session holds the shared buffer now.
func (l *loop) deliver() {
	if len(l.shown) == 0 {
		return
	}
	lines := l.shown
	l.shown = nil
	for _, s := range l.sessions {
		if !s.Monitor || s.phase == phaseEnd {
			continue
		}
		for _, line := range lines {
			s.out = append(s.out, line.line...)
			l.mark(s, line.seen)
		}
		l.flush(s)
		if n := int64(s.pending()); !s.closed && l.config.OutBuf[outReplica].exceeded(n, l.now, &s.softSince) {
			l.overflow(s, n) // Redis counts monitors among the replicas
		}
	}
}

// errorCounts counts error replies by their code.
type errorCounts struct {
	sync.Mutex
	byCode map[string]uint64
}

// errorCodesMax bounds the codes that are told apart.
const errorCodesMax = 128

func (e *errorCounts) add(text string) {
	code, _, _ := strings.Cut(text, " ")
	e.Lock()
	defer e.Unlock()
	if _, known := e.byCode[code]; !known {
		if len(e.byCode) >= errorCodesMax {
			return
		}
		if e.byCode == nil {
			e.byCode = map[string]uint64{}
		}
		code = strings.Clone(code)
	}
	e.byCode[code]++
}

func (e *errorCounts) each(emit func(code string, n uint64)) {
	e.Lock()
	defer e.Unlock()
	for _, code := range slices.Sorted(maps.Keys(e.byCode)) {
		emit(code, e.byCode[code])
	}
}

func (e *errorCounts) reset() {
	e.Lock()
	defer e.Unlock()
	clear(e.byCode)
}
