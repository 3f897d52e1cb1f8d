package resp

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDefaultsAreWhatTheTableSays(t *testing.T) {
	c := DefaultConfig()
	if c.Port != 6379 || len(c.Bind) != 1 || c.Bind[0] != "127.0.0.1" || c.Durability != "fresh" || c.ProtoMaxBulk != 512<<20 || !c.Protected {
		t.Errorf("defaults: %+v", c)
	}
	seen := map[string]bool{}
	for _, p := range Params() {
		if seen[p.Name] || p.Help == "" {
			t.Errorf("%s: stands twice, or has no help", p.Name)
		}
		seen[p.Name] = true
		value, ok := c.Get(p.Name)
		if !ok {
			t.Errorf("%s: not found", p.Name)
		}
		if err := c.Set(p.Name, value); err != nil {
			t.Errorf("%s: its own value %q is refused: %v", p.Name, value, err)
		}
	}
}

func TestParseMemory(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "100": 100, "1k": 1000, "1KB": 1024, "2mb": 2 << 20, "1gb": 1 << 30, "5b": 5} {
		if n, err := ParseMemory(in); err != nil || n != want {
			t.Errorf("%s: %d %v", in, n, err)
		}
	}
	for _, in := range []string{"", "x", "1tb", "-1", "1 k", "99999999999gb"} {
		if n, err := ParseMemory(in); err == nil {
			t.Errorf("%s: taken as %d", in, n)
		}
	}
}

func TestLevelsByRedisName(t *testing.T) {
	c := DefaultConfig()
	for _, s := range []struct{ set, get string }{{"everysec", "everysec"}, {"always", "fresh"}} {
		if err := c.Set("appendfsync", s.set); err != nil || c.Durability != s.get {
			t.Errorf("%s: %s %v", s.set, c.Durability, err)
		}
	}
	if c.Set("appendfsync", "no") == nil {
		t.Error("appendfsync no is taken")
	}
}

func TestTheCorpusIsThere(t *testing.T) {
	for _, target := range []string{"FuzzParser", "FuzzSession"} {
		if files, err := os.ReadDir(filepath.Join("testdata", "fuzz", target)); err != nil || len(files) < 10 {
			t.Errorf("%s: %d files, %v", target, len(files), err)
		}
	}
}
