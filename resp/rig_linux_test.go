package resp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/files"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/seal"
	"cvmstore/streams"
	"cvmstore/volume"
)

// rig is a server on a volume in memory, with a counter that the test controls.
type rig struct {
	t       *testing.T
	dev     *memdev.Device
	counter *epochtest.Memory
	vol     *volume.Volume
	space   *keyspace.Space
	srv     *Server
	options volume.Options
}

// rigOptions change what a rig is made of.
type rigOptions struct {
	config     func(*Config)
	counter    epochtest.Options
	cacheBytes int64
	blobs      bool // almost everything is a blob, in small chunks
	log        io.Writer
	onShutdown func()
	keep       bool  // the server outlives the test
	reloadErr  error // DEBUG RELOAD fails with it
	exposed    func(Config) error
	heap       func(*rig) int64 // what is alive in memory
}

func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	keys, err := seal.NewKeys([16]byte{1}, seal.SuiteAEGIS, [32]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	async := o.counter.Async
	r := &rig{t: t, dev: memdev.New(memdev.Options{Blocks: 1 << 10, BlocksMax: 1 << 16}), counter: epochtest.NewMemory(o.counter)}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{})
	if async { // the opening commit has to be delivered
		go func() {
			for {
				select {
				case <-opened:
					return
				case <-time.After(time.Millisecond):
					r.counter.Deliver()
				}
			}
		}()
	}
	so, blobs := keyspace.Options{CacheBytes: o.cacheBytes}, volume.BlobOptions{}
	if o.blobs {
		so.BlobBytes = 100
		blobs = volume.BlobOptions{ChunkBytes: 4096, Buffers: 16, Depth: 8, Ahead: 4}
	}
	log := zerolog.Nop()
	if o.log != nil {
		log = zerolog.New(o.log)
	}
	r.space = keyspace.New(so)
	kvs.NewCollections(r.space, 1<<20)
	files.New(r.space)
	streams.New(r.space, 1<<20)
	options := volume.Options{
		Device: r.dev, Counter: r.counter, Keys: keys, SegmentBlocks: 64, Blobs: blobs,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: r.space}, Log: zerolog.Nop(),
	}
	r.options = options
	r.vol, err = volume.Open(ctx, options)
	close(opened)
	if err != nil {
		t.Fatal(err)
	}
	r.space.Attach(r.vol)
	config := DefaultConfig()
	config.Port = PortAny
	if o.config != nil {
		o.config(&config)
	}
	r.srv, err = New(Options{Config: config, Volume: restless{r.vol}, Space: r.space, Log: log, Version: "test", OnShutdown: o.onShutdown, Exposed: o.exposed, Reload: func() (Volume, error) {
		if o.reloadErr != nil {
			return nil, o.reloadErr
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.vol.Close(ctx); err != nil {
			return nil, err
		}
		v, err := volume.Open(ctx, options)
		if err != nil {
			return nil, err
		}
		r.space.Attach(v)
		r.vol = v
		return restless{v}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if o.heap != nil {
		r.srv.gauge.live = func() int64 { return o.heap(r) }
		r.srv.measure()
	}
	r.srv.Start()
	t.Cleanup(func() {
		if o.keep {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if async {
			r.deliver()
		}
		if r.srv != nil {
			if err := r.srv.Shutdown(ctx); err != nil {
				t.Errorf("shutdown: %v", err)
			}
		}
	})
	return r
}

// deliver lets the counter answer everything that is asked of it within a moment.
func (r *rig) deliver() {
	for range 100 {
		for r.counter.Deliver() {
		}
		time.Sleep(time.Millisecond)
	}
}

// delivering lets the counter answer until the function that it returns is called.
func (r *rig) delivering() (stop func()) {
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stopped:
				return
			case <-time.After(time.Millisecond):
				r.counter.Deliver()
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}

// restless is a volume on a device that signals nothing: the loop has to look often.
type restless struct{ *volume.Volume }

func (v restless) Deadline() (time.Duration, bool) { return 100 * time.Microsecond, true }

// client is a connection that speaks bytes.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (r *rig) dial() *client {
	r.t.Helper()
	c, err := net.Dial("tcp", r.srv.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	r.t.Cleanup(func() { _ = c.Close() })
	return &client{r.t, c, bufio.NewReader(c)}
}

func (c *client) send(raw string) {
	c.t.Helper()
	if _, err := c.Write([]byte(raw)); err != nil {
		c.t.Fatal(err)
	}
}

// wire encodes a command.
func wire(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// reply reads one reply and returns it as it came.
func (c *client) reply() string {
	c.t.Helper()
	s, err := readReply(c.r)
	if err != nil {
		c.t.Fatalf("read a reply: %v (got %q)", err, s)
	}
	return s
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, err
	}
	if !strings.HasSuffix(line, "\r\n") {
		return line, fmt.Errorf("line ends badly: %q", line)
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=', '!':
		if n < 0 {
			return line, nil
		}
		body := make([]byte, n+2)
		_, err := io.ReadFull(r, body)
		return line + string(body), err
	case '*', '~', '>', '%':
		if line[0] == '%' {
			n *= 2
		}
		for range max(n, 0) {
			part, err := readReply(r)
			line += part
			if err != nil {
				return line, err
			}
		}
		return line, nil
	case '+', '-', ':', ',', '_', '#', '(':
		return line, nil
	}
	return line, fmt.Errorf("not a reply: %q", line)
}

// do sends a command and returns its reply.
func (c *client) do(args ...string) string {
	c.t.Helper()
	c.send(wire(args...))
	return c.reply()
}

// want checks a reply.
func (c *client) want(reply string, args ...string) {
	c.t.Helper()
	if got := c.do(args...); got != reply {
		c.t.Errorf("%.200q: got %.2000q, want %.2000q", args, got, reply)
	}
}

// closed checks that the server has ended the connection, and returns what it said before.
func (c *client) closed() string {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		c.t.Fatalf("not closed: %v", err)
	}
	return string(rest)
}
