package cli

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"
)

// progress shows how far a long command is: a bar on a terminal, else a line now and then. total is in bytes, 0 if unknown.
type progress struct {
	w            io.Writer
	what         string
	total        int64
	items, bytes *atomic.Int64

	began time.Time
	end   chan struct{}
	ended chan struct{}
}

const (
	progressBar   = 200 * time.Millisecond // between two looks on a terminal
	progressLines = 10 * time.Second       // between two lines elsewhere
	barWidth      = 30
)

// start shows it until stop is called.
func (p *progress) start() (stop func()) {
	p.began, p.end, p.ended = time.Now(), make(chan struct{}), make(chan struct{})
	terminal := isTerminal(p.w)
	every := progressLines
	if terminal {
		every = progressBar
	}
	go func() {
		defer close(p.ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if terminal {
					fmt.Fprint(p.w, "\r"+p.line()+"\x1b[K")
				} else {
					fmt.Fprintln(p.w, p.line())
				}
			case <-p.end:
				if terminal {
					fmt.Fprint(p.w, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() {
		close(p.end)
		<-p.ended
	}
}

// line says how far it is.
func (p *progress) line() string {
	n, took := p.bytes.Load(), time.Since(p.began)
	rate := float64(n) / max(took.Seconds(), 1e-3)
	text := fmt.Sprintf("%s: %d items, %s, %s/s", p.what, p.items.Load(), inBytes(n), inBytes(int64(rate)))
	if p.total <= 0 || n > p.total {
		return text
	}
	part := float64(n) / float64(p.total)
	full := int(part * barWidth)
	text += fmt.Sprintf(" [%s%s] %d%%", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), int(part*100))
	if n > 0 {
		text += fmt.Sprintf(", %v left", time.Duration(float64(took)*(1-part)/part).Round(time.Second))
	}
	return text
}

func inBytes(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GB"}, {1 << 20, "MB"}, {1 << 10, "KB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
