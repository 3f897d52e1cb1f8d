package hostile_test

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/internal/hostile"
	"cvmstore/nvme"
	"cvmstore/seal"
	"cvmstore/volume"
)

// toy is the smallest store on a volume: numbers to strings.
type toy struct {
	mu    sync.Mutex // recovery reads several summaries at once
	items map[uint32]toyItem
}

type toyItem struct {
	value   string
	counter volume.Counter
	place   volume.Place
	size    int
}

func (s *toy) hash(v *volume.Volume, key uint32) volume.Sum {
	return v.ItemHash(volume.StoreKeys, binary.BigEndian.AppendUint32(nil, key), s.items[key].counter)
}

func (s *toy) Reset() { s.items = map[uint32]toyItem{} }

// Meta implements volume.Replayer: recovery needs all of a record.
func (s *toy) Meta(_ volume.Kind, payload []byte) int { return len(payload) }

func (s *toy) Replay(_ *volume.Volume, r volume.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := binary.BigEndian.Uint32(r.Payload)
	if old := s.items[key]; r.Counter > old.counter || r.Counter == old.counter && r.Place > old.place {
		s.items[key] = toyItem{string(r.Payload[4:]), r.Counter, r.Place, r.Size}
	}
	return nil
}

func (s *toy) Settle(v *volume.Volume, d *volume.Delta) error {
	for k, it := range s.items {
		d.Add(s.hash(v, k))
		d.Live(it.place, it.size)
	}
	return nil
}

func (s *toy) Live(_ *volume.Volume, r volume.Record) bool {
	it, ok := s.items[binary.BigEndian.Uint32(r.Payload)]
	return ok && it.place == r.Place
}

func (s *toy) Move(v *volume.Volume, r volume.Record) (bool, error) {
	if !s.Live(v, r) {
		return false, nil
	}
	tx, err := v.Begin(r.Size, 1, volume.ClassMove)
	if err != nil {
		return false, err
	}
	p, at := tx.Append(r.Store, r.Kind, r.Counter, r.Size)
	copy(p, r.Payload)
	it := s.items[binary.BigEndian.Uint32(p)]
	it.place = at
	s.items[binary.BigEndian.Uint32(p)] = it
	tx.Dead(r.Place, r.Size)
	tx.End()
	return true, nil
}

// server is a volume on an NVMe device, with the counter and the key that outlive it.
type server struct {
	t       *testing.T
	counter *epochtest.Memory
	keys    *seal.Keys
	dev     *nvme.Device
	v       *volume.Volume
	store   toy
	acked   map[uint32]string
}

