package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
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
	"cvmstore/seal"
	sharedlog "cvmstore/streams"
	"cvmstore/volume"
)

// logLines is a log whose lines a test can wait for.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A server whose store another one opened answers an error that says so, ends by itself, and exits with its own code.
func TestFencedServerEnds(t *testing.T) {
	ctx := context.Background()
	keys, err := seal.GenerateKeys(seal.SuiteAEGIS)
	if err != nil {
		t.Fatal(err)
	}
	counter := epochtest.NewMemory(epochtest.Options{})
	store := epoch.StoreID(keys.StoreID())
	if err := counter.Create(ctx, store); err != nil {
		t.Fatal(err)
	}
	o := defaultOptions()
	o.server.Port = -1
	space := keyspace.New(keyspace.Options{Databases: int(o.server.Databases)})
	kvs.NewCollections(space, 1<<20)
	files.New(space)
	sharedlog.New(space, 1<<20)
	v, err := volume.Open(ctx, volume.Options{
		Device:  memdev.New(memdev.Options{Blocks: 4096, BlocksMax: 1 << 20}),
		Counter: counter, Keys: keys, SegmentBlocks: 64,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: space},
	})
	if err != nil {
		t.Fatal(err)
	}
	space.Attach(v)
	lines := make(logLines, 100)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, &o, zerolog.New(lines), v, space, nil) }()

	conn, err := net.Dial("tcp", address(t, lines))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the server closes it
	in := bufio.NewReader(conn)
	ask := func(command string) string {
		t.Helper()
		if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
			t.Fatal(err)
		}
		reply, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(reply)
	}
	if got := ask("SET a 1"); got != "+OK" {
		t.Fatalf("SET: %s", got)
	}
	if _, err := counter.Open(ctx, store); err != nil {
		t.Fatal(err)
	}
	if got := ask("SET a 2"); !strings.HasPrefix(got, "-FENCED") {
		t.Errorf("SET on a fenced server: %s", got)
	}
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the fenced server goes on")
	}
	if !errors.Is(err, volume.ErrFenced) {
		t.Errorf("the server ended with: %v", err)
	}
	if _, todo, code := explain(err); code != ExitFenced || !strings.Contains(todo, "Another server") {
		t.Errorf("exit code %d, advice: %s", code, todo)
	}
}

// address waits for the line that says where the server listens.
func address(t *testing.T, lines logLines) string {
	t.Helper()
	for {
		select {
		case line := <-lines:
			if m := regexp.MustCompile(`"addr":"([^"]+)"`).FindStringSubmatch(line); m != nil {
				return m[1]
			}
		case <-time.After(time.Minute):
			t.Fatal("the server does not get ready")
		}
	}
}

func TestEveryErrorHasItsExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{errors.New("anything"), ExitError},
		{usageErrorf("wrong flag"), ExitUsage},
		{volume.ErrRollback, ExitRollback},
		{volume.ErrFenced, ExitFenced},
		{epoch.ErrFenced, ExitFenced},
		{volume.ErrCorrupt, ExitCorrupt},
		{epoch.ErrDamaged, ExitCorrupt},
		{seal.ErrKeyDamaged, ExitCorrupt},
		{seal.ErrKeyExposed, ExitError},
		{device.ErrLocked, ExitBusy},
		{epoch.ErrLocked, ExitBusy},
	} {
		err := fmt.Errorf("start: %w", errors.Join(c.err, errors.New("and another")))
		if _, _, code := explain(err); code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.err, code, c.code)
		}
	}
}
