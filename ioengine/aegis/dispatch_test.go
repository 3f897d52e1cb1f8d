package aegis

import (
	"slices"
	"testing"
)

// The self-test at start drops what does not work, which must not hide a mistake of ours from the other tests.
func TestAllThatTheCPUOffersPassesTheSelfTest(t *testing.T) {
	for _, impl := range detect() {
		if !slices.Contains(available, impl) {
			t.Errorf("%s fails its self-test: either it is wrong, or the CPU is, as VAES under QEMU 7.2", implNames[impl])
		}
	}
}

func TestForce(t *testing.T) {
	names := Implementations()
	if names[0] != Implementation() || names[len(names)-1] != "portable" {
		t.Errorf("%s is in use of %v", Implementation(), names)
	}
	if _, err := Force("abacus"); err == nil {
		t.Error("an unknown implementation can be forced")
	}
	restore, err := Force("portable")
	if err != nil || Implementation() != "portable" {
		t.Errorf("forced portable, got %s, %v", Implementation(), err)
	}
	restore()
	if Implementation() != names[0] {
		t.Errorf("restored to %s, want %s", Implementation(), names[0])
	}
	t.Logf("implementations: %v", names)
}
