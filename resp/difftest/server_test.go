package difftest

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
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

const (
	databases = 4
	deadline  = 20 * time.Second
)

// server is ours, on a device in memory, with everything that outlives a restart.
type server struct {
	t       *testing.T
	keys    *seal.Keys
	counter *epochtest.Memory
	dev     *memdev.Device
	v       *volume.Volume
	s       *resp.Server
}

func newServer(t *testing.T) *server {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the server runs on Linux")
	}
	keys, err := seal.NewKeys([16]byte{1}, seal.SuiteAEGIS, [32]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		t: t, keys: keys, counter: epochtest.NewMemory(epochtest.Options{Clock: wall}),
		dev: memdev.New(memdev.Options{Blocks: 1 << 10, BlocksMax: device.BlocksFor(4 << 30)}),
	}
	if err := s.counter.Create(t.Context(), epoch.StoreID(keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	s.open()
	t.Cleanup(s.close)
	return s
}

// wall is the time that the counter service gives.
func wall() epoch.Stamp { return epoch.Stamp(time.Now().UnixMilli()) }

// open recovers the volume and serves it. The cache is small, so that many values have to be fetched.
func (s *server) open() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	space := keyspace.New(keyspace.Options{Databases: databases, CacheBytes: 1 << 20})
	kvs.NewCollections(space, 1<<20)
	files.New(space)
	streams.New(space, 1<<20)
	v, err := volume.Open(ctx, volume.Options{
		Device: s.dev, Counter: s.counter, Keys: s.keys, SegmentBlocks: 1024, Log: zerolog.Nop(),
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: space},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	space.Attach(v)
	config := resp.DefaultConfig()
	config.Port = resp.PortAny
	server, err := resp.New(resp.Options{Config: config, Volume: restless{v}, Space: space, Log: zerolog.Nop(), Version: "test"})
	if err != nil {
		s.t.Fatal(err)
	}
	server.Start()
	s.v, s.s = v, server
}

// restless is a volume on a device that signals nothing: the loop has to look often.
type restless struct{ *volume.Volume }

func (v restless) Deadline() (time.Duration, bool) { return 100 * time.Microsecond, true }

func (s *server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := s.s.Shutdown(ctx); err != nil {
		s.t.Errorf("shutdown: %v", err)
	}
	if err := s.v.Close(ctx); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

func (s *server) dial(proto int) *conn { return dial(s.t, "tcp", s.s.Addr().String(), proto) }

// oracle starts the machine's redis-server and returns its socket. It skips the test where there is none.
func oracle(t *testing.T) (socket string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed: nothing to compare with (apt-get install redis-server)")
	}
	dir := t.TempDir()
	socket = filepath.Join(dir, "s")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", dir, "--databases", "4",
		"--save", "", "--appendonly", "no", "--daemonize", "no")
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return socket
}
