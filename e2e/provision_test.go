package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// attested is a trusted party, its counter service, and a platform whose VMs the party accepts.
type attested struct {
	dir     string
	counter *counterService
	party   *server
	store   string
	pin     string
}

var policyLine = regexp.MustCompile(`(?m)^(roots|measurements|revocation_lists) = .*$`)

func startAttested(t *testing.T) *attested {
	t.Helper()
	a := &attested{dir: t.TempDir()}
	a.counter = startCounter(t, filepath.Join(a.dir, "counter"), "127.0.0.1:0")
	said := cli(t, "provision", "simulate", a.at("platform"))
	example, err := os.ReadFile("../configs/policy.toml")
	if err != nil {
		t.Fatal(err)
	}
	policy := policyLine.ReplaceAllString(string(example), "") + said + "revocation_lists = \"any\"\n"
	policy = strings.Replace(policy, `["Milan", "Genoa"]`, `["Milan"]`, 1)
	if err := os.WriteFile(a.at("policy.toml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	said = cli(t, "provision", "create", "orders", "--dir", a.at("party"), "--counter", a.counter.url,
		"--counter-pin", filepath.Join(a.counter.dir, "service.pin"), "--set", "maxclients=77")
	a.store = said[strings.LastIndex(strings.TrimSpace(said), "\n")+1:][:32]
	a.party = launchProgram(t, a.at("party"), []string{
		"provision", "serve", "--dir", a.at("party"), "--policy", a.at("policy.toml"), "--listen", "127.0.0.1:0",
		"--counter-cert", filepath.Join(a.counter.dir, "operator.pem"), "--log-format", "json",
	})
	for line := range strings.Lines(a.party.log.String()) {
		var said struct{ Pin string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Pin != "" {
			a.pin = said.Pin
		}
	}
	if a.pin == "" {
		t.Fatalf("the party did not start:\n%s", a.party.log.String())
	}
	return a
}

func (a *attested) at(name string) string { return filepath.Join(a.dir, name) }

func (a *attested) flags() []string {
	return []string{
		"--provision", "https://" + a.party.addr, "--provision-pin", a.pin, "--store", a.store,
		"--attester", "simulated:" + a.at("platform"),
	}
}

// The whole life of an attested store, each part a process of its own: first start, restart, a clone, an older disk, another
// program, and no file but sealed ones that holds the secret.
func TestAnAttestedStore(t *testing.T) {
	a := startAttested(t)
	vm := a.at("vm")
	s := start(t, vm, a.flags()...)
	c := dial(t, s.addr)
	c.expect(t, "OK", "SET", "k", "1")
	c.expect(t, "maxclients 77", "CONFIG", "GET", "maxclients")
	if _, err := os.Stat(filepath.Join(vm, "key")); !os.IsNotExist(err) {
		t.Errorf("the VM wrote a key file: %v", err)
	}
	s.kill()

	old := a.at("old")
	copyFiles(t, vm, old)
	s = start(t, vm, a.flags()...)
	c = dial(t, s.addr)
	c.expect(t, "1", "GET", "k")
	c.expect(t, "OK", "SET", "k", "2")

	// A clone of the running server's disk attests as well, and is then the one in charge: the first is fenced.
	clone := a.at("clone")
	s.pause(true) // or else it may commit once more after the copy was taken, which then is an older disk
	copyFiles(t, vm, clone)
	second := start(t, clone, a.flags()...)
	s.pause(false)
	dial(t, second.addr).expect(t, "2", "GET", "k")
	if err := c.send([]string{"SET", "k", "3"}); err != nil {
		t.Fatal(err)
	}
	if reply, err := c.receive(); err == nil && !strings.HasPrefix(reply, "-") {
		t.Errorf("a fenced server acknowledged a write: %q", reply)
	}
	if code := second.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if code := s.wait(); code != 4 {
		t.Errorf("the fenced server ended with %d", code)
	}

	refused(t, old, 3, []string{"rollback"}, a.flags()...)

	a.searchSecrets(t)
}

func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// searchSecrets looks for the store's secret in everything that was written.
func (a *attested) searchSecrets(t *testing.T) {
	t.Helper()
	audit := cli(t, "provision", "audit", "--dir", a.at("party"))
	if n := strings.Count(audit, `"event":"release","granted":true`); n < 3 {
		t.Errorf("the audit log holds %d releases:\n%s", n, audit)
	}
	files := 0
	err := filepath.WalkDir(a.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "cvmstore-key-v1\n") {
			t.Errorf("%s holds keys in the clear", path)
		}
		return err
	})
	if err != nil || files < 8 {
		t.Errorf("searched %d files: %v", files, err)
	}
}

func TestWhoAttestsInVain(t *testing.T) {
	a := startAttested(t)
	flags := func(change func(f []string)) []string {
		f := append([]string(nil), a.flags()...)
		change(f)
		return f
	}
	refused(t, a.at("vm1"), 1, []string{"another key"}, flags(func(f []string) { f[3] = strings.Repeat("0", 64) })...)
	refused(t, a.at("vm2"), 1, []string{"no keys of this store"}, flags(func(f []string) { f[5] = strings.Repeat("0", 32) })...)
	refused(t, a.at("vm3"), 1, []string{"no attestation device", "configfs"}, a.flags()[:6]...)
	// One byte more, and it is another program, with another measurement.
	code, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	other := a.at("other-program")
	if err := os.WriteFile(other, append(code, 0), 0o700); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(other, append([]string{"serve", "--port=-1", "--dir", a.at("vm4"), "--log-format", "json"}, a.flags()...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "measurement") {
		t.Errorf("another program gets keys: %v\n%s", err, said)
	}
	policy, err := os.ReadFile(a.at("policy.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.at("policy.toml"), []byte(strings.Replace(string(policy), "vmpl = 0", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := launchProgram(t, a.at("party"), []string{"provision", "serve", "--dir", a.at("party"), "--policy", a.at("policy.toml"), "--listen", "127.0.0.1:0"})
	if s.addr != "" || !strings.Contains(s.log.String(), "vmpl") {
		t.Errorf("a policy without a field is accepted:\n%s", s.log.String())
	}
}
