package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestSwapAndHibernationAreRefused(t *testing.T) {
	const head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for name, c := range map[string]struct {
		swaps, resume string
		refused       bool
	}{
		"neither":             {head, "0:0\n", false},
		"a kernel without":    {"", "", false},
		"swap":                {head + "/dev/vda2                               partition\t999420\t\t0\t\t-2\n", "0:0\n", true},
		"compressed swap":     {head + "/dev/zram0 partition 1 0 5\n", "0:0\n", true},
		"a device to wake up": {head, "254:2\n", true},
	} {
		root := t.TempDir()
		for path, text := range map[string]string{"proc/swaps": c.swaps, "sys/power/resume": c.resume} {
			if text == "" {
				continue
			}
			full := filepath.Join(root, path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o700), os.WriteFile(full, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if err := checkMemory(root); (err != nil) != c.refused || err != nil && !errors.Is(err, errMemory) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
