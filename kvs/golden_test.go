package kvs_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cvmstore/epoch"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// A golden volume is the disk and the counter's record of a small store, as a release of some format version left them behind: one
// file testdata/golden/vN.gz for each format version so far, which every later release must open, or refuse with what to do.
// To make the file of a new version: go test ./kvs -run GoldenVolumes -golden vN.

var goldenName = flag.String("golden", "", "write testdata/golden/NAME.gz as this program makes it")

// golden is a file's first line; the blocks of the disk follow.
type golden struct {
	Record epoch.Record
	Blocks int
	Want   map[string]string // "db key" to value, then " expires" if it does
}

const goldenDatabases = 3

func goldenRig(t *testing.T) *rig {
	r := newRig(t)
	r.dev = memdev.New(memdev.Options{Blocks: 64, BlocksMax: 1024})
	r.space = keyspace.Options{Databases: goldenDatabases}
	r.volume = volume.Options{SegmentBlocks: 16}
	return r
}

func TestGoldenVolumes(t *testing.T) {
	if *goldenName != "" {
		writeGolden(t, *goldenName)
	}
	files, err := filepath.Glob("testdata/golden/v*.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden volumes: %v", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) { openGolden(t, f) })
	}
}

func openGolden(t *testing.T, file string) {
	r := goldenRig(t)
	g := loadGolden(t, r, file)
	err := r.tryOpen()
	if refused := goldenRefusals[filepath.Base(file)]; refused != "" {
		if err == nil || !strings.Contains(err.Error(), refused) {
			t.Fatalf("it was to be refused with %q: %v", refused, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // as it was left, and as this program rewrites it
		if got := goldenState(t, r); fmt.Sprint(got) != fmt.Sprint(g.Want) {
			t.Fatalf("it holds\n%v, not\n%v", got, g.Want)
		}
		if err := r.do(0, bs("new"), func(t *keyspace.Tx) error {
			_, err := kvs.Set(t, []byte("new"), []byte("value"), kvs.SetOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		g.Want["0 new"] = "value"
		r.reopen()
	}
}

// goldenRefusals are the files that this program no longer opens, and what it says.
var goldenRefusals = map[string]string{}

// writeGolden makes a volume with a bit of everything.
func writeGolden(t *testing.T, name string) {
	r := goldenRig(t).open()
	set := func(db int, key, val string, expiry int64) {
		t.Helper()
		if err := r.do(db, bs(key), func(t *keyspace.Tx) error {
			_, err := kvs.Set(t, []byte(key), []byte(val), kvs.SetOptions{Expiry: expiry})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		set(i%goldenDatabases, fmt.Sprintf("key:%d", i%50), strings.Repeat(fmt.Sprint(i, " "), 1+40*(i%7)), 0)
		if i%20 == 19 {
			r.reopen()
		}
	}
	set(0, "expires", "later", 4_000_000_000_000)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(r.do(0, bs("key:0"), func(t *keyspace.Tx) error {
		_, err := t.Expire([]byte("key:0"), 4_000_000_000_001, 0)
		return err
	}))
	check(r.do(0, bs("key:3", "key:6"), func(t *keyspace.Tx) error { _, err := t.Del(bs("key:3", "key:6")); return err }))
	check(r.doAll(2, func(t *keyspace.Tx) error { return t.FlushDB() }))
	set(2, "after", "the flush", 0)
	check(r.doAll(0, func(t *keyspace.Tx) error { return t.Swap(0, 1) }))
	big := bs("big:0", "big:1", "big:2", "big:3", "big:4", "big:5", "big:6", "big:7")
	check(r.do(1, big, func(t *keyspace.Tx) error { // a batch that is larger than a segment
		pairs := [][]byte{}
		for _, k := range big {
			pairs = append(pairs, k, bytes.Repeat(k, 1500))
		}
		return kvs.MSet(t, pairs)
	}))
	g := golden{Want: goldenState(t, r)}
	r.close()
	g.Record = r.counter.Snapshot()[epoch.StoreID(r.keys.StoreID())]
	g.Blocks = int(r.dev.Info().Blocks)
	head, err := json.Marshal(g)
	check(err)
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, err = z.Write(append(head, '\n'))
	check(err)
	for i := range g.Blocks {
		_, err = z.Write(r.dev.Peek(device.LBA(i)))
		check(err)
	}
	check(z.Close())
	check(os.MkdirAll("testdata/golden", 0o755))
	check(os.WriteFile(filepath.Join("testdata/golden", name+".gz"), out.Bytes(), 0o644))
}

func loadGolden(t *testing.T, r *rig, file string) *golden {
	t.Helper()
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	head, blocks, _ := bytes.Cut(all, []byte("\n"))
	g := &golden{}
	if err := json.Unmarshal(head, g); err != nil || len(blocks) != g.Blocks*device.BlockSize {
		t.Fatalf("golden file: %v, %d bytes of %d blocks", err, len(blocks), g.Blocks)
	}
	if _, err := r.dev.Reserve(device.BlockCount(g.Blocks)); err != nil {
		t.Fatal(err)
	}
	for i := range g.Blocks {
		r.dev.Poke(device.LBA(i), blocks[i*device.BlockSize:][:device.BlockSize])
	}
	r.counter.Edit(epoch.StoreID(r.keys.StoreID()), func(rec *epoch.Record) { *rec = g.Record })
	return g
}

// goldenState lists every key with its value and whether it expires.
func goldenState(t *testing.T, r *rig) map[string]string {
	t.Helper()
	m := map[string]string{}
	for db := range goldenDatabases {
		var keys []string
		if err := r.doAll(db, func(t *keyspace.Tx) error {
			keys = keys[:0]
			return t.Keys([]byte("*"), func(k []byte) { keys = append(keys, string(k)) })
		}); err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if err := r.do(db, bs(k), func(t *keyspace.Tx) error {
				val, ok, err := kvs.Get(t, []byte(k))
				if err != nil {
					return err
				}
				at, _, err := t.Expiry([]byte(k))
				if !ok {
					return errors.New("a key that KEYS lists is absent")
				}
				m[fmt.Sprint(db, " ", k)] = string(val)
				if at != 0 {
					m[fmt.Sprint(db, " ", k)] += " expires"
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}
