package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// overwriter changes two keys to the same number in one transaction, and overwrites large values, until it is told to stop.
func overwriter(t *testing.T, addr string, stop *atomic.Bool, done chan<- struct{}) {
	defer close(done)
	c, err := connect(addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.conn.Close() //nolint:errcheck // ends with the test
	for n := 1; !stop.Load(); n++ {
		number := strconv.Itoa(n)
		large := strings.Repeat(fmt.Sprintf("%08d", n), 25_000)
		commands := [][]string{{"MULTI"}, {"SET", "a", number}, {"SET", "b", number}, {"HSET", "h", "f" + strconv.Itoa(n%50), number}, {"EXEC"}, {"SET", "large" + strconv.Itoa(n%7), large}}
		if err := c.send(commands...); err != nil {
			t.Error(err)
			return
		}
		for range commands {
			if reply, err := c.receive(); err != nil || strings.HasPrefix(reply, "-") {
				t.Errorf("round %d: %q, %v", n, reply, err)
				return
			}
		}
	}
}

// A live store is copied while it is written, in a volume so small that blocks are used again all the time; the copy is of one moment, and
// is put back.
func TestBackupAndRestore(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	s := start(t, at("d"), "--volume-size", "48mb", "--segment-size", "256kb")
	var stop atomic.Bool
	done := make(chan struct{})
	go overwriter(t, s.addr, &stop, done)
	c := dial(t, s.addr)
	for c.do(t, "GET", "large6") == missing { // all blocks were written, and some again
	}
	volume := filepath.Join(at("d"), "volume.cvm")
	key := filepath.Join(at("d"), "key")
	before := c.do(t, "GET", "a")
	for i := range 4 {
		cli(t, "backup", at(fmt.Sprint("copy", i)), "--server", "redis://"+s.addr, "--volume", volume, "--key-file", key)
	}
	first := c.do(t, "GET", "a")
	stop.Store(true)
	<-done
	for i := range 4 {
		copied := at(fmt.Sprint("copy", i))
		cli(t, "unseal", "--dir", copied, "--key-file", key, "--format", "jsonl", copied+".jsonl") // each value verifies
		text, err := os.ReadFile(copied + ".jsonl")
		if err != nil || strings.Count(string(text), "\n") < 10 {
			t.Errorf("copy %d: %d lines, %v", i, strings.Count(string(text), "\n"), err)
		}
	}
	fails(t, "", "backup", at("copy0"), "--server", "redis://"+s.addr, "--volume", volume)                      // there is one
	fails(t, "", "restore", at("copy0"), "--dir", at("d"))                                                      // a server has it
	fails(t, "", "backup", at("other"), "--server", "redis://"+s.addr, "--volume", filepath.Join(at("d"), "x")) // no such volume
	c.expect(t, "OK", "SET", "after", "1")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}

	// A copy alone is an old disk: only the owner's order makes it the store again.
	copyOf(t, at("d"), at("plain"))
	swap(t, filepath.Join(at("copy0"), "volume.cvm"), filepath.Join(at("plain"), "volume.cvm"))
	refused(t, at("plain"), 3, []string{"rollback"})
	copyOf(t, at("d"), at("later"))
	cli(t, "restore", at("copy0"), "--dir", at("d"))
	s = start(t, at("d"))
	c = dial(t, s.addr)
	a, b := c.do(t, "GET", "a"), c.do(t, "GET", "b")
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	if a != b || number(a) < number(before) || number(a) > number(first) {
		t.Errorf("a is %s, b is %s; the copy was made between %s and %s", a, b, before, first)
	}
	c.expect(t, missing, "GET", "after")
	c.expect(t, "OK", "SET", "new", "1")
	s.kill()
	s = start(t, at("d"))
	dial(t, s.addr).expect(t, "1", "GET", "new")
	s.stop(syscall.SIGTERM)
	// What ran before the rollback is an old disk now.
	swap(t, filepath.Join(at("later"), "volume.cvm"), filepath.Join(at("d"), "volume.cvm"))
	refused(t, at("d"), 3, []string{"rollback"})
}

// The same at a counter service: the rollback is an order that the owner signs.
func TestRestoreAtACounterService(t *testing.T) {
	a := startAttested(t)
	tree(t, a.at("in"), 10, 1000)
	cli(t, "counter", "identity", "--out", a.at("owner.pem"))
	cli(t, "counter", "identity", "--out", a.at("stranger.pem"))
	service := []string{"--party", a.at("party"), "--store", a.store, "--counter", a.counter.url, "--operator", filepath.Join(a.counter.dir, "operator.pem"), "--pin", filepath.Join(a.counter.dir, "service.pin")}
	with := func(args ...string) []string { return append(args, service...) }
	cli(t, with("seal", a.at("in"), "--dir", a.at("vm"), "--owner", a.at("owner.pem"))...)
	s := start(t, a.at("vm"), a.flags()...)
	c := dial(t, s.addr)
	c.expect(t, "OK", "SET", "k", "1")
	cli(t, "backup", a.at("copy"), "--server", "redis://"+s.addr, "--volume", filepath.Join(a.at("vm"), "volume.cvm"))
	c.expect(t, "OK", "SET", "k", "2")
	s.kill()
	fails(t, "", with("restore", a.at("copy"), "--dir", a.at("vm"), "--owner", a.at("stranger.pem"))...)
	cli(t, with("restore", a.at("copy"), "--dir", a.at("vm"), "--owner", a.at("owner.pem"))...)
	s = start(t, a.at("vm"), a.flags()...)
	c = dial(t, s.addr)
	c.expect(t, "1", "GET", "k")
	c.expect(t, "2", "FEXISTS", "d0/file0", "d1/file1")
}
