package resp

import (
	"fmt"
	"strings"
	"testing"

	"cvmstore/volume"
)

// reloadRig is a server with two loops that holds no values in memory, so that reads go to the device.
func reloadRig(t *testing.T) *rig {
	return newRig(t, rigOptions{cacheBytes: -1, config: func(c *Config) { c.Loops, c.DebugCommand = 2, "local" }})
}

func TestReloadRecoversTheVolumeInPlace(t *testing.T) {
	r := reloadRig(t)
	a, b := r.dial(), r.dial()
	a.want("+OK\r\n", "SET", "k", "v", "PX", "1000000")
	a.want(":1\r\n", "INCR", "n")
	a.want("+OK\r\n", "SELECT", "3")
	a.want("+OK\r\n", "SET", "other", "x")
	b.want("+OK\r\n", "WATCH", "k")
	generation := func() string {
		_, after, _ := strings.Cut(b.do("INFO", "cvm"), "generation:")
		g, _, _ := strings.Cut(after, "\r\n")
		return g
	}
	before := generation()
	for i := range 3 {
		a.want("+OK\r\n", "DEBUG", "RELOAD", "NOSAVE")
		b.want(fmt.Sprintf(":%d\r\n", i+2), "INCR", "n")
	}
	if after := generation(); after == before || after == "" {
		t.Errorf("generation %q before, %q after", before, after)
	}
	a.want(bulk("x"), "GET", "other") // its connection and database are what they were
	b.want(bulk("v"), "GET", "k")
	if got := b.do("PTTL", "k"); !strings.HasPrefix(got, ":9") && got != ":1000000\r\n" {
		t.Errorf("PTTL %q", got)
	}
	b.want("+OK\r\n", "MULTI")
	b.want("+QUEUED\r\n", "GET", "k")
	b.want("*-1\r\n", "EXEC") // a reload touches what is watched
	a.want("-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.\r\n", "DEBUG", "RELOAD", "QUICKLY")
}

// Commands of other clients, waiting for values, for a level, or for room, go on as if nothing had been.
func TestReloadUnderLoad(t *testing.T) {
	r := reloadRig(t)
	c := r.dial()
	const keys = 200
	for i := range keys {
		c.want("+OK\r\n", "SET", fmt.Sprint("k", i), strings.Repeat("x", 100)+fmt.Sprint(i))
	}
	ended := make(chan int)
	stop := make(chan struct{})
	for w := range 4 {
		go func() {
			d := r.dial()
			n := 0
			defer func() { ended <- n }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				var b strings.Builder
				for i := range 20 {
					b.WriteString(wire("GET", fmt.Sprint("k", (n+i)%keys)))
					b.WriteString(wire("INCR", fmt.Sprint("n", w)))
				}
				d.send(b.String())
				for i := range 20 {
					if got, want := d.reply(), bulk(strings.Repeat("x", 100)+fmt.Sprint((n+i)%keys)); got != want {
						t.Errorf("GET: %q", got)
						return
					}
					if got, want := d.reply(), fmt.Sprintf(":%d\r\n", n+i+1); got != want {
						t.Errorf("INCR: %q, want %q", got, want)
						return
					}
				}
				n += 20
			}
		}()
	}
	for range 10 {
		c.want("+OK\r\n", "DEBUG", "RELOAD")
	}
	close(stop)
	total := 0
	for range 4 {
		total += <-ended
	}
	if total < 100 {
		t.Errorf("only %d commands got through", total)
	}
	c.want(":"+fmt.Sprint(keys+4)+"\r\n", "DBSIZE")
}

// What was lost to the disk is not hidden by a reload: the server stops rather than serve something else.
func TestAReloadThatFailsStopsTheServer(t *testing.T) {
	stopped := make(chan struct{})
	r := newRig(t, rigOptions{
		reloadErr: fmt.Errorf("scan: %w", volume.ErrRollback), onShutdown: func() { close(stopped) },
		config: func(c *Config) { c.DebugCommand = "yes" },
	})
	c := r.dial()
	if got := c.do("DEBUG", "RELOAD"); !strings.HasPrefix(got, "-") {
		t.Errorf("%q", got)
	}
	<-stopped
}
