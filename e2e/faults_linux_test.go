package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/files"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/resp"
	"cvmstore/seal"
	"cvmstore/streams"
	"cvmstore/volume"
)

// inProcess is the whole server on a device whose faults a test decides.
type inProcess struct {
	dev    *memdev.Device
	v      *volume.Volume
	server *resp.Server
}

func startInProcess(t *testing.T, blocks device.BlockCount, cacheBytes int64) *inProcess {
	t.Helper()
	keys, err := seal.NewKeys([16]byte{1}, seal.SuiteAEGIS, [32]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	counter := epochtest.NewMemory(epochtest.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	p := &inProcess{dev: memdev.New(memdev.Options{Blocks: blocks})}
	space := keyspace.New(keyspace.Options{CacheBytes: cacheBytes})
	kvs.NewCollections(space, 1<<20)
	files.New(space)
	streams.New(space, 1<<20)
	p.v, err = volume.Open(ctx, volume.Options{
		Device: p.dev, Counter: counter, Keys: keys, SegmentBlocks: 64, Log: zerolog.Nop(),
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: space},
	})
	if err != nil {
		t.Fatal(err)
	}
	space.Attach(p.v)
	config := resp.DefaultConfig()
	config.Port = resp.PortAny
	if p.server, err = resp.New(resp.Options{Config: config, Volume: p.v, Space: space, Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	p.server.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.server.Shutdown(ctx)
		_ = p.v.Close(ctx)
	})
	return p
}

func (p *inProcess) dial(t *testing.T) *client { return dial(t, p.server.Addr().String()) }

var errInjected = errors.New("injected fault")

// TestAFailedWriteNeverAnswersOK: the write that failed answers an error, so does everything after it, and what was durable
// before is still read (DESIGN.md 4.5).
func TestAFailedWriteNeverAnswersOK(t *testing.T) {
	for name, land := range map[string]memdev.Landing{"lost": memdev.LandNone, "landed but reported failed": memdev.LandAll, "torn": memdev.LandTorn} {
		t.Run(name, func(t *testing.T) {
			p := startInProcess(t, 1024, 0)
			c := p.dial(t)
			c.expect(t, "OK", "SET", "before", "1")
			var hits atomic.Int64
			p.dev.SetFault(func(r memdev.Request) memdev.Fault {
				if r.Op != device.OpWrite {
					return memdev.Fault{}
				}
				hits.Add(1)
				return memdev.Fault{Err: errInjected, Land: land}
			})
			for _, args := range [][]string{{"SET", "before", "2"}, {"SET", "other", "1"}, {"INCR", "n"}, {"DEL", "before"}} {
				if got := c.do(t, args...); !strings.HasPrefix(got, "-") {
					t.Fatalf("%v with a failing device: %q", args, got)
				}
			}
			if got := c.do(t, "GET", "before"); got == "2" || got == missing {
				t.Fatalf("a change that is not durable was served: %q", got)
			}
			if hits.Load() == 0 {
				t.Fatal("the fault hit nothing")
			}
			c.expect(t, "PONG", "PING")
		})
	}
}

// TestReadErrorsNameTheObject: a read that fails, or returns other bytes, is an error for that command alone.
func TestReadErrorsNameTheObject(t *testing.T) {
	p := startInProcess(t, 4096, 1<<20)
	c := p.dial(t)
	value := strings.Repeat("v", 8000)
	const n = 400 // 3 MiB: most are not in the cache
	for i := range n {
		c.expect(t, "OK", "SET", fmt.Sprint("key", i), value)
	}
	var faults atomic.Int64
	p.dev.SetFault(func(r memdev.Request) memdev.Fault {
		if r.Op == device.OpRead && r.Nth%2 == 0 {
			if faults.Add(1)%2 == 0 {
				return memdev.Fault{Err: errInjected}
			}
			return memdev.Fault{Land: memdev.LandNone} // success reported, nothing read
		}
		return memdev.Fault{}
	})
	wrong := 0
	for i := range n {
		switch got := c.do(t, "GET", fmt.Sprint("key", i)); {
		case got == value:
		case strings.HasPrefix(got, "-"):
			wrong++
		default:
			t.Fatalf("key %d: a wrong value of %d bytes", i, len(got))
		}
	}
	if wrong == 0 || faults.Load() == 0 {
		t.Fatalf("%d faults, %d error replies: the test met none", faults.Load(), wrong)
	}
	p.dev.SetFault(nil)
	for i := range n {
		c.expect(t, value, "GET", fmt.Sprint("key", i))
	}
	c.expect(t, "OK", "SET", "key0", "written after read errors")
}

// TestAFullVolumeAnswersOOM: writes are refused with a clear error, reads and deletes go on.
func TestAFullVolumeAnswersOOM(t *testing.T) {
	p := startInProcess(t, 600, 0)
	c := p.dial(t)
	value := strings.Repeat("f", 30_000)
	var got string
	stored := 0
	for ; stored < 1000; stored++ {
		if got = c.do(t, "SET", fmt.Sprint("key", stored), value); got != "OK" {
			break
		}
	}
	if !strings.HasPrefix(got, "-OOM ") || stored < 10 {
		t.Fatalf("after %d values: %q", stored, got)
	}
	for i := range stored {
		c.expect(t, value, "GET", fmt.Sprint("key", i))
	}
	c.expect(t, "1", "DEL", "key0")
	c.expect(t, missing, "GET", "key0")
}
