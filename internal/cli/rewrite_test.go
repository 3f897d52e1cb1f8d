package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRewriteKeepsTheFileAndPutsInWhatIsInForce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.toml")
	const before = `# ours
port = 7000
volume = "here" # not the front end's

bind = ["127.0.0.1", "::1"]
appendfsync = "always"
maxclients = 5
`
	if err := os.WriteFile(path, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	o := defaultOptions()
	if err := readFile(&o, path); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"maxclients": "70", "durability": "everysec", "requirepass": "a\"b\\c\n", "protected-mode": "no",
		"client-query-buffer-limit": "2mb", "client-output-buffer-limit": "normal 1 2 3",
	} {
		if err := o.server.Set(name, value); err != nil {
			t.Fatal(name, err)
		}
	}
	o.configFile = path
	if err := o.rewrite()(o.server); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("mode: %v %v", st.Mode(), err)
	}
	for _, want := range []string{"# ours\nport = 7000\nvolume = \"here\" # not the front end's\n\nbind = [\"127.0.0.1\", \"::1\"]\n# appendfsync", "\nmaxclients = 70\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("lacks %q: %s", want, text)
		}
	}
	again := defaultOptions()
	if err := readFile(&again, path); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, s := range settings() {
		want, ok := o.server.Get(s.name)
		if got, _ := again.server.Get(s.name); ok && got != want {
			t.Errorf("%s: %q, want %q", s.name, got, want)
		}
	}
	if err := again.rewrite(); err != nil {
		t.Error("without a file there is nothing to rewrite")
	}
}

func TestRewriteRefusesAListOverSeveralLines(t *testing.T) {
	o := defaultOptions()
	_, err := rewriteText("bind = [\n\"127.0.0.1\",\n]\n", o.server)
	if err == nil || !strings.Contains(err.Error(), "bind") {
		t.Errorf("got %v", err)
	}
}

func TestTLSAloneNeedsNoLeave(t *testing.T) {
	o := defaultOptions()
	o.server.Bind, o.server.Port, o.server.TLSPort = []string{"*"}, 0, 6380
	if err := checkExposure(&o); err != nil {
		t.Error(err)
	}
	o.server.Port = 6379
	if checkExposure(&o) == nil {
		t.Error("a plaintext port beside the TLS port is open to all")
	}
}
