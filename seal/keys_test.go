package seal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// sample returns the keys of the golden files: store 000102..., secret 404142...
func sample(t testing.TB, suite string) *Keys {
	t.Helper()
	var store [16]byte
	var secret [32]byte
	for i := range store {
		store[i] = byte(i)
	}
	for i := range secret {
		secret[i] = byte(0x40 + i)
	}
	k, err := NewKeys(store, suite, secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The vectors were computed by another program (Python's hmac module) from the formula in the comment of Keys.
func TestDeriveMatchesGoldenVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/derive-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Suite, Label, Key string
		Context           []string
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	seen := map[string]string{}
	for _, v := range vectors {
		context := make([][]byte, len(v.Context))
		for i, c := range v.Context {
			if context[i], err = hex.DecodeString(c); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len(v.Key)/2)
		sample(t, v.Suite).Derive(got, v.Label, context...)
		if hex.EncodeToString(got) != v.Key {
			t.Errorf("%s %s %q: got %x, want %s", v.Suite, v.Label, v.Context, got, v.Key)
		}
		if other, ok := seen[v.Key[:32]]; ok {
			t.Errorf("%s %s %q begins as %s does", v.Suite, v.Label, v.Context, other)
		}
		seen[v.Key[:32]] = fmt.Sprint(v.Suite, v.Label, v.Context, len(got))
	}
}

func TestStoresDoNotShareKeys(t *testing.T) {
	k := sample(t, SuiteAEGIS)
	other, err := NewKeys([16]byte{1}, SuiteAEGIS, k.secret)
	if err != nil {
		t.Fatal(err)
	}
	var a, b [32]byte
	k.Derive(a[:], "x")
	other.Derive(b[:], "x")
	if a == b {
		t.Error("two stores with one secret derive the same key")
	}
}

func TestNewKeysRefuses(t *testing.T) {
	if _, err := NewKeys([16]byte{1}, "rot13", [32]byte{1}); err == nil || !strings.Contains(err.Error(), SuiteAESGCM) {
		t.Errorf("unknown suite: %v", err)
	}
	if _, err := NewKeys([16]byte{1}, SuiteAEGIS, [32]byte{}); err == nil {
		t.Error("a secret of zeros was accepted")
	}
}

func TestSeedIsFresh(t *testing.T) {
	k := sample(t, SuiteAEGIS)
	seen := map[[32]byte]bool{}
	for range 100 {
		seen[k.Seed(1, [32]byte{1})] = true
	}
	if len(seen) != 100 || seen[[32]byte{}] {
		t.Errorf("%d different seeds of 100", len(seen))
	}
}

func TestRDSEED(t *testing.T) {
	var a, b [32]byte
	if !readRDSEED(a[:]) {
		if hasRDSEED {
			t.Error("this processor has RDSEED, but it did not answer")
		}
		if a != [32]byte{} {
			t.Error("a failed RDSEED left bytes behind")
		}
		t.Skip("no RDSEED here")
	}
	if !readRDSEED(b[:]) || a == b {
		t.Error("RDSEED repeats itself")
	}
}

func TestKeysAreNeverPrinted(t *testing.T) {
	k := sample(t, SuiteAEGIS)
	asJSON, err := json.Marshal(map[string]any{"keys": k, "value": *k})
	if err != nil {
		t.Fatal(err)
	}
	printed := string(asJSON)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"} {
		printed += fmt.Sprintf(verb, k) + fmt.Sprintf(verb, []*Keys{k}) + fmt.Sprintf(verb, *k)
	}
	for _, secret := range [][]byte{k.secret[:], k.master} {
		for _, form := range []string{"%x", "%X", "%s", "%d"} {
			if s := fmt.Sprintf(form, secret); strings.Contains(printed, s[1:len(s)-1]) {
				t.Errorf("the secret is printed as %s", form)
			}
		}
	}
}

func TestWipe(t *testing.T) {
	k := sample(t, SuiteAEGIS)
	master := k.master
	k.Wipe()
	if k.secret != [32]byte{} || !bytes.Equal(master, make([]byte, 32)) {
		t.Error("Wipe left key bytes")
	}
	defer func() {
		if recover() == nil {
			t.Error("wiped keys derived a key")
		}
	}()
	k.Derive(make([]byte, 32), "x")
}

func TestDeriveRefusesBadLengths(t *testing.T) {
	k := sample(t, SuiteAEGIS)
	for _, n := range []int{0, 8161} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a key of %d bytes was derived", n)
				}
			}()
			k.Derive(make([]byte, n), "x")
		}()
	}
}
