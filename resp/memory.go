package resp

import (
	"math"
	"runtime/debug"

	"cvmstore/resp/command"
)

// memoryLimitMin keeps a tiny maxmemory from making the runtime collect without end.
const memoryLimitMin = 64 << 20

// checkMemory compares what is in use with maxmemory. It is called ten times a second, and when maxmemory is set.
func (s *Server) checkMemory(c *Config) {
	s.overMemory.Store(c.MaxMemory > 0 && command.UsedMemory() > c.MaxMemory)
}

// limitMemory makes the runtime collect garbage before it reaches maxmemory, so that what checkMemory finds above it is in use.
// Without maxmemory the runtime's own setting (GOMEMLIMIT) is left alone.
func limitMemory(old, next int64) {
	switch {
	case old == next:
	case next == 0:
		debug.SetMemoryLimit(math.MaxInt64)
	default:
		debug.SetMemoryLimit(max(next, memoryLimitMin))
	}
}
