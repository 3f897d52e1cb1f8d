package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// realRedis is a redis-server with data of every kind that its files can hold here.
type realRedis struct {
	t    *testing.T
	dir  string
	port string
	cmd  *exec.Cmd
}

func startRedis(t *testing.T) *realRedis {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	r := &realRedis{t: t, dir: t.TempDir(), port: port}
	r.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", "yes",
		"--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", "--loglevel", "warning")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	for began := time.Now(); ; {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			_ = c.Close()
			return r
		}
		if time.Since(began) > deadline {
			t.Fatal("redis-server does not answer")
		}
	}
}

func (r *realRedis) stop() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func (r *realRedis) cli(args ...string) string {
	r.t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"-p", r.port}, args...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// pipe sends a file of commands.
func (r *realRedis) pipe(file string) string {
	r.t.Helper()
	f, err := os.Open(file)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	cmd := exec.Command("redis-cli", "-p", r.port, "--pipe")
	cmd.Stdin = f
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "errors: 0") {
		r.t.Fatalf("redis-cli --pipe: %v\n%s", err, out)
	}
	return string(out)
}

// fill puts data of all kinds in, small and large, in two databases.
func (r *realRedis) fill() {
	var b bytes.Buffer
	add := func(args ...string) {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	for i := range 500 {
		add("SET", fmt.Sprint("string", i), strings.Repeat(fmt.Sprint(i, "\x00\xff\r\n"), i))
		add("RPUSH", "list", fmt.Sprint("element", i))
		add("HSET", "hash", fmt.Sprint("field", i), strings.Repeat("v", i))
		add("SADD", "set", fmt.Sprint("member", i))
		add("ZADD", "zset", fmt.Sprint(float64(i)/7), fmt.Sprint("member", i))
	}
	add("SET", "big", strings.Repeat("0123456789abcdef", 200_000))
	add("ZADD", "zset", "inf", "last", "-inf", "first")
	add("SADD", "numbers", "1", "2", "3")
	add("RPUSH", "small", "a", "b")
	add("HSET", "pair", "f", "v")
	add("SET", "later", "x")
	add("PEXPIREAT", "later", "4102444800000")
	add("SELECT", "5")
	add("SET", "other database", "x")
	add("INCRBY", "counter", "41")
	add("INCR", "counter")
	add("MULTI")
	add("LPUSH", "queue", "1", "2")
	add("RPOP", "queue")
	add("EXEC")
	file := filepath.Join(r.dir, "commands")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.pipe(file)
}

// Everything that a Redis holds goes into a sealed volume by each way there is, is served, and comes out as it was: Redis itself says
// so, by the digest of all its data.
func TestSealedFromRedisAndBack(t *testing.T) {
	source, target := startRedis(t), startRedis(t)
	source.fill()
	source.cli("SAVE")
	want := source.cli("DEBUG", "DIGEST")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	ways := map[string]string{
		"rdb": filepath.Join(source.dir, "dump.rdb"), "aof": filepath.Join(source.dir, "appendonlydir"), "redis": "redis://127.0.0.1:" + source.port,
	}
	for name, from := range ways {
		said := cli(t, "seal", from, "--dir", at(name))
		if !strings.Contains(said, "sealed 5") && !strings.Contains(said, "sealed 2") { // the AOF counts commands
			t.Errorf("%s: %s", name, said)
		}
		cli(t, "unseal", "--dir", at(name), at(name+".resp"))
		target.cli("FLUSHALL")
		target.pipe(at(name + ".resp"))
		if got := target.cli("DEBUG", "DIGEST"); got != want {
			t.Errorf("%s: other data came back", name)
		}
	}
	cli(t, "unseal", "--dir", at("rdb"), "--format", "jsonl", at("lines.jsonl"))
	cli(t, "seal", at("lines.jsonl"), "--dir", at("lines"))
	cli(t, "unseal", "--dir", at("lines"), at("lines.resp"))
	target.cli("FLUSHALL")
	target.pipe(at("lines.resp"))
	if got := target.cli("DEBUG", "DIGEST"); got != want {
		t.Error("JSON lines: other data came back")
	}

	s := start(t, at("rdb"))
	c := dial(t, s.addr)
	c.expect(t, "502", "ZCARD", "zset")
	c.expect(t, strings.Repeat("0123456789abcdef", 200_000), "GET", "big")
	c.expect(t, "OK", "SELECT", "5")
	c.expect(t, "42", "GET", "counter")
	c.expect(t, "OK", "SET", "new", "1")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	cli(t, "unseal", "--dir", at("rdb"), at("after.resp")) // what was written since is there as well
	target.cli("FLUSHALL")
	target.pipe(at("after.resp"))
	if got := target.cli("-n", "5", "GET", "new"); got != "1" {
		t.Errorf("a key that was written after sealing: %q", got)
	}
}

// tree makes a directory with files.
func tree(t *testing.T, dir string, files, size int) {
	t.Helper()
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint("d", i%7), fmt.Sprint("file", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		content := bytes.Repeat([]byte{byte(i), byte(i >> 8), 0x55}, size/3+i)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func sameTree(t *testing.T, a, b string) {
	t.Helper()
	if out, err := exec.Command("diff", "-r", a, b).CombinedOutput(); err != nil {
		t.Errorf("%s and %s differ: %v\n%.500s", a, b, err, out)
	}
}

// A volume that was sealed offline opens with exactly the registered state, and the owner's key alone reads it.
func TestASealedVolumeOpensAsRegisteredOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	tree(t, at("in"), 50, 100_000)
	cli(t, "seal", at("in"), "--dir", at("d"), "--register", "later")
	refused(t, at("d"), 1, []string{"counter file is missing"})
	cli(t, "seal", at("in"), "--dir", at("d")) // registers what is sealed already
	cli(t, "unseal", "--dir", at("d"), "--format", "files", at("out"))
	sameTree(t, at("in"), at("out"))
	cli(t, "unseal", "--dir", at("d"), "--format", "files", at("out")) // once more, over what is there
	cli(t, "unseal", "--dir", at("d"), "--format", "jsonl", at("lines.jsonl"))
	cli(t, "seal", at("lines.jsonl"), "--dir", at("lines"))
	cli(t, "unseal", "--dir", at("lines"), "--format", "files", at("out")) // files again
	cli(t, "seal", at("in"), "--dir", at("strings"), "--as", "strings")
	cli(t, "unseal", "--dir", at("strings"), "--format", "files", at("out"))

	// The same data, sealed anew under the same key, is another volume: the counter knows one of them.
	copyOf(t, at("d"), at("other"))
	for _, name := range []string{"volume.cvm", "counter", "sealed.json"} {
		_ = os.Remove(filepath.Join(at("other"), name))
	}
	cli(t, "seal", at("in"), "--dir", at("other"))
	copyOf(t, at("d"), at("mixed"))
	swap(t, filepath.Join(at("other"), "volume.cvm"), filepath.Join(at("mixed"), "volume.cvm"))
	refused(t, at("mixed"), 3, []string{"rollback"})
	fails(t, "rollback", "unseal", "--dir", at("mixed"), at("x"))

	// Another key.
	copyOf(t, at("d"), at("foreign"))
	_ = os.Remove(filepath.Join(at("foreign"), "key"))
	cli(t, "seal", at("in"), "--dir", at("foreign2"))
	swap(t, filepath.Join(at("foreign2"), "key"), filepath.Join(at("foreign"), "key"))
	fails(t, "", "unseal", "--dir", at("foreign"), at("x"))

	// A byte of a value.
	copyOf(t, at("d"), at("flipped"))
	flipLast(t, filepath.Join(at("flipped"), "volume.cvm"))
	fails(t, "", "unseal", "--dir", at("flipped"), at("x"))
	if _, err := os.Stat(at("x")); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
	fails(t, "already", "seal", at("in"), "--dir", at("new"), "--volume", filepath.Join(at("other"), "volume.cvm"))
	s := start(t, at("d"))
	c := dial(t, s.addr)
	c.expect(t, "2", "FEXISTS", "d0/file0", "d0/file49")
	c.expect(t, "0", "DBSIZE")
}

// fails runs a command that must fail and say something.
func fails(t *testing.T, says string, args ...string) {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), says) || strings.Contains(string(out), "goroutine ") {
		t.Errorf("%v: %v, want %q\n%s", args, err, says, out)
	}
}

