package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// counterService is a running "cvmstore counter".
type counterService struct {
	*server
	url string
}

func startCounter(t *testing.T, dir, listen string) *counterService {
	t.Helper()
	s := launchProgram(t, dir, []string{"counter", "--dir", dir, "--listen", listen, "--log-format", "json"})
	if s.addr == "" {
		t.Fatalf("the counter service did not start: %s", s.log.String())
	}
	return &counterService{s, "https://" + s.addr}
}

// cli runs a command that must succeed, and returns what it printed.
func cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("cvmstore %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (c *counterService) operator(args ...string) string {
	c.t.Helper()
	return cli(c.t, append(append([]string{"counter"}, args...), "--dir", c.dir, "--url", c.url)...)
}

// identity makes and enrols one, and returns its file and its name.
func (c *counterService) identity(path string) (id string) {
	c.t.Helper()
	id = strings.Fields(cli(c.t, "counter", "identity", "--out", path))[1]
	c.operator("enrol", "--identity", id, "--name", filepath.Base(path))
	return id
}

// flags are those of a server that uses this service.
func (c *counterService) flags(identity string) []string {
	return []string{"--counter", c.url, "--counter-cert", identity, "--counter-pin", filepath.Join(c.dir, "service.pin")}
}

var listed = regexp.MustCompile(`store ([0-9a-f]+) generation (\d+) value (\d+) tag ([0-9a-f]+)`)

// record is the first store's, as the operator sees it.
func (c *counterService) record() (store string, generation, value uint64, tag string) {
	c.t.Helper()
	m := listed.FindStringSubmatch(c.operator("list"))
	if m == nil {
		c.t.Fatal("no store is listed")
	}
	generation, _ = strconv.ParseUint(m[2], 10, 64)
	value, _ = strconv.ParseUint(m[3], 10, 64)
	return m[1], generation, value, m[4]
}

func TestServeWithCounterService(t *testing.T) {
	dir := t.TempDir()
	c := startCounter(t, filepath.Join(dir, "counter"), "127.0.0.1:0")
	vm := filepath.Join(dir, "vm.pem")
	refused(t, filepath.Join(dir, "nobody"), 1, nil, c.flags(filepath.Join(dir, "unknown.pem"))...) // not enrolled
	c.identity(vm)
	s := start(t, filepath.Join(dir, "s"), c.flags(vm)...)
	cl := dial(t, s.addr)
	cl.expect(t, "OK", "SET", "a", "1")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	_, gen, value, _ := c.record()
	old := copyOf(t, filepath.Join(dir, "s"), filepath.Join(dir, "old"))
	s = start(t, filepath.Join(dir, "s"), c.flags(vm)...)
	cl = dial(t, s.addr)
	cl.expect(t, "1", "GET", "a")
	cl.expect(t, "OK", "SET", "a", "2")
	if _, g, v, _ := c.record(); g != gen+1 || v <= value {
		t.Errorf("generation %d, value %d after %d, %d", g, v, gen, value)
	}
	// The whole directory as it was: its key, its volume. The counter is elsewhere.
	refused(t, old, 3, []string{"rollback detected"}, c.flags(vm)...)
	cl.expect(t, "2", "GET", "a")
	// A copy of now is another server on the same store: the first is fenced at its next commit.
	s.pause(true) // or else it may commit once more after the copy was taken, which then is an older disk
	now := copyOf(t, filepath.Join(dir, "s"), filepath.Join(dir, "now"))
	second := start(t, now, c.flags(vm)...)
	s.pause(false)
	if got := cl.do(t, "SET", "a", "3"); !strings.HasPrefix(got, "-") {
		t.Errorf("a fenced server acknowledged: %s", got)
	}
	if code := s.wait(); code != 4 {
		t.Errorf("the fenced server's exit code is %d", code)
	}
	dial(t, second.addr).expect(t, "2", "GET", "a")
	// Another identity, enrolled but not this store's.
	other := filepath.Join(dir, "other.pem")
	c.identity(other)
	second.kill()
	refused(t, now, 1, []string{"refused by the counter service"}, c.flags(other)...)
}

