package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/files"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/seal"
	"cvmstore/volume"
)

// fileRig is a server, and the command line beside it.
type fileRig struct {
	t    *testing.T
	addr string
	dir  string
}

func newFileRig(t *testing.T) *fileRig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	keys, err := seal.GenerateKeys(seal.SuiteAEGIS)
	if err != nil {
		t.Fatal(err)
	}
	counter := epochtest.NewMemory(epochtest.Options{})
	if err := counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	o := defaultOptions()
	o.server.Port = -1
	space := keyspace.New(keyspace.Options{Databases: int(o.server.Databases)})
	files.New(space)
	v, err := volume.Open(ctx, volume.Options{
		Device:  memdev.New(memdev.Options{Blocks: 4096, BlocksMax: 1 << 20}),
		Counter: counter, Keys: keys, SegmentBlocks: 256,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: space},
	})
	if err != nil {
		t.Fatal(err)
	}
	space.Attach(v)
	lines := make(logLines, 1000)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, &o, zerolog.New(lines), v, space, nil) }()
	r := &fileRig{t: t, addr: address(t, lines), dir: t.TempDir()}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the server goes on")
		}
	})
	return r
}

// file runs `cvmstore file` and returns what it prints and its exit code.
func (r *fileRig) file(args ...string) (out, errOut string, code int) {
	var o, e bytes.Buffer
	code = Main(append([]string{"file", "--addr", r.addr}, args...), &o, &e)
	return o.String(), e.String(), code
}

func (r *fileRig) ok(args ...string) string {
	r.t.Helper()
	out, errOut, code := r.file(args...)
	if code != ExitOK {
		r.t.Fatalf("file %.100q: exit code %d: %s", args, code, errOut)
	}
	return out
}

func (r *fileRig) local(name string, n int) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(b)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *fileRig) same(a, b string) {
	r.t.Helper()
	x, err := os.ReadFile(a)
	if err != nil {
		r.t.Fatal(err)
	}
	if y, err := os.ReadFile(b); err != nil || !bytes.Equal(x, y) {
		r.t.Errorf("%s and %s differ: %v", a, b, err)
	}
}

func TestFileCommands(t *testing.T) {
	r := newFileRig(t)
	sizes := map[string]int{"d/empty": 0, "d/small": 100, "d/e/middle": 1_000_000, "d/e/large": 70_000_000}
	for name, n := range sizes {
		r.local(name, n)
	}
	r.ok("put", filepath.Join(r.dir, "d"), "tree", "-j", "3")
	want := "tree/e/large\ntree/e/middle\ntree/empty\ntree/small\n"
	if got := r.ok("ls"); got != want {
		t.Errorf("ls: %q", got)
	}
	if got := r.ok("ls", "tree/e/*", "-l"); !strings.Contains(got, "    70000000  ") || !strings.Contains(got, "2 files, 67.7 MiB") {
		t.Errorf("ls -l: %q", got)
	}
	r.ok("get", "-r", "tree", filepath.Join(r.dir, "back"))
	for name := range sizes {
		r.same(filepath.Join(r.dir, name), filepath.Join(r.dir, "back", strings.TrimPrefix(name, "d/")))
	}
	r.ok("get", "tree/e/large", filepath.Join(r.dir, "one"))
	r.same(filepath.Join(r.dir, "d/e/large"), filepath.Join(r.dir, "one"))
	if out := r.ok("get", "tree/small", "-"); len(out) != 100 {
		t.Errorf("get to standard output: %d bytes", len(out))
	}
	if got := r.ok("stat", "tree/e/large"); !strings.Contains(got, "size       70000000 (66.8 MiB)") || !strings.Contains(got, "parts      2") || !strings.Contains(got, "meta       mtime = ") {
		t.Errorf("stat: %s", got)
	}
	if got := r.ok("verify", "-r", "tree"); got != "4 files of 67.7 MiB verified, 0 refused\n" {
		t.Errorf("verify: %q", got)
	}
	if got := r.ok("rm", "-r", "tree/e", "tree/small"); got != "3 files deleted\n" {
		t.Errorf("rm: %q", got)
	}
	for _, args := range [][]string{{"rm", "nope"}, {"get", "nope"}, {"stat", "nope"}, {"verify", "nope"}, {"put", filepath.Join(r.dir, "nope")}, {"put", "-"}} {
		if _, errOut, code := r.file(args...); code == ExitOK || errOut == "" {
			t.Errorf("file %q: exit code %d, %q", args, code, errOut)
		}
	}
}

// An upload that was broken off goes on with the parts that are missing; of another version of the local file nothing is taken.
func TestAnUploadGoesOn(t *testing.T) {
	r := newFileRig(t)
	path := r.local("f", 70_000_000)
	s, end, err := (&fileServer{Addr: r.addr, Timeout: time.Minute}).session(&streams{io.Discard, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	begin := func(front string) {
		t.Helper()
		id, err := s.conn.do("FBEGIN", "name", "SIZE", "70000000")
		if err == nil {
			_, err = s.conn.do("FWRITE", str(id), "0", front)
		}
		if err != nil {
			t.Fatal(err)
		}
		i, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		j := putJob{local: path, name: "name"}
		if err := os.WriteFile(s.note(&j), mustJSON(putNote{str(id), i.Size(), i.ModTime().UnixNano()}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin(string(b[:1000]))
	r.ok("put", path, "name")
	r.ok("get", "name", filepath.Join(r.dir, "g"))
	r.same(path, filepath.Join(r.dir, "g"))
	if x, err := s.conn.do("FUPLOADS"); err != nil || fmt.Sprint(x) != "[]" {
		t.Errorf("uploads that are left: %v, %v", x, err)
	}
	begin("another version")
	if err := os.Chtimes(path, time.Time{}, time.Unix(1_000_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	r.ok("put", path, "name")
	r.ok("get", "name", filepath.Join(r.dir, "h"))
	r.same(path, filepath.Join(r.dir, "h"))
}

// A name cannot lead out of the directory that files are fetched into, and prints as nothing that a terminal obeys.
func TestNamesOfFilesAreNotTrusted(t *testing.T) {
	r := newFileRig(t)
	s, end, err := (&fileServer{Addr: r.addr, Timeout: time.Minute}).session(&streams{io.Discard, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for _, name := range []string{"x/../../evil", "y//etc/passwd", "z/\x1b[2J"} {
		if _, err := s.conn.do("FPUT", name, "harm"); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"x"} {
		if _, errOut, code := r.file("get", "-r", dir, filepath.Join(r.dir, "in")); code == ExitOK || !strings.Contains(errOut, "would lead out") {
			t.Errorf("get -r %s: %d %s", dir, code, errOut)
		}
	}
	if got := r.ok("ls", "z*"); got != fmt.Sprintf("%q\n", "z/\x1b[2J") {
		t.Errorf("ls: %q", got)
	}
	if list, err := os.ReadDir(r.dir); err != nil || len(list) > 1 {
		t.Errorf("there is %v outside, %v", list, err)
	}
}

func TestProgressLine(t *testing.T) {
	got := barLine("file", 3<<20, 1<<20, 10<<20, 2*time.Second)
	if want := "[######..............]  30 %  3.0 MiB of 10.0 MiB  1.0 MiB/s  00:07 left"; !strings.HasSuffix(got, want) {
		t.Errorf("%q", got)
	}
}
