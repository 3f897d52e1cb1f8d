package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
)

var update = flag.Bool("update", false, "rewrite configs/cvmstore.toml from the table of settings")

const examplePath = "../../configs/cvmstore.toml"

func TestExampleFileDocumentsEverySetting(t *testing.T) {
	if *update {
		if err := os.WriteFile(examplePath, []byte(exampleFile()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != exampleFile() {
		t.Error("configs/cvmstore.toml is not what the settings say; run: go test ./internal/cli -run ExampleFile -update")
	}
}

// Every line of the example, its # removed, is accepted and changes nothing.
func TestExampleFileHoldsTheDefaults(t *testing.T) {
	for _, line := range strings.Split(exampleFile(), "\n") {
		line, commented := strings.CutPrefix(line, "#")
		if !commented || strings.HasPrefix(line, " ") {
			continue
		}
		o, err := fromFile(t, line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if !reflect.DeepEqual(o, defaultOptions()) {
			t.Errorf("%s is not the default", line)
		}
	}
}

func fromFile(t *testing.T, text string) (options, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := defaultOptions()
	return o, readFile(&o, path)
}

func TestFileValues(t *testing.T) {
	o, err := fromFile(t, `
port = 7000
bind = ["127.0.0.1", "::1"]
dir = "/somewhere"
volume-size = "10gb"
cipher = "aes-256-gcm"
epoch-length = 27
insecure-plaintext = true
protected-mode = false
durability = "durable"
`)
	if err != nil {
		t.Fatal(err)
	}
	s := o.server
	if s.Port != 7000 || !reflect.DeepEqual(s.Bind, []string{"127.0.0.1", "::1"}) || s.Protected || s.Durability != "durable" {
		t.Errorf("front end: %+v", s)
	}
	if o.volumeSize != 10<<30 || o.cipher != "aes-256-gcm" || o.epochLength != 27*time.Millisecond || !o.insecurePort {
		t.Errorf("volume: %+v", o)
	}
	if o.keyPath() != "/somewhere/key" || o.volumePath() != "/somewhere/volume.cvm" || o.counterPath() != "/somewhere/counter" {
		t.Errorf("paths: %s %s %s", o.keyPath(), o.volumePath(), o.counterPath())
	}
}

func TestFileRefuses(t *testing.T) {
	cases := map[string]string{
		`prot = 1`:                `unknown key "prot", did you mean "port"?`,
		`Port = 1`:                `unknown key "Port", did you mean "port"?`,
		`volum_size = "1gb"`:      `did you mean "volume-size"?`,
		`port = "many"`:           `port: "many"`,
		`port = 70000`:            `between`,
		`port = 1.5`:              `not a fraction`,
		`[server]` + "\nport = 1": `not a table`,
		`cipher = "rot13"`:        `aegis, aes-256-gcm`,
		`epoch-length = 300`:      `between 0 and 281`,
		`segment-size = "1kb"`:    `at least`,
		`volume-size = "lots"`:    `memory value`,
		"port = 1\nport = 2":      `line 2`,
		"port =":                  `line 1`,
		"durability = \"fresh\"\nappendfsync = \"always\"": `two names of one thing`,
	}
	for text, want := range cases {
		_, err := fromFile(t, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
			continue
		}
		if _, _, code := explain(err); code != ExitUsage {
			t.Errorf("%s: exit code %d", text, code)
		}
	}
}

func TestFlagsOverrideTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(path, []byte("port = 7000\nmaxclients = 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parseServe(t, "--config", path, "--port", "8000", "--bind", "127.0.0.1,::1", "--protected-mode", "no", "--insecure-plaintext")
	if err != nil {
		t.Fatal(err)
	}
	if o.server.Port != 8000 || o.server.MaxClients != 5 || len(o.server.Bind) != 2 || o.server.Protected || !o.insecurePort {
		t.Errorf("%+v", o)
	}
}

func TestNoFlagsAreTheDefaults(t *testing.T) {
	o, err := parseServe(t)
	if err != nil || !reflect.DeepEqual(o, defaultOptions()) {
		t.Errorf("%+v, %v", o, err)
	}
	if o.server.Port != 6379 || !reflect.DeepEqual(o.server.Bind, []string{"127.0.0.1"}) || o.server.Dir != "./cvmstore-data" {
		t.Errorf("defaults: %+v", o.server)
	}
}

func parseServe(t *testing.T, args ...string) (options, error) {
	t.Helper()
	c := new(commands)
	parser, err := newParser(c, new(bytes.Buffer), new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(append([]string{"serve"}, args...)); err != nil {
		t.Fatal(err)
	}
	return c.Serve.options()
}

func TestUsageErrors(t *testing.T) {
	cases := []struct{ args, want string }{
		{"serve --prot 1", `did you mean "--port"?`},
		{"serve --volume-sz 1", `did you mean "--volume-size"?`},
		{"serve --requirepasswd x", `did you mean "--requirepass"?`},
		{"serve --port many", `port: "many"`},
		{"serve --config /nonexistent", `/nonexistent`},
		{"serv", `serve`},
		{"serve extra", `extra`},
		{"serve --bind 0.0.0.0", `--insecure-plaintext`},
		{"serve --bind *", `--insecure-plaintext`},
	}
	for _, c := range cases {
		var out, errOut bytes.Buffer
		code := Main(strings.Fields(c.args), &out, &errOut)
		if code != ExitUsage || !strings.Contains(errOut.String(), c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, code, errOut.String())
		}
	}
}

func TestSecretIsNotQuoted(t *testing.T) {
	_, err := fromFile(t, "requirepass = 1979-05-27")
	if err == nil || strings.Contains(err.Error(), "1979") {
		t.Errorf("%v", err)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{
		"--help": "serve", "serve --help": "--appendfsync", "version": "aegis: ", "serve --help ": "--insecure-plaintext",
	} {
		var out, errOut bytes.Buffer
		if code := Main(strings.Fields(args), &out, &errOut); code != ExitOK || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d\n%s%s", args, code, out.String(), errOut.String())
		}
	}
}

func TestExampleIsTOML(t *testing.T) {
	// Comments have a space after their #, settings do not.
	var lines []string
	for _, line := range strings.Split(exampleFile(), "\n") {
		if !strings.HasPrefix(line, "# ") {
			lines = append(lines, strings.TrimPrefix(line, "#"))
		}
	}
	var tree map[string]any
	if _, err := toml.Decode(strings.Join(lines, "\n"), &tree); err != nil {
		t.Error(err)
	}
	if len(tree) != len(settings()) {
		t.Errorf("%d keys for %d settings", len(tree), len(settings()))
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"port", "port", 0}, {"prot", "port", 1}, {"por", "port", 1}, {"bind", "port", 4}, {"abc", "", 3}, {"ca", "abc", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
