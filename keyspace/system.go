package keyspace

import (
	"encoding/binary"
	"fmt"
	"slices"

	"cvmstore/volume"
)

// System holds what the server keeps in the volume beside the databases: functions, users. An item is a number and some bytes; it
// is sealed, counted into the multiset hash and recovered like a key, and FLUSHALL leaves it alone. Items stay in memory, and
// are guarded by all stripes: who reads or writes them has begun with BeginAll, or looks before clients are served.
type System struct {
	s     *Space
	items map[uint16]*systemItem
}

type systemItem struct {
	value   []byte
	counter volume.Counter
	place   volume.Place
	size    int
}

// KindSystem is the kind of a system item's record:
//
//	0  2  number
//	2  6  zero
//	8  .. value, the rest; an empty one is an item that is not there
//
// The highest counter wins. An item that was emptied stays, so no older record of it comes back.
const KindSystem volume.Kind = 64

const systemHeader = 8

func newSystem(s *Space) *System {
	y := &System{s: s}
	s.RegisterElements(KindSystem, KindSystem, y)
	return y
}

// System returns the space's system items.
func (s *Space) System() *System { return s.system }

// SystemPartMax is the longest value of an item in this space's volume.
func (t *Tx) SystemPartMax() int { return min(t.MaxRecord()-systemHeader, 256<<10) }

// Get returns an item's value, which is not to be changed; nil if it is not there. With a transaction, the reply depends on it.
func (y *System) Get(t *Tx, number uint16) []byte {
	i := y.items[number]
	if i == nil {
		return nil
	}
	if t != nil {
		t.see(i.counter)
	}
	return i.value
}

// SystemSize is what an item takes in a batch.
func SystemSize(n int) int { return systemHeader + n }

// Put sets an item. It takes SystemSize of the reservation.
func (y *System) Put(t *Tx, number uint16, value []byte) {
	t.needAll()
	size := systemHeader + len(value)
	payload, c, at := t.append(KindSystem, size)
	binary.LittleEndian.PutUint64(payload, uint64(number))
	copy(payload[systemHeader:], value)
	if old := y.items[number]; old != nil {
		t.w.l.Remove(y.hash(t.w.v, number, old.counter))
		t.w.l.Dead(old.place, old.size)
	}
	t.w.l.Add(y.hash(t.w.v, number, c))
	y.items[number] = &systemItem{slices.Clone(value), c, at, size}
	t.see(c)
}

// hash is the multiset item: 3, zero, the number; the counter stands for the value.
func (y *System) hash(v *volume.Volume, number uint16, c volume.Counter) volume.Sum {
	return v.ItemHash(volume.StoreKeys, binary.LittleEndian.AppendUint16([]byte{itemSystem, 0}, number), c)
}

// Meta implements Elements: recovery needs all of it.
func (y *System) Meta(_ volume.Kind, p []byte) int { return len(p) }

// Reset implements Elements.
func (y *System) Reset() { y.items = map[uint16]*systemItem{} }

func decodeSystem(p []byte) (number uint16, value []byte, err error) {
	if len(p) < systemHeader || binary.LittleEndian.Uint64(p)>>16 != 0 {
		return 0, nil, fmt.Errorf("system item: %w", errRecord)
	}
	return binary.LittleEndian.Uint16(p), p[systemHeader:], nil
}

// Replay implements Elements.
func (y *System) Replay(_ *volume.Volume, r volume.Record) error {
	number, value, err := decodeSystem(r.Payload)
	if err != nil {
		return err
	}
	y.s.replayMu.Lock()
	defer y.s.replayMu.Unlock()
	old := y.items[number]
	if old == nil || r.Counter > old.counter || r.Counter == old.counter && r.Place > old.place {
		y.items[number] = &systemItem{slices.Clone(value), r.Counter, r.Place, r.Size}
	}
	return nil
}

// Settle implements Elements.
func (y *System) Settle(v *volume.Volume, d *volume.Delta) error {
	for number, i := range y.items {
		d.Add(y.hash(v, number, i.counter))
		d.Live(i.place, i.size)
	}
	return nil
}

// guarded calls f with the item of a record, if the record is the one that counts, under a lock that writers hold too.
func (y *System) guarded(r volume.Record, f func(i *systemItem)) {
	number, _, err := decodeSystem(r.Payload)
	if err != nil {
		return
	}
	y.s.WithStripe(0, func() {
		if i := y.items[number]; i != nil && i.counter == r.Counter && i.place == r.Place {
			f(i)
		}
	})
}

// Live implements Elements.
func (y *System) Live(_ *volume.Volume, r volume.Record) (live bool) {
	y.guarded(r, func(*systemItem) { live = true })
	return live
}

// Move implements Elements.
func (y *System) Move(v *volume.Volume, r volume.Record) (moved bool, err error) {
	y.guarded(r, func(i *systemItem) {
		var t *volume.Tx
		if t, err = v.Begin(r.Size, 1, volume.ClassMove); err != nil {
			return
		}
		payload, at := t.Append(volume.StoreKeys, KindSystem, r.Counter, r.Size)
		copy(payload, r.Payload)
		i.place = at
		t.Dead(r.Place, r.Size)
		t.End()
		moved = true
	})
	return moved, err
}
