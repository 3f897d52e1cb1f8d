package cli

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := Main(args, &out, &errOut); code != ExitOK {
		t.Fatalf("%q: %d: %s", args, code, errOut.String())
	}
	return out.String()
}

// TestManualPageAndCompletionsNameEverything: each command is in all of them, and bash takes its own.
func TestManualPageAndCompletionsNameEverything(t *testing.T) {
	texts := map[string]string{"man": output(t, "man")}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		texts[shell] = output(t, "completion", shell)
	}
	for name, text := range texts {
		for _, want := range []string{"serve", "counter", "provision", "doctor", "unseal"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s", name, want)
			}
		}
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		cmd := exec.Command(bash, "-c", texts["bash"]+"\nCOMP_WORDS=(cvmstore counter s) COMP_CWORD=2; _cvmstore; echo \"${COMPREPLY[@]}\"")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "serve") {
			t.Errorf("bash: %v: %s", err, out)
		}
	}
}

func TestVersionSaysWhatIsInUse(t *testing.T) {
	if got := output(t, "version"); !strings.Contains(got, "aegis: ") || !strings.Contains(got, "processor: ") {
		t.Errorf("%s", got)
	}
	var bom struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Name, PURL string }
	}
	if err := json.Unmarshal([]byte(output(t, "version", "--sbom")), &bom); err != nil || bom.BOMFormat != "CycloneDX" || len(bom.Components) == 0 {
		t.Errorf("%v %+v", err, bom)
	}
}

// TestDoctorSaysWhatToDo: a line for each thing, and a second one for what is missing.
func TestDoctorSaysWhatToDo(t *testing.T) {
	got := output(t, "doctor", "--counter", "https://127.0.0.1:1")
	missing := strings.Count(got, "missing  ")
	if missing == 0 || !strings.Contains(got, "missing  counter") || !strings.Contains(got, "firewall") || !strings.Contains(got, "io_uring") {
		t.Errorf("%s", got)
	}
	if lines := strings.Count(got, "\n"); lines < 10+missing {
		t.Errorf("%d lines: %s", lines, got)
	}
}
