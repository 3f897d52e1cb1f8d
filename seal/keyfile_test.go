package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeyFileMatchesGoldenFile(t *testing.T) {
	golden, err := os.ReadFile("testdata/key-v1.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := sample(t, SuiteAEGIS).encode(); !bytes.Equal(got, golden) {
		t.Errorf("the key file's format changed:\n%s", got)
	}
	k, err := decodeKeys(golden)
	if err != nil {
		t.Fatal(err)
	}
	if k.secret != sample(t, SuiteAEGIS).secret || k.store != sample(t, SuiteAEGIS).store {
		t.Error("the golden key file reads as other keys")
	}
}

func TestCreateThenRead(t *testing.T) {
	for _, suite := range Suites() {
		dir := t.TempDir()
		path := filepath.Join(dir, "key")
		made, err := CreateKeyFile(path, suite)
		if err != nil {
			t.Fatal(err)
		}
		read, err := ReadKeyFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var a, b [32]byte
		made.Derive(a[:], "x")
		read.Derive(b[:], "x")
		if a != b || read.StoreID() != made.StoreID() || read.Suite() != suite {
			t.Error("what was read is not what was made")
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%d files in the directory, want 1", len(left))
		}
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	if _, err := CreateKeyFile(path, SuiteAEGIS); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CreateKeyFile(path, SuiteAEGIS); !errors.Is(err, os.ErrExist) {
		t.Errorf("second create: %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Error("the key file was overwritten")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%d files in the directory, want 1", len(left))
	}
}

func TestReadRefusesWhatOthersCanRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if _, err := CreateKeyFile(path, SuiteAEGIS); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o610, 0o777, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadKeyFile(path)
		if !errors.Is(err, ErrKeyExposed) || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeyFile(path); err != nil {
		t.Errorf("mode 400: %v", err)
	}
}

func TestReadRefusesOtherOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	path := filepath.Join(t.TempDir(), "key")
	if _, err := CreateKeyFile(path, SuiteAEGIS); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeyFile(path); !errors.Is(err, ErrKeyExposed) {
		t.Errorf("another user's key file: %v", err)
	}
}

func TestReadRefusesOtherThings(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadKeyFile(dir); !errors.Is(err, ErrKeyDamaged) {
		t.Errorf("a directory: %v", err)
	}
	if _, err := ReadKeyFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// recheck gives a changed key file a valid check, so that the checks behind it are reached.
func recheck(text string) string {
	at := strings.LastIndex(text, "check ")
	sum := sha256.Sum256([]byte(text[:at]))
	return text[:at] + "check " + hex.EncodeToString(sum[:checkBytes]) + "\n"
}

func TestDecodeRefusesAnythingElse(t *testing.T) {
	good := string(sample(t, SuiteAEGIS).encode())
	change := func(old, with string) string {
		bad := strings.Replace(good, old, with, 1)
		if bad == good {
			t.Fatalf("%q is not in the key file", old)
		}
		return bad
	}
	cases := map[string]string{
		"empty":              "",
		"no end":             good[:len(good)-1],
		"a line more":        good + "x\n",
		"a blank line more":  good + "\n",
		"carriage returns":   strings.ReplaceAll(good, "\n", "\r\n"),
		"upper-case digits":  recheck(change("4a4b", "4A4B")),
		"a short secret":     recheck(change("404142", "4041")),
		"a long store id":    recheck(change("000102", "00000102")),
		"no digits":          recheck(change("404142", "4041zz")),
		"another suite":      recheck(change("aegis", "rot13")),
		"suite of the other": change("aegis", "aes-256-gcm"),
		"two spaces":         recheck(change("store ", "store  ")),
		"swapped lines":      recheck(change("suite aegis\n", "") + "suite aegis\n"),
		"a later version":    change("-v1", "-v2"),
		"another file":       "-----BEGIN PRIVATE KEY-----\n",
	}
	for name, text := range cases {
		k, err := decodeKeys([]byte(text))
		if !errors.Is(err, ErrKeyDamaged) || k != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "404142") {
			t.Errorf("%s: the error quotes the secret", name)
		}
	}
	for i := range good {
		bad := []byte(good)
		bad[i] ^= 1
		if _, err := decodeKeys(bad); !errors.Is(err, ErrKeyDamaged) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

func FuzzDecodeKeys(f *testing.F) {
	f.Add(string(sample(f, SuiteAEGIS).encode()))
	f.Add(string(sample(f, SuiteAESGCM).encode()))
	f.Add("cvmstore-key-v1\n\n\n\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, in := range []string{text, recheckIfPossible(text)} {
			k, err := decodeKeys([]byte(in))
			if err == nil && string(k.encode()) != in {
				t.Fatal("parse then encode is not the identity")
			}
		}
	})
}

func recheckIfPossible(text string) string {
	if !strings.Contains(text, "check ") {
		return text
	}
	return recheck(text)
}
