package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFirstSession(t *testing.T) {
	redisCLI, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed (make setup)")
	}
	s := start(t, filepath.Join(t.TempDir(), "data"))
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"PING", "PONG"},
		{"SET greeting hello", "OK"},
		{"GET greeting", "hello"},
		{"GET nothing", ""},
		{"EXPIRE greeting 100", "1"},
		{"TTL greeting", "100"},
		{"PERSIST greeting", "1"},
		{"TTL greeting", "-1"},
		{"INCR n", "1"},
		{"INCR greeting", "ERR value is not an integer or out of range"},
		{"SET greeting", "ERR wrong number of arguments for 'set' command"},
		{"NOSUCH a b", "ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "},
		{"DEL greeting n", "2"},
		{"DBSIZE", "0"},
	} {
		out, err := exec.Command(redisCLI, append([]string{"-p", port}, strings.Fields(c.args)...)...).CombinedOutput()
		if got := strings.Trim(string(out), "\n"); err != nil || got != strings.Trim(c.want, "\n") {
			t.Errorf("%s: got %q, %v, want %q", c.args, got, err, c.want)
		}
	}
	out, err := exec.Command(redisCLI, "-p", port, "INFO", "server").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "cvmstore_version:") {
		t.Errorf("INFO: %v\n%s", err, out)
	}
}

func TestStateSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 4 {
		s := start(t, dir)
		c := dial(t, s.addr)
		for r := range round {
			c.expect(t, fmt.Sprint(r), "GET", fmt.Sprint("key", r))
		}
		c.expect(t, "OK", "SET", fmt.Sprint("key", round), fmt.Sprint(round))
		s.kill()
	}
}

func TestStopsWithExitCodeZero(t *testing.T) {
	dir := t.TempDir()
	for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := start(t, dir)
		c := dial(t, s.addr)
		c.expect(t, "OK", "SET", fmt.Sprint(i), "x")
		dial(t, s.addr) // an idle client holds nobody up
		if code := s.stop(sig); code != 0 {
			t.Errorf("%v: exit code %d", sig, code)
		}
	}
	s := start(t, dir)
	c := dial(t, s.addr)
	c.expect(t, "x x", "MGET", "0", "1")
	if err := c.send([]string{"SHUTDOWN"}); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(); code != 0 {
		t.Errorf("SHUTDOWN: exit code %d", code)
	}
}

func TestHangupDoesNotStop(t *testing.T) {
	s := start(t, t.TempDir())
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	dial(t, s.addr).expect(t, "PONG", "PING")
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	refused(t, dir, 6, []string{"in use by another process", "Another cvmstore is running", "--dir"})
	// The same volume under another counter and key is locked too.
	refused(t, t.TempDir(), 1, []string{"the key file is missing"}, "--volume", filepath.Join(dir, "volume.cvm"))
	dial(t, s.addr).expect(t, "PONG", "PING")
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	refused(t, t.TempDir(), 6, []string{"address already in use", "--port"}, "--port", port)
}

func TestDirectoryIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	start(t, dir)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", p, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDefaultSaysWhatItDoesNotProtect(t *testing.T) {
	s := start(t, t.TempDir())
	if !strings.Contains(s.log.String(), "protects against nothing that controls") {
		t.Error("the log does not say that the default protects against nothing that controls its directory")
	}
}

func TestNothingReadableInTheFiles(t *testing.T) {
	dir := t.TempDir()
	const name, value, password = "a-name-to-look-for", "a-value-to-look-for", "a-password-to-look-for"
	s := start(t, dir, "--requirepass", password, "--loglevel", "debug")
	c := dial(t, s.addr)
	if got := c.do(t, "SET", name, value); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("SET before AUTH: %s", got)
	}
	c.expect(t, "OK", "AUTH", password)
	for i := range 50 {
		c.expect(t, "OK", "SET", fmt.Sprint(name, i), strings.Repeat(value, 20))
		c.expect(t, "OK", "SET", fmt.Sprint(name, i), strings.Repeat(value, 30))
	}
	c.expect(t, "1", "DEL", name+"7")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, file := range []string{"volume.cvm", "counter", "key"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{name, value, "to-look-for"} {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s contains %q", file, word)
			}
		}
	}
	for _, word := range []string{name, value, password} {
		if strings.Contains(s.log.String(), word) {
			t.Errorf("the log contains %q", word)
		}
	}
}
