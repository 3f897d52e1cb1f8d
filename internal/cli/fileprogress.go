package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// fileBar shows how far a transfer is. Its methods may be called from any goroutine; a nil one shows nothing.
type fileBar struct {
	w     io.Writer
	name  string
	total int64 // -1: unknown

	mu      sync.Mutex
	moved   int64
	skipped int64 // of moved: was there already
	started time.Time
	shown   time.Time
	width   int
}

// barEvery is how often the bar is drawn.
const barEvery = 100 * time.Millisecond

// newProgress returns nil unless somebody watches.
func newProgress(w io.Writer, name string, total int64, quiet bool) *fileBar {
	f, ok := w.(*os.File)
	if quiet || !ok {
		return nil
	}
	if s, err := f.Stat(); err != nil || s.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return &fileBar{w: w, name: name, total: total, started: time.Now()}
}

// skip counts what need not be moved.
func (p *fileBar) skip(n int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved += n
	p.skipped += n
}

func (p *fileBar) add(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved += int64(n)
	if now := time.Now(); now.Sub(p.shown) >= barEvery {
		p.shown = now
		p.draw(now)
	}
}

func (p *fileBar) draw(now time.Time) {
	line := barLine(p.name, p.moved, p.skipped, p.total, now.Sub(p.started))
	fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

// done takes the bar away.
func (p *fileBar) done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
}

// barLine is what the bar shows: bytes, rate, and the time that is left at this rate.
func barLine(name string, moved, skipped, total int64, took time.Duration) string {
	rate := float64(moved-skipped) / max(took.Seconds(), 0.001)
	if len(name) > 30 {
		name = "..." + name[len(name)-27:]
	}
	if total < 0 {
		return fmt.Sprintf("%-30s %s  %s/s", name, bytesText(moved), bytesText(int64(rate)))
	}
	share := 1.0
	if total > 0 {
		share = float64(moved) / float64(total)
	}
	const cells = 20
	full := min(cells, int(share*cells))
	left := "--:--"
	if rate > 0 {
		s := int64(float64(total-moved) / rate)
		left = fmt.Sprintf("%02d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%-30s [%s%s] %3.0f %%  %s of %s  %s/s  %s left", name,
		strings.Repeat("#", full), strings.Repeat(".", cells-full), 100*share, bytesText(moved), bytesText(total), bytesText(int64(rate)), left)
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	f, unit := float64(n), 0
	for f >= 1024 && unit < 5 {
		f /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[unit-1])
}
