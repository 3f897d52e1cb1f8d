package memdev

import (
	"cvmstore/ioengine/device"
)

// Request is what a fault hook sees of a request. Requests outside the device do not reach the hook.
type Request struct {
	Op      device.Op
	Through bool
	LBA     device.LBA
	Count   device.BlockCount // of reads, writes and trims
	Nth     uint64            // counts the requests of this Op since New, from 1
}

// Landing says how much of a request takes effect.
type Landing uint8

// The landings of a Fault.
const (
	LandDefault Landing = iota // everything if Err is nil, nothing otherwise
	LandAll                    // everything, also when an error is reported
	LandNone                   // nothing: a write dropped, a flush that is a lie, a read that leaves its buffer as it was
	LandTorn                   // a write lands with some of its sectors only; a read delivers some only
	LandCached                 // a write through lands in the volatile cache only; other requests: LandAll
)

// Fault is what happens to one request. The zero Fault is none.
type Fault struct {
	Err   error   // what the completion reports
	Land  Landing // what takes effect
	Delay int     // calls of Poll for which it stays outstanding; Wait passes over it only while something else is ready
	Hang  bool    // never completes. A power cut or kill ends it; Close of its queue reports it
}

// SetFault sets the hook that decides the fault of each request as it is submitted, nil for none. The hook runs under the
// device's lock: it must not call the device. It is called in the order of submission.
func (d *Device) SetFault(hook func(Request) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = hook
}

// Nth is a hook that lets the nth request of an op (see Request.Nth) meet f, and no other.
func Nth(op device.Op, nth uint64, f Fault) func(Request) Fault {
	return func(r Request) Fault {
		if r.Op == op && r.Nth == nth {
			return f
		}
		return Fault{}
	}
}

// From is a hook that lets the nth request of an op and all later ones meet f.
func From(op device.Op, nth uint64, f Fault) func(Request) Fault {
	return func(r Request) Fault {
		if r.Op == op && r.Nth >= nth {
			return f
		}
		return Fault{}
	}
}

// Counters count what the device served and what it did to its user since New.
type Counters struct {
	Reads, Writes, Flushes, Trims uint64 // submitted and inside the device
	Through                       uint64 // writes among them that asked for durability
	BytesRead, BytesWritten       uint64 // of completed requests without error

	Errors  uint64 // completions with an injected error
	Dropped uint64 // writes, flushes and reads reported as done that took no effect, or not durably
	Torn    uint64 // requests of which some sectors landed
	Delayed uint64 // requests with an injected delay
	Hung    uint64

	PowerCuts, Kills       uint64
	BlocksLost, BlocksTorn uint64 // by power cuts: unflushed blocks that kept their durable version; mixed ones
	Tampered               uint64 // blocks changed by Poke, FlipBit, Swap, Rewind; 1 for each Restore
}

// Counters returns the counts so far.
func (d *Device) Counters() Counters {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counters
}

// faultLocked counts a request and decides its fault.
func (d *Device) faultLocked(r Request) Fault {
	c := &d.counters
	var n *uint64
	switch r.Op {
	case device.OpRead:
		n = &c.Reads
	case device.OpWrite:
		n = &c.Writes
	case device.OpFlush:
		n = &c.Flushes
	default:
		n = &c.Trims
	}
	*n++
	r.Nth = *n
	if r.Through {
		c.Through++
	}
	if d.fault == nil {
		return Fault{}
	}
	f := d.fault(r)
	if f.Land == LandDefault {
		if f.Land = LandAll; f.Err != nil {
			f.Land = LandNone
		}
	}
	if f.Land == LandCached && !r.Through {
		f.Land = LandAll
	}
	d.countFaultLocked(f)
	return f
}

func (d *Device) countFaultLocked(f Fault) {
	c := &d.counters
	count := func(n *uint64, is bool) {
		if is {
			*n++
		}
	}
	count(&c.Errors, f.Err != nil)
	count(&c.Dropped, f.Err == nil && (f.Land == LandNone || f.Land == LandCached))
	count(&c.Torn, f.Land == LandTorn)
	count(&c.Delayed, f.Delay > 0)
	count(&c.Hung, f.Hang)
}
