package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// written makes a store with one key in dir and stops its server.
func written(t *testing.T, dir string) {
	t.Helper()
	s := start(t, dir)
	dial(t, s.addr).expect(t, "OK", "SET", "a", "1")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// What happens when one of the three files is taken away, damaged or exchanged. After each case the right file is put back, and
// the store is whole.
func TestFilesTakenAway(t *testing.T) {
	dir := t.TempDir()
	written(t, dir)
	other := t.TempDir()
	written(t, other)
	in := func(name string) string { return filepath.Join(dir, name) }
	older := read(t, in("volume.cvm"))
	written(t, dir)

	cases := []struct {
		name string
		file string
		do   func(t *testing.T, path string)
		code int
		says []string
	}{
		{"the volume is missing", "volume.cvm", remove, 3, []string{"rollback detected", "counter: 0", "the trusted counter is at"}},
		{"the volume is blank", "volume.cvm", func(t *testing.T, p string) { write(t, p, make([]byte, 1<<20)) }, 3, []string{"rollback detected"}},
		{"the volume is empty", "volume.cvm", func(t *testing.T, p string) { write(t, p, nil) }, 3, []string{"rollback detected"}},
		{"an older volume", "volume.cvm", func(t *testing.T, p string) { write(t, p, older) }, 3, []string{"rollback detected", "the trusted counter is at", "the newest one found ends at"}},
		{"another store's volume", "volume.cvm", func(t *testing.T, p string) { write(t, p, read(t, filepath.Join(other, "volume.cvm"))) }, 3, []string{"rollback detected"}},
		{"the counter is missing", "counter", remove, 1, []string{"the counter file is missing", "--counter-file"}},
		{"the counter is damaged", "counter", func(t *testing.T, p string) { write(t, p, []byte("nonsense")) }, 5, []string{"damaged"}},
		{"another store's counter", "counter", func(t *testing.T, p string) { write(t, p, read(t, filepath.Join(other, "counter"))) }, 1, []string{"holds store", "--counter-file"}},
		{"the key is missing", "key", remove, 1, []string{"the key file is missing", "--key-file"}},
		{"the key is damaged", "key", func(t *testing.T, p string) { write(t, p, read(t, p)[:100]) }, 5, []string{"not a valid key file"}},
		{"another store's key", "key", func(t *testing.T, p string) { write(t, p, read(t, filepath.Join(other, "key"))) }, 1, []string{"holds store"}},
		{"the key is open to others", "key", func(t *testing.T, p string) {
			if err := os.Chmod(p, 0o644); err != nil {
				t.Fatal(err)
			}
		}, 1, []string{"chmod 600"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			right := read(t, in(c.file))
			c.do(t, in(c.file))
			refused(t, dir, c.code, c.says)
			if err := os.RemoveAll(in(c.file)); err != nil {
				t.Fatal(err)
			}
			write(t, in(c.file), right)
			s := start(t, dir)
			dial(t, s.addr).expect(t, "1", "GET", "a")
			if code := s.stop(syscall.SIGTERM); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// A file that is somebody else's is overwritten only when it is named.
func TestForeignDataIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "volume.cvm")
	foreign := bytes.Repeat([]byte("my thesis. "), 100000)
	write(t, path, foreign)
	refused(t, dir, 1, []string{"the key file is missing", "--format-over"})
	refused(t, dir, 1, []string{"the key file is missing"}, "--format-over", "another")
	if !bytes.Equal(read(t, path), foreign) {
		t.Fatal("the foreign file was changed")
	}
	s := start(t, dir, "--format-over", path)
	dial(t, s.addr).expect(t, "OK", "SET", "a", "1")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	s = start(t, dir, "--format-over", path) // it is ours now: nothing is formatted again
	dial(t, s.addr).expect(t, "1", "GET", "a")
}

// A crash during the first start leaves a directory that starts (DESIGN.md 6.5): after each file, and at random moments.
func TestBirthAfterCrash(t *testing.T) {
	whole := t.TempDir()
	written(t, whole)
	for _, c := range []struct {
		name string
		keep []string
	}{{"nothing", nil}, {"the key", []string{"key"}}} {
		t.Run("only "+c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.keep {
				write(t, filepath.Join(dir, f), read(t, filepath.Join(whole, f)))
			}
			written(t, dir)
		})
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	births := 15
	if testing.Short() {
		births = 3
	}
	for i := range births {
		t.Run(fmt.Sprint("killed ", i), func(t *testing.T) {
			dir := t.TempDir()
			for range 3 {
				killSoon(t, dir, time.Duration(rng.Int64N(int64(400*time.Millisecond))))
			}
			written(t, dir)
		})
	}
}

// killSoon starts a server and kills it after a while, whatever it is doing then.
func killSoon(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(program, "serve", "--port=-1", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer killer.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() >= 0 {
		t.Fatalf("the server was to be killed, but ended with %v", err)
	}
}