func swap(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// flipLast changes a byte in the middle of what was written last to a volume's file.
func flipLast(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(b, "\x00"))
	b[end-5000] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A run that was killed goes on where it was, and what comes out is whole.
func TestSealingIsTakenUpAgain(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	tree(t, at("in"), 400, 300_000)
	sealed := filepath.Join(at("d"), "sealed.json")
	kills := 0
	for range 40 {
		cmd := exec.Command(program, "seal", at("in"), "--dir", at("d"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		grown := waitGrown(t, filepath.Join(at("d"), "volume.cvm"), ended)
		if grown {
			kills++
			_ = cmd.Process.Kill()
			<-ended
		}
		if _, err := os.Stat(sealed); err == nil {
			break
		}
		if kills == 3 {
			cli(t, "seal", at("in"), "--dir", at("d"))
		}
	}
	if kills == 0 {
		t.Error("the run was never interrupted")
	}
	var state struct{ Items int }
	b, err := os.ReadFile(sealed)
	if err != nil || json.Unmarshal(b, &state) != nil || state.Items != 400 {
		t.Fatalf("%s, %v", b, err)
	}
	cli(t, "seal", at("in"), "--dir", at("d"))
	cli(t, "unseal", "--dir", at("d"), "--format", "files", at("out"))
	sameTree(t, at("in"), at("out"))
	for _, name := range []string{"sealing.json", "sealing.counter"} {
		if _, err := os.Stat(filepath.Join(at("d"), name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	err = filepath.WalkDir(at("d"), func(path string, d fs.DirEntry, err error) error {
		if info, e := d.Info(); e == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// waitGrown waits until some of the data is in a volume, or the run has ended.
func waitGrown(t *testing.T, path string, ended <-chan error) bool {
	t.Helper()
	before := allocated(path)
	for began := time.Now(); time.Since(began) < deadline; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			return false
		case <-time.After(time.Millisecond):
		}
		if allocated(path) > before+4<<20 {
			return true
		}
	}
	t.Fatal("nothing happens")
	return false
}

// allocated is how many bytes of a volume's file are not zero, about: it looks at one byte in each 64 KiB.
func allocated(path string) (n int64) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close() //nolint:errcheck // only read
	b := make([]byte, 8)
	for at := int64(0); ; at += 64 << 10 {
		if _, err := f.ReadAt(b, at); err != nil {
			return n
		}
		if !bytes.Equal(b, make([]byte, 8)) {
			n += 64 << 10
		}
	}
}

// The trusted party seals with a store's keys, registers the state at the counter service by the owner's order, and an attested VM
// opens it.
func TestAPartySealsForAnAttestedVM(t *testing.T) {
	a := startAttested(t)
	tree(t, a.at("in"), 20, 50_000)
	if err := os.WriteFile(filepath.Join(a.at("in"), "large"), bytes.Repeat([]byte("0123456789abcde\n"), 70<<16), 0o600); err != nil { // an upload
		t.Fatal(err)
	}
	cli(t, "counter", "identity", "--out", a.at("owner.pem"))
	service := []string{"--counter", a.counter.url, "--operator", filepath.Join(a.counter.dir, "operator.pem"), "--pin", filepath.Join(a.counter.dir, "service.pin")}
	keys := []string{"--party", a.at("party"), "--store", a.store}
	cli(t, append(append([]string{"seal", a.at("in"), "--dir", a.at("vm"), "--owner", a.at("owner.pem")}, keys...), service...)...)
	if _, err := os.Stat(filepath.Join(a.at("vm"), "key")); !os.IsNotExist(err) {
		t.Errorf("the key lies beside the volume: %v", err)
	}
	cli(t, append(append([]string{"unseal", "--dir", a.at("vm"), "--format", "files", a.at("out")}, keys...), service...)...)
	sameTree(t, a.at("in"), a.at("out"))
	s := start(t, a.at("vm"), a.flags()...)
	c := dial(t, s.addr)
	c.expect(t, fmt.Sprint(70<<20), "FLEN", "large")
	c.expect(t, "OK", "SET", "k", "v")
	s.kill()
	cli(t, append(append([]string{"unseal", "--dir", a.at("vm"), a.at("resp")}, keys...), service...)...)
	s = start(t, a.at("vm"), a.flags()...)
	dial(t, s.addr).expect(t, "v", "GET", "k")
	audit := cli(t, "provision", "audit", "--dir", a.at("party"))
	for _, event := range []string{`"event":"seal"`, `"event":"unseal"`} {
		if !strings.Contains(audit, event) {
			t.Errorf("the audit log does not hold %s", event)
		}
	}
}

// Streams go in by an append-only file, and come out with their groups and what waits in them.
func TestSealedStreams(t *testing.T) {
	source, target := startRedis(t), startRedis(t)
	for i := range 30 {
		source.cli("XADD", "s", fmt.Sprint(i+1, "-1"), "field", fmt.Sprint("value", i))
	}
	source.cli("XDEL", "s", "30-1", "5-1")
	source.cli("XTRIM", "s", "MAXLEN", "25")
	source.cli("XGROUP", "CREATE", "s", "g", "0")
	source.cli("XREADGROUP", "GROUP", "g", "reader", "COUNT", "7", "STREAMS", "s", ">")
	source.cli("XACK", "s", "g", "8-1")
	source.cli("XGROUP", "CREATECONSUMER", "s", "g", "idle one")
	source.cli("XGROUP", "CREATE", "empty", "g", "$", "MKSTREAM")
	look := func(r *realRedis) string {
		said := r.cli("DEBUG", "DIGEST")
		for _, stream := range []string{"s", "empty"} {
			info := strings.Fields(r.cli("XINFO", "STREAM", stream))
			for i, f := range info {
				switch f {
				case "length", "last-generated-id", "max-deleted-entry-id", "entries-added", "groups":
					said += " " + f + " " + info[i+1]
				}
			}
			said += " " + r.cli("XINFO", "GROUPS", stream)
		}
		for _, w := range strings.Split(r.cli("XPENDING", "s", "g", "-", "+", "100"), "\n") {
			if !strings.Contains(w, "-") && w != "reader" && w != "1" { // the time since delivery
				w = "idle"
			}
			said += " " + w
		}
		return said
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	cli(t, "seal", filepath.Join(source.dir, "appendonlydir"), "--dir", at("d"))
	cli(t, "unseal", "--dir", at("d"), at("resp"))
	target.pipe(at("resp"))
	want := look(source)
	if got := look(target); got != want {
		t.Errorf("through a RESP stream:\n%s\nwant\n%s", got, want)
	}
	cli(t, "unseal", "--dir", at("d"), "--format", "jsonl", at("lines.jsonl"))
	cli(t, "seal", at("lines.jsonl"), "--dir", at("lines"))
	cli(t, "unseal", "--dir", at("lines"), at("resp2"))
	target.cli("FLUSHALL")
	target.pipe(at("resp2"))
	if got := look(target); got != want {
		t.Errorf("through JSON lines:\n%s\nwant\n%s", got, want)
	}
}
