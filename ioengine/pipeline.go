package ioengine

import "fmt"

// pipeline is what Writer and Reader have in common.
type pipeline struct {
	e       *Engine
	x       extents
	key     *Key
	flying  int    // chunks that the device has
	waiting bool   // was refused since it last got a buffer
	listed  bool   // in fair.pipes
	served  uint64 // chunks, for fair
	asked   uint64 // fair.round of the last attempt
	err     error  // for good
	closed  bool
}

// state returns why the pipeline accepts nothing more.
func (p *pipeline) state() error {
	switch {
	case p.closed:
		return fmt.Errorf("pipeline: %w", ErrClosed)
	case p.err != nil:
		return p.err
	}
	return p.e.err
}

// failed keeps the first error.
func (p *pipeline) failed(err error) {
	if p.err == nil {
		p.err = err
	}
}

// Idle reports that the device holds none of the pipeline's chunks: nothing will be written to its extents any more.
func (p *pipeline) Idle() bool { return p.flying == 0 }

// Err returns the pipeline's error or its engine's, nil while both work.
func (p *pipeline) Err() error {
	if p.err != nil {
		return p.err
	}
	return p.e.err
}

// Close ends the pipeline at any time. It does not wait: chunks in flight come home in later Steps of the engine, and until
// Idle says true the extents must not be given to anyone else. A destination given to a Reader is the caller's at once.
func (p *pipeline) Close() {
	if p.closed {
		return
	}
	p.closed = true
	if p.waiting {
		p.waiting = false
		p.e.fair.rest(p)
	}
}
