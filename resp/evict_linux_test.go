package resp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

const besideIndex = 50 << 20

// evictRig is a server whose memory beyond the index is besideIndex.
func evictRig(t *testing.T, policy string, room int64) *rig {
	return newRig(t, rigOptions{
		heap: func(r *rig) int64 { return besideIndex + r.space.Allocated() },
		config: func(c *Config) {
			c.MaxMemory, c.MemoryPolicy = besideIndex+room, policy
		},
	})
}

func (c *client) info(section, name string) int64 {
	c.t.Helper()
	for line := range strings.SplitSeq(c.do("INFO", section), "\r\n") {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				c.t.Fatal(err)
			}
			return n
		}
	}
	c.t.Fatalf("INFO %s has no %s", section, name)
	return 0
}

// fill sets n keys in pipelines and returns how many were refused for want of memory.
func (c *client) fill(prefix string, n int, more ...string) (refused int) {
	c.t.Helper()
	for from := 0; from < n; from += 100 {
		var b strings.Builder
		for i := from; i < from+100; i++ {
			b.WriteString(wire(append([]string{"SET", fmt.Sprint(prefix, i), "v"}, more...)...))
		}
		c.send(b.String())
		for range 100 {
			switch got := c.reply(); {
			case strings.HasPrefix(got, "-OOM "):
				refused++
			case got != "+OK\r\n":
				c.t.Fatal(got)
			}
		}
	}
	return refused
}

func TestEvictionKeepsMemoryBelowMaxmemory(t *testing.T) {
	for policy := range evictions {
		t.Run(policy, func(t *testing.T) {
			const room, keys = 200_000, 6000
			r := evictRig(t, policy, room)
			c := r.dial()
			if refused := c.fill("key:", keys, "EX", "1000"); refused > 0 {
				t.Errorf("%d writes refused", refused)
			}
			used, evicted := r.srv.usedMemory(), c.info("stats", "evicted_keys") // which may go on meanwhile
			left, _ := strconv.ParseInt(strings.Trim(c.do("DBSIZE"), ":\r\n"), 10, 64)
			then := c.info("stats", "evicted_keys")
			if used > besideIndex+room+1000 || evicted == 0 || left+evicted > keys || left+then < keys || left < room/200 {
				t.Errorf("%d bytes used beyond the rest, %d keys evicted, %d left", used-besideIndex, evicted, left)
			}
		})
	}
}

func TestWithoutAKeyToEvictWritesAreRefused(t *testing.T) {
	for _, policy := range []string{"noeviction", "volatile-lru", "volatile-ttl"} {
		c := evictRig(t, policy, 100_000).dial()
		if refused := c.fill("key:", 3000); refused == 0 || c.info("stats", "evicted_keys") != 0 {
			t.Errorf("%s: %d writes refused, %d keys evicted", policy, refused, c.info("stats", "evicted_keys"))
		}
		c.want(bulk("v"), "GET", "key:0")
		c.want(":100\r\n", append([]string{"DEL"}, names("key:", 100)...)...)
		c.want("+OK\r\n", "SET", "again", "v")
	}
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// A lowered maxmemory takes effect though no client writes, after a pause too.
func TestALoweredMaxmemoryEvictsInTheBackground(t *testing.T) {
	r := evictRig(t, "allkeys-random", 10<<20)
	c := r.dial()
	c.fill("key:", 3000)
	c.want("+OK\r\n", "CLIENT", "PAUSE", "100000", "WRITE")
	c.want("+OK\r\n", "CONFIG", "SET", "maxmemory", strconv.Itoa(besideIndex+50_000))
	for range 3 {
		if n := c.info("stats", "evicted_keys"); n != 0 {
			t.Fatalf("%d keys evicted during a pause", n)
		}
	}
	c.want("+OK\r\n", "CLIENT", "UNPAUSE")
	eventually(t, "keys are evicted", func() bool { return r.srv.usedMemory() <= besideIndex+50_000 })
	if n := c.info("stats", "evicted_keys"); n == 0 {
		t.Error("none counted")
	}
}

func TestUsesAreCounted(t *testing.T) {
	c := evictRig(t, "allkeys-lfu", 10<<20).dial()
	c.want("+OK\r\n", "SET", "k", "v")
	c.want(":5\r\n", "OBJECT", "FREQ", "k")
	c.want("+OK\r\n", "CONFIG", "SET", "lfu-log-factor", "0")
	for range 5 {
		c.want(bulk("v"), "GET", "k")
	}
	c.want(":10\r\n", "OBJECT", "FREQ", "k")
	c.want("-ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.\r\n", "OBJECT", "IDLETIME", "k")
	dump := strings.SplitN(c.do("DUMP", "k"), "\r\n", 2)[1]
	c.want("+OK\r\n", "RESTORE", "other", "0", strings.TrimSuffix(dump, "\r\n"), "FREQ", "100")
	c.want(":100\r\n", "OBJECT", "FREQ", "other")
	c.want("+OK\r\n", "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	c.want("+OK\r\n", "RESTORE", "third", "0", strings.TrimSuffix(dump, "\r\n"), "IDLETIME", "1000")
	if got := c.do("OBJECT", "IDLETIME", "third"); got != ":1000\r\n" && got != ":1001\r\n" {
		t.Errorf("idle time %q", got)
	}
	c.want("-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction\r\n", "CONFIG", "SET", "maxmemory-policy", "wrong")
}

// During a pause an expired key is absent and is not deleted.
func TestAPauseHoldsExpiry(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.want("+OK\r\n", "CLIENT", "PAUSE", "100000", "WRITE")
	c.want("+OK\r\n", "CLIENT", "UNPAUSE")
	c.want("+OK\r\n", "SET", "k", "v", "PX", "30")
	c.want("+OK\r\n", "CLIENT", "PAUSE", "100000", "WRITE")
	eventually(t, "the key is gone", func() bool { return c.do("GET", "k") == "$-1\r\n" })
	if n := c.info("stats", "expired_keys"); n != 0 {
		t.Errorf("%d keys expired during a pause", n)
	}
	c.want(":1\r\n", "DBSIZE")
	c.want("+OK\r\n", "CLIENT", "UNPAUSE")
	eventually(t, "it is deleted", func() bool { return c.do("DBSIZE") == ":0\r\n" })
}

// eventually asks until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
