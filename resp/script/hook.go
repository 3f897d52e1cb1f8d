package script

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"
)

// ErrKilled ends a script that a client has killed.
var ErrKilled = errors.New("ERR Error running script (user script was killed)")

// hook is the context of the interpreter, which asks it before each instruction whether to go on (Done). So it counts
// instructions, lets the host look at its sockets, measures memory, and ends what must end: once it is closed, no instruction is
// executed any more, however often the script catches the error.
type hook struct {
	host   Host
	steps  uint32
	cause  error
	open   chan struct{}
	closed chan struct{}
	quiet  bool // a coroutine is being made: the interpreter asks for something else
	limit  int64
	base   int64 // bytes of heap objects when the script began
	next   int64 // bytes at which garbage is collected, to see what is left
	at     time.Time
	sample [1]metrics.Sample

	measured bool
}

// stepsPerLook is how many instructions run between two looks at clock and memory.
const stepsPerLook = 1024

func newHook() *hook {
	h := &hook{open: make(chan struct{}), closed: make(chan struct{})}
	close(h.closed)
	h.sample[0].Name = "/memory/classes/heap/objects:bytes"
	return h
}

// begin makes the hook ready for a run that may hold so many bytes.
func (h *hook) begin(host Host, limit int64) {
	h.host, h.limit, h.steps, h.cause, h.quiet, h.measured = host, limit, 0, nil, false, false
}

// stop has the script end before its next instruction.
func (h *hook) stop(cause error) {
	if h.cause == nil {
		h.cause = cause
	}
}

// Done implements context.Context.
func (h *hook) Done() <-chan struct{} {
	if h.quiet {
		return nil
	}
	h.steps++
	if h.steps%stepsPerLook == 0 && h.cause == nil {
		h.look()
	}
	if h.cause != nil {
		return h.closed
	}
	return h.open
}

func (h *hook) look() {
	if h.host != nil {
		if err := h.host.Tick(); err != nil {
			h.stop(err)
			return
		}
	}
	now := time.Now()
	if h.measured && now.Sub(h.at) < measureEvery {
		return
	}
	used := h.heap()
	h.at = now
	if !h.measured {
		h.measured, h.base, h.next = true, used, used+h.limit
		return
	}
	if used <= h.next {
		return
	}
	runtime.GC() // what grew may be garbage, the script's or the server's
	if used = h.heap(); used-h.base > h.limit {
		h.stop(memoryError(h.limit))
	}
	h.next = used + h.limit/2
	h.at = time.Now()
}

// measureEvery is how often the script's memory is measured, at most: that costs as much as thousands of instructions.
const measureEvery = 2 * time.Millisecond

func (h *hook) heap() int64 {
	metrics.Read(h.sample[:])
	return int64(h.sample[0].Value.Uint64())
}

func memoryError(limit int64) error {
	return fmt.Errorf("ERR script needs more memory than lua-memory-limit allows (%d bytes)", limit)
}

// Err implements context.Context.
func (h *hook) Err() error {
	if h.cause != nil {
		return h.cause
	}
	return context.Canceled
}

// Deadline implements context.Context.
func (h *hook) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (h *hook) Value(any) any { return nil }
