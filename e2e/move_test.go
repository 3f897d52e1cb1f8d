package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// A planned move: the old instance drains, commits and ends; the new one attests and opens what was copied; nothing that was
// acknowledged is lost; and the old disk is of no use to anybody any more.
func TestAPlannedMove(t *testing.T) {
	a := startAttested(t)
	s := start(t, a.at("old"), a.flags()...)
	wantPhases(t, s, "challenge_ms", "attest_ms", "release_ms", "counter_ms", "opening_ms", "total_ms")
	wantPhases(t, a.party, "verify_ms", "register_ms", "seal_ms")
	var acknowledged atomic.Int64
	done := make(chan struct{})
	c := dial(t, s.addr)
	go func() { // until the server goes away
		defer close(done)
		for n := int64(1); ; n++ {
			if err := c.send([]string{"SET", "n", fmt.Sprint(n)}); err != nil {
				return
			}
			if reply, err := c.receive(); err != nil || reply != "OK" {
				return
			}
			acknowledged.Store(n)
		}
	}()
	for acknowledged.Load() < 20 {
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the old instance ended with %d", code)
	}
	<-done
	copyFiles(t, a.at("old"), a.at("new"))
	s = start(t, a.at("new"), a.flags()...)
	c = dial(t, s.addr)
	var n int64
	if _, err := fmt.Sscan(c.do(t, "GET", "n"), &n); err != nil || n < acknowledged.Load() || n > acknowledged.Load()+1 {
		t.Errorf("n is %d, %d was acknowledged: %v", n, acknowledged.Load(), err)
	}
	c.expect(t, "OK", "SET", "moved", "1")
	refused(t, a.at("old"), 3, []string{"rollback"}, a.flags()...)
	c.expect(t, "1", "GET", "moved") // whoever was refused has fenced nobody
	c.expect(t, "OK", "SET", "moved", "2")
}

// wantPhases looks for a line of the log with these fields, none of them negative.
func wantPhases(t *testing.T, s *server, names ...string) {
	t.Helper()
	for line := range strings.Lines(s.log.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) != nil {
			continue
		}
		found := 0
		for _, name := range names {
			if ms, ok := fields[name].(float64); ok && ms >= 0 {
				found++
			}
		}
		if found == len(names) {
			return
		}
	}
	t.Errorf("no line of the log has %v:\n%s", names, s.log.String())
}

// A VM that got its keys by attestation leaves no core file; debuggers are kept out; nothing of it is open to other users.
func TestMemoryWithKeysIsClosed(t *testing.T) {
	a := startAttested(t)
	s := start(t, a.at("vm"), a.flags()...)
	for name, p := range map[string]*server{"server": s, "party": a.party} {
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		core := ""
		for line := range strings.Lines(string(limits)) {
			if rest, ok := strings.CutPrefix(line, "Max core file size"); ok {
				core = strings.Join(strings.Fields(rest)[:2], " ")
			}
		}
		if core != "0 0" {
			t.Errorf("%s: core files of %q are allowed", name, core)
		}
		// What is not dumpable belongs to root, whoever runs it.
		if info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", p.cmd.Process.Pid)); err == nil && info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s: its memory is open to its user's other processes", name)
		}
	}
	open := map[string]bool{"service.pin": true} // made to be handed out
	err := filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && !open[d.Name()] {
			t.Errorf("%s has mode %v", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What is secret stands in the key file and nowhere else: not in what any command prints, logs, answers or writes, nor on a command line.
func TestSecretsAppearNowhere(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	s := start(t, at("d"), "--loglevel", "debug")
	key, err := os.ReadFile(filepath.Join(at("d"), "key"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(key), "\nsecret ")
	secret := rest[:64]
	raw, err := hex.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	const password = "open-sesame-12345"
	out := map[string]string{}
	c := dial(t, s.addr)
	c.expect(t, "OK", "CONFIG", "SET", "requirepass", password)
	c.expect(t, "OK", "AUTH", password)
	for _, command := range []string{"INFO everything", "CVM.STATUS", "CONFIG GET *", "CLIENT LIST", "SLOWLOG GET", "COMMAND", "MEMORY DOCTOR", "CVM.HOLD 1", "ACL LIST", "NOSUCH x", "CONFIG SET nosuch 1", "DEBUG OBJECT x", "LATENCY DOCTOR"} {
		reply := c.do(t, strings.Fields(command)...)
		if command == "CONFIG GET *" { // who may ask for it is given it, as in Redis
			reply = strings.ReplaceAll(reply, "requirepass "+password, "")
		}
		out[command] = reply
	}
	for _, of := range []string{"cmdline", "environ"} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.cmd.Process.Pid, of))
		out[of] = string(b)
	}
	out["backup"] = cli(t, "backup", at("copy"), "--server", "redis://:"+password+"@"+s.addr, "--volume", filepath.Join(at("d"), "volume.cvm"), "--key-file", filepath.Join(at("d"), "key"))
	wrong, _ := exec.Command(program, "backup", at("copy2"), "--server", "redis://:"+password+"@127.0.0.1:1", "--volume", "x").CombinedOutput()
	out["backup of nothing"] = string(wrong)
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	out["log"] = s.log.String()
	out["unseal"] = cli(t, "unseal", "--dir", at("d"), at("out.resp"))
	out["restore"] = cli(t, "restore", at("copy"), "--dir", at("d"))
	damaged := strings.Replace(string(key), "secret ", "secret  ", 1)
	if err := os.WriteFile(at("damaged"), []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	b, _ := exec.Command(program, "serve", "--dir", at("d"), "--key-file", at("damaged")).CombinedOutput()
	out["a damaged key"] = string(b)
	if err := os.Remove(at("damaged")); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "key" {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(bytes.TrimRight(b, "\x00"))
		files++
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files: %v", files, err)
	}
	searched := 0
	for where, text := range out {
		for what, s := range map[string]string{"the secret": secret, "the secret's bytes": string(raw), "the password": password} {
			if strings.Contains(text, s) {
				t.Errorf("%s holds %s", where, what)
			}
		}
		if text != "" {
			searched++
		}
	}
	if searched < 18 {
		t.Errorf("only %d outputs had something in them", searched)
	}
}
