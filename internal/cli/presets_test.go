package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/seal"
	"cvmstore/volume"
)

// tick is a clock that stands until a test moves it.
type tick struct{ now atomic.Int64 }

func (c *tick) Monotonic() time.Duration { return time.Duration(c.now.Load()) }

// presetRig is a store as a preset makes it, on a device and a counter in memory. Commits reach the counter when the test says so.
type presetRig struct {
	t       *testing.T
	o       options
	level   volume.Level
	clock   tick
	dev     *memdev.Device
	counter *epochtest.Memory
	keys    *seal.Keys
	space   *keyspace.Space
	v       *volume.Volume
	n       int
}

func newPresetRig(t *testing.T, path string) *presetRig {
	t.Helper()
	r := &presetRig{t: t, o: defaultOptions()}
	if err := readFile(&r.o, path); err != nil {
		t.Fatal(err)
	}
	r.level = map[string]volume.Level{
		"fresh": volume.LevelFresh, "durable": volume.LevelDurable, "everysec": volume.LevelEverySec,
	}[r.o.server.Durability]
	r.dev = memdev.New(memdev.Options{BlocksMax: 1 << 17})
	r.counter = epochtest.NewMemory(epochtest.Options{Async: true})
	var err error
	if r.keys, err = seal.GenerateKeys(seal.SuiteAEGIS); err != nil {
		t.Fatal(err)
	}
	if err := r.counter.Create(context.Background(), epoch.StoreID(r.keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	return r
}

// open starts a server; its opening commit is delivered.
func (r *presetRig) open() error {
	vo := r.o.volumeOptions()
	vo.Device, vo.Counter, vo.Keys, vo.Clock = r.dev, r.counter, r.keys, &r.clock
	vo.SegmentBlocks = 256
	r.space = keyspace.New(keyspace.Options{})
	vo.Stores = map[volume.Store]volume.Replayer{volume.StoreKeys: r.space}
	opened := make(chan error, 1)
	go func() {
		v, err := volume.Open(context.Background(), vo)
		r.v = v
		opened <- err
	}()
	for {
		select {
		case err := <-opened:
			if err == nil {
				r.space.Attach(r.v)
				r.settle()
			}
			return err
		default:
			r.counter.Deliver()
		}
	}
}

// settle lets the volume open its next segment and commit that, so that nothing of it is under way.
func (r *presetRig) settle() {
	for range 2000 {
		r.v.Step()
		r.counter.Deliver()
	}
}

// set writes one key more and waits for the preset's level. False: mutations are held.
func (r *presetRig) set(deliver func()) bool {
	tx, key := new(keyspace.Tx), fmt.Appendf(nil, "k%d", r.n)
	for try := 0; ; try++ {
		r.space.Begin(tx, 0, [][]byte{key})
		_, err := kvs.Set(tx, key, []byte("v"), kvs.SetOptions{})
		tx.End()
		if err == nil {
			break
		}
		if !errors.Is(err, volume.ErrBusy) {
			r.t.Fatal(err)
		}
		if try > 300 {
			return false
		}
		r.v.Step()
		deliver()
	}
	for try := 0; !r.v.Reached(tx.Seen(), r.level); try++ {
		if try > 100_000 {
			r.t.Fatal("a reply never leaves")
		}
		r.v.Want(tx.Seen(), r.level)
		r.v.Step()
		deliver()
	}
	r.n++
	r.v.Step()
	return true
}

// crash ends the server; what was under way to the counter never arrives. With a disk, the host puts that one in place.
func (r *presetRig) crash(image *memdev.Snapshot) error {
	r.counter.Kill()
	for r.counter.Drop() {
	}
	r.dev.Kill()
	if image != nil {
		r.dev.Restore(image)
	}
	return r.open()
}

func (r *presetRig) size() int {
	tx := new(keyspace.Tx)
	r.space.BeginAll(tx, 0)
	defer tx.End()
	return tx.DBSize()
}

var losses = regexp.MustCompile(`(?m)^# Loses in (a crash|a restart by a hostile host): (.*)\.$`)

// Every preset loses what its head says: in a crash, and in a restart on the oldest disk that the counter allows; and not more, one
// commit further back being refused.
func TestPresetsLoseWhatTheySay(t *testing.T) {
	files, err := filepath.Glob("../../configs/presets/*.toml")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d presets, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			m := losses.FindAllStringSubmatch(string(text), -1)
			if len(m) != 2 {
				t.Fatalf("its head says what it loses %d times", len(m))
			}
			presetCrash(t, path, m[0][2])
			presetRestart(t, path, m[1][2])
		})
	}
}

func presetCrash(t *testing.T, path, says string) {
	r := newPresetRig(t, path)
	none := func() {}
	if r.level == volume.LevelFresh {
		none = func() { r.counter.Deliver() }
	}
	for range 10 {
		r.set(none)
	}
	r.clock.now.Add(int64(900 * time.Millisecond))
	if says == "2 s" {
		before := r.n
		if err := r.crash(nil); err != nil || r.size() != 0 {
			t.Errorf("a crash within the second: %d of %d are left, %v: it is stronger than it says", r.size(), before, err)
		}
		for range 10 {
			r.set(none)
		}
		r.clock.now.Add(int64(time.Second))
		for range 1000 {
			r.v.Step()
		}
		if err := r.crash(nil); err != nil || r.size() != 10 {
			t.Errorf("a crash a second later: %d of 10 are left, %v", r.size(), err)
		}
		return
	}
	if says != "nothing" {
		t.Fatalf("no test for a crash that loses %q", says)
	}
	if err := r.crash(nil); err != nil || r.size() != 10 {
		t.Errorf("a crash: %d of 10 are left, %v", r.size(), err)
	}
}

func presetRestart(t *testing.T, path, says string) {
	says = strings.TrimPrefix(says, "2 s and ")
	epochs, ops := 0, 0
	if says != "nothing" {
		words := strings.Fields(says)
		epochs, _ = strconv.Atoi(words[0])
		if len(words) == 5 {
			ops, _ = strconv.Atoi(words[3])
		}
	}
	for _, behind := range []bool{false, true} { // the disk that is allowed, and one commit further back
		r := newPresetRig(t, path)
		image := r.dev.Snapshot()
		deliver := 0
		if r.o.commitOrder == "parallel" {
			deliver++
		}
		if behind {
			deliver++
		}
		step := func() {
			if deliver > 0 && r.counter.Deliver() {
				deliver--
			}
		}
		if r.level == volume.LevelFresh {
			for range deliver {
				r.set(func() { r.counter.Deliver() })
			}
			ops = 1 // each of them is an epoch
		} else {
			for r.set(step) {
			}
			if want := (epochs + map[bool]int{true: 1}[behind]) * ops; r.n != want {
				t.Errorf("%d mutations until they were held, want %d", r.n, want)
			}
		}
		err := r.crash(image)
		switch {
		case behind && !errors.Is(err, volume.ErrRollback):
			t.Errorf("a disk further back than it says: %v", err)
		case !behind && err != nil:
			t.Errorf("the disk that it says may be put back: %v", err)
		case !behind && (r.size() != 0 || r.n != epochs*ops):
			t.Errorf("%d acknowledged, %d left; it says that %d may be lost", r.n, r.size(), epochs*ops)
		}
	}
}