func TestAuthorisedRollback(t *testing.T) {
	dir := t.TempDir()
	c := startCounter(t, filepath.Join(dir, "counter"), "127.0.0.1:0")
	vm, owner := filepath.Join(dir, "vm.pem"), filepath.Join(dir, "owner.pem")
	id := c.identity(vm)
	key := strings.Fields(cli(t, "counter", "identity", "--out", owner))[3]
	// The store's id is in its key file, which a first start makes; the operator then makes the record, with an owner.
	data := filepath.Join(dir, "s")
	refused(t, data, 1, nil, append(c.flags(vm), "--counter", "https://127.0.0.1:1")...)
	store := regexp.MustCompile(`store[ =:"]+([0-9a-f]{32})`).FindStringSubmatch(string(read(t, filepath.Join(data, "key"))))
	if store == nil {
		t.Fatal("no store id in the key file")
	}
	c.operator("create", "--store", store[1], "--identity", id, "--owner", key)
	s := start(t, data, c.flags(vm)...)
	cl := dial(t, s.addr)
	cl.expect(t, "OK", "SET", "a", "good")
	s.stop(syscall.SIGTERM)
	_, _, goodValue, goodTag := c.record()
	old := copyOf(t, data, filepath.Join(dir, "old"))
	s = start(t, data, c.flags(vm)...)
	dial(t, s.addr).expect(t, "OK", "SET", "a", "bad")
	s.stop(syscall.SIGTERM)
	_, gen, value, tag := c.record()
	refused(t, old, 3, nil, c.flags(vm)...)
	order := filepath.Join(dir, "order")
	text := cli(t, "counter", "order", "rollback", "--owner", owner, "--pin", filepath.Join(c.dir, "service.pin"), "--store", store[1],
		"--generation", fmt.Sprint(gen), "--tag", tag, "--target-value", fmt.Sprint(goodValue), "--target-tag", goodTag)
	if err := os.WriteFile(order, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.operator("carry-out", "--order", order)
	s = start(t, old, c.flags(vm)...)
	dial(t, s.addr).expect(t, "good", "GET", "a")
	s.stop(syscall.SIGTERM)
	// The state that the owner left. (Before the rolled back one was opened it may start, as long as a superblock of the good state
	// is on it, and serves that.)
	refused(t, data, 3, nil, c.flags(vm)...)
	if _, g, v, _ := c.record(); g <= gen || v <= value {
		t.Errorf("generation %d, value %d after %d, %d: it went down", g, v, gen, value)
	}
	out, err := exec.Command(program, "counter", "carry-out", "--order", order, "--dir", c.dir, "--url", c.url).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another state") {
		t.Errorf("the order was carried out twice: %s", out)
	}
}

// kill -9 of the service under load, again and again: nothing acknowledged is lost, its value never goes down, and the server goes
// on by itself when it is back.
func TestKillCounterService(t *testing.T) {
	dir := t.TempDir()
	c := startCounter(t, filepath.Join(dir, "counter"), "127.0.0.1:0")
	listen := c.addr
	vm := filepath.Join(dir, "vm.pem")
	c.identity(vm)
	s := start(t, filepath.Join(dir, "s"), c.flags(vm)...)
	cl := dial(t, s.addr)
	newest := uint64(0)
	acknowledged := 0
	for round := range 5 {
		for range 50 {
			acknowledged++
			cl.expect(t, "OK", "SET", "n", strconv.Itoa(acknowledged))
		}
		c.kill()
		pending := make(chan error, 1)
		go func() {
			err := cl.send([]string{"SET", "n", strconv.Itoa(acknowledged + 1)})
			reply := ""
			if err == nil {
				reply, err = cl.receive()
			}
			if err == nil && reply != "OK" {
				err = fmt.Errorf("reply %v", reply)
			}
			pending <- err
		}()
		c = startCounter(t, c.dir, listen)
		select {
		case err := <-pending:
			if err != nil {
				t.Fatalf("round %d: the write that waited: %v", round, err)
			}
		case <-time.After(deadline):
			t.Fatalf("round %d: the server does not go on", round)
		}
		acknowledged++
		if _, _, v, _ := c.record(); v < newest {
			t.Fatalf("the value went down from %d to %d", newest, v)
		} else {
			newest = v
		}
	}
	s.kill()
	s = start(t, s.dir, c.flags(vm)...)
	dial(t, s.addr).expect(t, strconv.Itoa(acknowledged), "GET", "n")
}