func newServer(t *testing.T, store byte) *server {
	t.Helper()
	keys, err := seal.NewKeys([16]byte{store}, seal.SuiteAEGIS, [32]byte{store})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, counter: epochtest.NewMemory(epochtest.Options{}), keys: keys, acked: map[uint32]string{}}
	if err := s.counter.Create(context.Background(), epoch.StoreID(keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	return s
}

// start opens the device behind c and the volume on it.
func (s *server) start(c *hostile.Controller) (err error) {
	s.t.Helper()
	s.dev = open(s.t, c, nvme.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s.store.Reset()
	s.v, err = volume.Open(ctx, volume.Options{
		Device: s.dev, Counter: s.counter, Keys: s.keys, SegmentBlocks: 16,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: &s.store},
	})
	return err
}

func (s *server) write(key uint32, value string) error {
	tx, err := s.v.Begin(4+len(value), 1, volume.ClassNormal)
	if err != nil {
		return err
	}
	c := tx.Next()
	p, at := tx.Append(volume.StoreKeys, 1, c, 4+len(value))
	binary.BigEndian.PutUint32(p, key)
	copy(p[4:], value)
	if old, ok := s.store.items[key]; ok {
		tx.Remove(s.store.hash(s.v, key))
		tx.Dead(old.place, old.size)
	}
	s.store.items[key] = toyItem{value, c, at, len(p)}
	tx.Add(s.store.hash(s.v, key))
	end := tx.End()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.v.Wait(ctx, end, volume.LevelFresh); err != nil {
		return err
	}
	s.acked[key] = value
	return nil
}

func (s *server) fill(n int) {
	s.t.Helper()
	for i := range n {
		if err := s.write(uint32(i%10), string(make([]byte, 100+i))+"value"); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := s.v.Close(ctx)
	return errors.Join(err, s.dev.Close())
}

func (s *server) values() map[uint32]string {
	m := map[uint32]string{}
	for k, it := range s.store.items {
		m[k] = it.value
	}
	return m
}

func refusedAs(err error) bool {
	return errors.Is(err, volume.ErrRollback) || errors.Is(err, volume.ErrCorrupt)
}

// The whole way: a volume on the driver on an honest controller, with a power cut before it is opened again.
func TestVolumeOnNVMe(t *testing.T) {
	for seed := range uint64(6) {
		c := hostile.New(hostile.Options{
			Seed: seed, Shuffle: seed%2 == 1, Scatter: seed%3 == 1, LogicalBytes: []int{512, 4096}[seed%2], MDTS: uint8(seed),
			Pairs: []int{1, 2, 16}[seed%3], Attacks: []hostile.Attack{hostile.TornWrite},
		})
		s := newServer(t, 1)
		for range 3 {
			if err := s.start(c); err != nil {
				t.Fatal(err, c.Replay())
			}
			if !maps.Equal(s.values(), s.acked) {
				t.Fatalf("after a restart: %d values of %d, or others (%s)", len(s.store.items), len(s.acked), c.Replay())
			}
			s.fill(30)
			c.PowerCut()
			if err := s.stop(); err != nil {
				t.Fatal(err, c.Replay())
			}
		}
	}
}

// Rows 12 and 11: a disk that acknowledged and forgot, or that is an older copy, is refused.
func TestVolumeNoticesWhatIsLost(t *testing.T) {
	for _, a := range []hostile.Attack{hostile.DropWrite, hostile.DropFlush, hostile.OldVersion, hostile.OtherVolume} {
		made := 0
		for seed := range uint64(5) {
			c := hostile.New(hostile.Options{Seed: seed, Every: 2, Attacks: []hostile.Attack{a}})
			s := newServer(t, 1)
			if err := s.start(c); err != nil {
				t.Fatal(err)
			}
			s.fill(20)
			c.Arm(a == hostile.DropWrite || a == hostile.DropFlush)
			s.fill(20)
			closed := s.stop()
			c.PowerCut()
			c.Arm(a == hostile.OldVersion || a == hostile.OtherVolume)
			err := s.start(c)
			made += c.Made(a)
			switch {
			case err == nil && !maps.Equal(s.values(), s.acked):
				t.Fatalf("%v: other values than were acknowledged (%s)", a, c.Replay())
			case err != nil && !refusedAs(err):
				t.Fatalf("%v: %v (%s)", a, err, c.Replay())
			case err == nil && a == hostile.DropWrite && closed == nil:
				t.Fatalf("%v: opened without what was acknowledged (%s)", a, c.Replay())
			}
		}
		if made == 0 && a != hostile.DropFlush { // the volume writes with FUA, so there may be no flush to drop
			t.Errorf("%v was never made", a)
		}
	}
}

// Row 24: another disk under the same serial number, and a copy of ours from before.
func TestVolumeKnowsItsDevice(t *testing.T) {
	ours, theirs := newServer(t, 1), newServer(t, 2)
	mine := hostile.New(hostile.Options{Serial: "S1"})
	other := hostile.New(hostile.Options{Serial: "S1", Attacks: []hostile.Attack{hostile.OtherDevice}})
	for s, c := range map[*server]*hostile.Controller{ours: mine, theirs: other} {
		if err := s.start(c); err != nil {
			t.Fatal(err)
		}
		s.fill(10)
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
	}
	if other.Made(hostile.OtherDevice) == 0 {
		t.Fatal("never made")
	}
	if err := ours.start(other); err == nil {
		t.Fatal("another store's disk was taken for ours")
	} else if !refusedAs(err) && !errors.Is(err, volume.ErrForeign) {
		t.Fatal(err)
	}
	clone := hostile.New(hostile.Options{Serial: "S1", Disk: mine.Snapshot()})
	if err := ours.start(mine); err != nil {
		t.Fatal(err)
	}
	ours.fill(10)
	if err := ours.stop(); err != nil {
		t.Fatal(err)
	}
	if err := ours.start(clone); !errors.Is(err, volume.ErrRollback) {
		t.Fatalf("a copy from before: %v", err)
	}
	if err := ours.start(mine); err != nil {
		t.Fatalf("the right disk, after the wrong ones: %v", err)
	}
}

// Row 25.
func TestVolumeRefusesACraftedSuperblock(t *testing.T) {
	for seed := range uint64(20) {
		c := hostile.New(hostile.Options{Seed: seed, Attacks: []hostile.Attack{hostile.SuperblockCrafted}})
		s := newServer(t, 1)
		if err := s.start(c); err != nil {
			t.Fatal(err)
		}
		s.fill(5)
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		c.Arm(true)
		if err := s.start(c); err == nil || !refusedAs(err) && !errors.Is(err, volume.ErrForeign) {
			t.Fatalf("%v (%s)", err, c.Replay())
		}
		if c.Made(hostile.SuperblockCrafted) == 0 {
			t.Fatal("never made")
		}
	}
}

// What a whole volume makes of a device that fails in the middle: an error, then the acknowledged values again.
func TestVolumeAfterAFailure(t *testing.T) {
	for _, a := range []hostile.Attack{
		hostile.NeverDone, hostile.ErrorButDone, hostile.FatalStatus, hostile.CIDTwice, hostile.SQIDWrong, hostile.LateDMA, hostile.CompletionFlood,
	} {
		made := 0
		for seed := range uint64(4) {
			c := hostile.New(hostile.Options{Seed: seed, Every: 20, Attacks: []hostile.Attack{a}, Shuffle: seed%2 == 0})
			s := newServer(t, 1)
			if err := s.start(c); err != nil {
				t.Fatal(err)
			}
			s.fill(10)
			c.Arm(true)
			for i := range 200 {
				if s.write(uint32(i%10), "attacked") != nil {
					break
				}
			}
			c.Arm(false)
			made += c.Made(a)
			_ = s.stop()
			if err := s.start(c); err != nil {
				t.Fatalf("%v: %v (%s)", a, err, c.Replay())
			}
			for k, want := range s.acked {
				if got := s.store.items[k].value; got != want && got != "attacked" {
					t.Fatalf("%v: key %d lost what was acknowledged (%s)", a, k, c.Replay())
				}
			}
		}
		if made == 0 && a != hostile.LateDMA { // nobody reads in this test
			t.Errorf("%v was never made", a)
		}
	}
}
