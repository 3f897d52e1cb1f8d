package nvme

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// rawCompletion is a completion queue entry (section 3.3.3.2) in shared memory: hostile, and free to change at any time.
//
//	low   bytes 0-7   command specific result, reserved
//	high  bytes 8-15  SQ head (16 bits, ignored: row 4), SQ id (16), command id (16), phase (1), status (15)
type rawCompletion struct {
	low, high uint64
}

// completion is a private copy of one entry.
type completion struct {
	result uint32
	sqid   uint16
	cid    uint16
	status status
}

// read copies the entry if its phase bit says that it is new (row 5). The phase bit and all that decides stand in one word,
// which is loaded once; the atomic load also keeps the second load, of the result, after it (acquire: a plain MOV on amd64,
// LDAR on arm64), so an honest controller's result is complete.
func (r *rawCompletion) read(phase uint64) (completion, bool) {
	high := atomic.LoadUint64(&r.high)
	if high>>48&1 != phase {
		return completion{}, false
	}
	return completion{
		result: uint32(atomic.LoadUint64(&r.low)),
		sqid:   uint16(high >> 16),
		cid:    uint16(high >> 32),
		status: status(high >> 49),
	}, true
}

// isNew reports what read would, without looking at the rest.
func (r *rawCompletion) isNew(phase uint64) bool { return atomic.LoadUint64(&r.high)>>48&1 == phase }

// status is the status field without the phase bit: code (8 bits), type (3), retry delay (2), more (1), do not retry (1).
type status uint16

func (s status) code() uint16 { return uint16(s) & 0x7ff } // type and code

// ErrRefused is wrapped by the error of a command that the controller answered with an error status. Whether a write landed
// is unknown then.
var ErrRefused = errors.New("the controller answered with an error")

// statusNames are those that a user may meet (section 3.3.3.2.1); others are shown as numbers.
var statusNames = map[uint16]string{
	0x001: "invalid opcode", 0x002: "invalid field", 0x004: "data transfer error", 0x005: "aborted: power loss", 0x006: "internal error",
	0x007: "aborted as asked", 0x008: "aborted: queue deleted", 0x00b: "invalid namespace", 0x013: "invalid PRP offset",
	0x01d: "sanitize in progress", 0x020: "write protected", 0x080: "LBA out of range", 0x081: "capacity exceeded", 0x082: "namespace not ready",
	0x083: "reservation conflict", 0x100: "invalid completion queue", 0x101: "invalid queue identifier", 0x102: "invalid queue size",
	0x280: "write fault", 0x281: "unrecovered read error", 0x286: "access denied",
}

func (s status) err() error {
	if s.code() == 0 {
		return nil
	}
	if name, known := statusNames[s.code()]; known {
		return fmt.Errorf("%w: %s (type %d, code %#02x)", ErrRefused, name, s.code()>>8, s.code()&0xff)
	}
	return fmt.Errorf("%w: type %d, code %#02x", ErrRefused, s.code()>>8, s.code()&0xff)
}