// copyOf copies a server's directory.
func copyOf(t *testing.T, from, to string) string {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(to, "key"), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestEpochSyncAndReceipts(t *testing.T) {
	dir := t.TempDir()
	c := startCounter(t, filepath.Join(dir, "counter"), "127.0.0.1:0")
	vm, pin := filepath.Join(dir, "vm.pem"), filepath.Join(dir, "counter", "service.pin")
	c.identity(vm)
	// Epochs so long that only a request ends them.
	s := start(t, filepath.Join(dir, "s"), append(c.flags(vm), "--durability", "durable", "--epoch-length", "281", "--epoch-ops", "16777216")...)
	cl := dial(t, s.addr)
	cl.expect(t, "OK", "SET", "a", "the value")
	cl.expect(t, "OK", "CVM.EPOCH", "SYNC")
	status := cl.do(t, "CVM.STATUS")
	for _, field := range []string{"uncommitted_ops 0", "uncommitted_epochs 0", "window_epochs 2", "epoch_mode ordered non-blocking", "lease_ms 10000"} {
		if !strings.Contains(status, field) {
			t.Errorf("CVM.STATUS does not say %q: %s", field, status)
		}
	}
	if _, _, value, tag := c.record(); !strings.Contains(status, fmt.Sprintf("committed_value %d committed_tag %s", value, tag)) {
		t.Errorf("CVM.STATUS and the service disagree about %d %s: %s", value, tag, status)
	}
	text := cl.do(t, "CVM.RECEIPT", "a")
	receipt, object := filepath.Join(dir, "receipt"), filepath.Join(dir, "object")
	write(t, receipt, []byte(text))
	write(t, object, []byte("the value"))
	verify := []string{"counter", "verify-receipt", "--pin", pin, "--name", "a", "--object", object, receipt}
	cl.expect(t, "OK", "SET", "a", "another") // it was committed, and stays proven
	s.kill()
	c.kill() // offline
	if out := cli(t, verify...); !strings.Contains(out, "was committed") {
		t.Errorf("verify-receipt: %s", out)
	}
	changed := []byte(text)
	changed[400] ^= 1
	write(t, receipt, changed)
	if out, err := exec.Command(program, verify...).CombinedOutput(); err == nil {
		t.Errorf("a changed receipt was believed: %s", out)
	}
	write(t, receipt, []byte(text))
	write(t, object, []byte("another"))
	if out, err := exec.Command(program, verify...).CombinedOutput(); err == nil || !strings.Contains(string(out), "another object") {
		t.Errorf("a receipt for another object was believed: %s", out)
	}
	embedded := start(t, filepath.Join(dir, "embedded"))
	cl = dial(t, embedded.addr)
	cl.expect(t, "OK", "SET", "a", "1")
	if got := cl.do(t, "CVM.RECEIPT", "a"); !strings.HasPrefix(got, "-ERR receipts") {
		t.Errorf("a receipt of an embedded counter: %s", got)
	}
}

// The counter does not answer: writes that wait say that their outcome is unknown, what is committed is read until the lease ends, and
// then nothing is; when it is back, all goes on by itself.
func TestLostCounterService(t *testing.T) {
	dir := t.TempDir()
	c := startCounter(t, filepath.Join(dir, "counter"), "127.0.0.1:0")
	listen := c.addr
	vm := filepath.Join(dir, "vm.pem")
	c.identity(vm)
	s := start(t, filepath.Join(dir, "s"), append(c.flags(vm), "--reply-timeout", "300", "--fresh-lease", "60000")...)
	cl := dial(t, s.addr)
	cl.expect(t, "OK", "SET", "a", "1")
	c.kill()
	if got := cl.do(t, "SET", "b", "1"); !strings.HasPrefix(got, "-UNCERTAIN outcome unknown") {
		t.Errorf("a write without the counter: %s", got)
	}
	cl.expect(t, "1", "GET", "a")
	c = startCounter(t, c.dir, listen)
	cl.expect(t, "OK", "CONFIG", "SET", "reply-timeout", "30000")
	cl.expect(t, "OK", "CVM.EPOCH", "SYNC")
	cl.expect(t, "1", "GET", "b") // it took effect after all
	s.stop(syscall.SIGTERM)
	s = start(t, s.dir, append(c.flags(vm), "--reply-timeout", "300", "--fresh-lease", "500")...)
	cl = dial(t, s.addr)
	cl.expect(t, "1", "GET", "a")
	c.kill()
	for end := time.Now().Add(deadline); ; { // until the lease has ended
		if got := cl.do(t, "GET", "a"); strings.HasPrefix(got, "-UNCERTAIN") {
			break
		} else if got != "1" || time.Now().After(end) {
			t.Fatalf("a read without a lease: %s", got)
		}
	}
	cl.expect(t, "OK", "CVM.DURABILITY", "durable")
	cl.expect(t, "1", "GET", "a") // who does not ask for fresh is answered
	cl.expect(t, "OK", "CVM.DURABILITY", "fresh")
	startCounter(t, c.dir, listen)
	cl.expect(t, "OK", "CONFIG", "SET", "reply-timeout", "30000")
	cl.expect(t, "OK", "CVM.EPOCH", "SYNC")
	cl.expect(t, "1", "GET", "a")
}
