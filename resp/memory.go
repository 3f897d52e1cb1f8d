package resp

import (
	"errors"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"cvmstore/keyspace"
	"cvmstore/resp/command"
)

// Bounds of memory.
const (
	// memoryLimitMin keeps a tiny maxmemory from making the runtime collect without end.
	memoryLimitMin = 64 << 20
	// evictPerCommand and evictPerRound bound the keys that go for one command, and in one round of background work.
	evictPerCommand = 16
	evictPerRound   = 200
	// measureEvery is how often what the index does not count is measured, at most.
	measureEvery = int64(time.Second)
	// systemShare of the machine's memory is the limit where maxmemory sets none, in percent.
	systemShare = 80
)

// gauge knows how much memory is in use. The index counts its own part exactly and at once (keyspace.Used); the rest (cached
// values, clients, the server itself) is what the garbage collector found alive beyond what is allocated for the index.
type gauge struct {
	live   func() int64 // command.HeapLive
	limit  atomic.Int64 // bytes; 0: none
	beyond atomic.Int64 // in use beyond the index

	// Loop 0 only.
	cycle      uint64 // collection in which beyond was measured
	measuredAt int64
	collecting atomic.Bool
}

// usedMemory is what maxmemory is compared with.
func (s *Server) usedMemory() int64 { return s.gauge.beyond.Load() + s.space.Used() }

func (v *view) UsedMemory() int64 { return v.s.usedMemory() }

// setMemory takes maxmemory and its policy from a configuration. Above the limit there is some room for garbage, and the runtime
// collects before that is used up. Without maxmemory the limit is a share of the machine's memory, so that writes are refused
// long before the kernel ends the process.
func (s *Server) setMemory(c *Config) {
	limit, ceiling := c.MaxMemory, int64(math.MaxInt64)
	if limit > 0 {
		ceiling = max(limit+limit/4, memoryLimitMin)
	} else if system := command.MemoryOfSystem(); system > 0 {
		limit = system / 100 * systemShare
		ceiling = limit + limit/10
	}
	if c.MaxMemory > 0 || os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(ceiling)
	}
	s.gauge.limit.Store(limit)
	s.space.SetUses(keyspace.Uses{Count: strings.HasSuffix(c.MemoryPolicy, "-lfu"), LogFactor: c.LFULogFactor, Decay: c.LFUDecay})
	s.measure()
}

// checkMemory keeps the gauge true, ten times a second.
func (s *Server) checkMemory(now int64) {
	g := &s.gauge
	if now-g.measuredAt < measureEvery {
		return
	}
	if cycle := command.Collections(); cycle != g.cycle {
		g.cycle, g.measuredAt = cycle, now
		s.measure()
		return
	}
	// What grew since the last collection is not known, garbage or not: look when it may be too much.
	limit := g.limit.Load()
	if limit > 0 && command.HeapObjects() > limit && s.usedMemory() <= limit && g.collecting.CompareAndSwap(false, true) {
		g.measuredAt = now
		go func() {
			runtime.GC()
			g.collecting.Store(false)
		}()
	}
}

func (s *Server) measure() {
	s.gauge.beyond.Store(max(s.gauge.live()-s.space.Allocated(), 0))
}

// makeRoom is called before a command that may need memory: it evicts some keys if there is too little, or refuses the command
// where nothing can be evicted.
func (l *loop) makeRoom() error {
	limit := l.srv.gauge.limit.Load()
	if limit == 0 || l.srv.usedMemory() <= limit {
		return nil
	}
	policy, ok := evictions[l.config.MemoryPolicy]
	switch {
	case !ok || l.config.MaxMemory == 0:
		return errOOM
	case l.srv.pause.until.Load() > l.now:
		return nil // CLIENT PAUSE keeps keys from going, and the client's pace bounds what comes
	}
	more, err := l.evict(policy, evictPerCommand)
	if errors.Is(err, keyspace.ErrNothingToEvict) {
		return errOOM
	}
	l.evictMore = more
	return nil
}

// evict deletes up to n keys; more says that this was not enough. A volume that takes no batch now gets them later.
func (l *loop) evict(policy keyspace.Eviction, n int) (more bool, err error) {
	policy.Samples = int(l.config.MemorySamples)
	start := nanos()
	_, err = l.srv.space.Evict(policy, l.srv.gauge.limit.Load()-l.srv.gauge.beyond.Load(), n)
	if limit := l.config.LatencyMillis; limit > 0 {
		if ms := (nanos() - start) / int64(time.Millisecond); ms >= limit {
			l.srv.observed.Latency("eviction-cycle", ms)
		}
	}
	return err == nil && l.srv.usedMemory() > l.srv.gauge.limit.Load(), err
}

// evictCycle goes on with what makeRoom has begun, between two reads of the sockets.
func (l *loop) evictCycle() {
	policy, ok := evictions[l.config.MemoryPolicy]
	if !ok || l.config.MaxMemory == 0 || l.srv.usedMemory() <= l.srv.gauge.limit.Load() {
		l.evictMore = false
		return
	}
	l.evictMore, _ = l.evict(policy, evictPerRound)
	if l.evictMore {
		l.nextCron = l.now
	}
}

// evictions are Redis' policies by name, but noeviction.
var evictions = map[string]keyspace.Eviction{
	"volatile-lru":    {Rank: keyspace.RankIdle, Volatile: true},
	"allkeys-lru":     {Rank: keyspace.RankIdle},
	"volatile-lfu":    {Rank: keyspace.RankUses, Volatile: true},
	"allkeys-lfu":     {Rank: keyspace.RankUses},
	"volatile-random": {Rank: keyspace.RankRandom, Volatile: true},
	"allkeys-random":  {Rank: keyspace.RankRandom},
	"volatile-ttl":    {Rank: keyspace.RankExpiry, Volatile: true},
}

// policies are the values of maxmemory-policy, in Redis' order.
var policies = []string{
	"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction",
}
