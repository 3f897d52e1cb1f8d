package nvme

import (
	"errors"
	"fmt"
	"time"
)

// Registers (section 3.1.3), as offsets into the BAR.
const (
	regCAP  = 0x00 // controller capabilities, 64 bits
	regVS   = 0x08 // version
	regCC   = 0x14 // controller configuration
	regCSTS = 0x1c // controller status
	regAQA  = 0x24 // admin queue attributes
	regASQ  = 0x28 // admin submission queue base address, 64 bits
	regACQ  = 0x30 // admin completion queue base address, 64 bits

	regDoorbells = 0x1000
)

// Fields of CC (section 3.1.3.5).
const (
	ccEnable       = 1 << 0
	ccShutdown     = 1 << 14 // SHN = 01b: normal shutdown
	ccShutdownMask = 3 << 14
	ccEntrySizes   = 6<<16 | 4<<20 // submission entries of 2^6 bytes, completion entries of 2^4
	// CSS = 000b (NVM command set), MPS = 0 (pages of 4 KiB), AMS = 000b (round robin).
)

// Fields of CSTS (section 3.1.3.6).
const (
	cstsReady        = 1 << 0
	cstsFatal        = 1 << 1
	cstsShutdownMask = 3 << 2
	cstsShutdownDone = 2 << 2
	cstsGone         = 0xffffffff // what a bus returns that has no such device
)

// Bounds of our own, whatever the controller claims.
const (
	readyTimeoutMin = time.Second
	readyTimeoutMax = 30 * time.Second // CAP.TO can claim 127.5 s
	entriesMin      = 2                // section 3.1.3.1: a queue has at least two
	depthMax        = 1023             // keeps cid from 0xffff, which section 3.3.3.1 reserves
)

// Errors of a controller that cannot be used. All are wrapped with what it said.
var (
	ErrUnusable = errors.New("controller is not usable")
	ErrGeometry = errors.New("geometry changed since the device was opened")
)

// capabilities is what the driver uses of CAP. CAP is read once; no decision looks at the register again.
type capabilities struct {
	entries      int // of the largest queue
	stride       int // bytes between two doorbells
	readyTimeout time.Duration
}

// decodeCAP clamps or refuses (HOSTILE_DEVICE rows 14 and 30). CMB and PMR are looked at nowhere: offered, they stay off (row 19).
func decodeCAP(raw uint64, barSize int) (capabilities, error) {
	if raw == ^uint64(0) || raw == 0 {
		return capabilities{}, fmt.Errorf("CAP reads as %#x: %w", raw, ErrUnusable)
	}
	c := capabilities{
		entries:      int(raw&0xffff) + 1,
		stride:       4 << (raw >> 32 & 0xf),
		readyTimeout: min(max(time.Duration(raw>>24&0xff)*500*time.Millisecond, readyTimeoutMin), readyTimeoutMax),
	}
	if c.entries < entriesMin {
		return c, fmt.Errorf("CAP.MQES: queues of %d entry: %w", c.entries, ErrUnusable)
	}
	c.entries = min(c.entries, depthMax+1)
	if raw>>37&1 == 0 {
		return c, fmt.Errorf("CAP.CSS: no NVM command set: %w", ErrUnusable)
	}
	if shift := raw >> 48 & 0xf; shift != 0 {
		return c, fmt.Errorf("CAP.MPSMIN: memory pages of at least %d bytes, not 4096: %w", 4096<<shift, ErrUnusable)
	}
	if c.pairs(barSize) < 1 {
		return c, fmt.Errorf("a BAR of %d bytes with doorbells every %d has no room for one: %w", barSize, c.stride, ErrUnusable)
	}
	return c, nil
}

// pairs returns how many queue pairs, the admin pair included, have both doorbells inside the BAR (section 3.1.3.10 and the
// next one: 1000h + (2y + 0 or 1) * (4 << DSTRD)).
func (c *capabilities) pairs(barSize int) int {
	room := barSize - regDoorbells - c.stride - 4 // behind the first completion doorbell
	if room < 0 {
		return 0
	}
	return min(room/(2*c.stride)+1, 1<<16)
}
