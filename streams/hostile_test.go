package streams_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cvmstore/ioengine/device"
	"cvmstore/keyspace"
	"cvmstore/streams"
	"cvmstore/volume"
)

// The host serves something else at recovery than what was written. Volume's own checks refuse that before a store sees it; here
// they are passed over: a store between volume and keyspace changes which records arrive, and the stream's own chain must say so.

// liar passes records on as edit says.
type liar struct {
	*keyspace.Space
	records []volume.Record // of streams, in the order in which they came
}

func (l *liar) Replay(v *volume.Volume, r volume.Record) error {
	if r.Kind < streams.KindEntry || r.Kind > streams.KindAck {
		return l.Space.Replay(v, r)
	}
	r.Payload = slices.Clone(r.Payload)
	l.records = append(l.records, r)
	return nil
}

// recover opens the volume with the records that edit leaves.
func (r *rig) recoverEdited(edit func([]volume.Record) []volume.Record) error {
	r.tb.Helper()
	r.s = keyspace.New(r.space)
	streams.New(r.s, 0)
	l := &settling{liar: liar{Space: r.s}, edit: edit}
	o := r.volume
	o.Device, o.Counter, o.Keys, o.Clock = r.dev, r.counter, r.keys, &r.clock
	o.Stores = map[volume.Store]volume.Replayer{volume.StoreKeys: l}
	v, err := volume.Open(r.tb.Context(), o)
	if err == nil {
		r.v = v
		r.s.Attach(v)
	}
	return err
}

type settling struct {
	liar
	edit func([]volume.Record) []volume.Record
}

func (l *settling) Reset() {
	l.records = nil
	l.Space.Reset()
}

func (l *settling) Settle(v *volume.Volume, d *volume.Delta) error {
	for _, r := range l.edit(slices.Clone(l.records)) {
		if err := l.Space.Replay(v, r); err != nil {
			return err
		}
	}
	return l.Space.Settle(v, d)
}

// hostileStream has entries 1 to 20; 7 and 8 are deleted, 1 and 2 trimmed, 19 and 20 came after the last header. Another stream has
// entries of the same IDs.
func hostileStream(t *testing.T) *rig {
	r := newRig(t)
	r.space.CacheBytes = 0
	r.open()
	for i := range 18 {
		r.add("s", fmt.Sprint(i+1), streams.AddOptions{})
		r.add("other", fmt.Sprint(i+1), streams.AddOptions{})
		if i == 10 {
			r.trim("s", streams.Trim{By: streams.TrimMaxLen, MaxLen: 10})
		}
	}
	r.del("s", "7", "8")
	r.add("s", "19", streams.AddOptions{})
	r.add("s", "20", streams.AddOptions{})
	r.close()
	return r
}

// entry finds the record of an entry: of the first stream, or of the other one.
func entry(t *testing.T, list []volume.Record, ms int, other bool) int {
	t.Helper()
	var first []byte
	for i, r := range list {
		if first == nil {
			first = r.Payload[:8]
		}
		if r.Kind == streams.KindEntry && int(r.Payload[16]) == ms && (string(r.Payload[:8]) == string(first)) != other {
			return i
		}
	}
	t.Fatalf("no record of entry %d", ms)
	return 0
}

func last(list []volume.Record, kind volume.Kind, skip int) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Kind == kind && string(list[i].Payload[:8]) == string(list[0].Payload[:8]) {
			if skip--; skip < 0 {
				return i
			}
		}
	}
	return -1
}

func TestRecoveryRefusesAChangedChain(t *testing.T) {
	type edit = func(t *testing.T, list []volume.Record) []volume.Record
	drop := func(ms int) edit {
		return func(t *testing.T, list []volume.Record) []volume.Record {
			i := entry(t, list, ms, false)
			return slices.Delete(list, i, i+1)
		}
	}
	cases := map[string]struct {
		edit edit
		want string // what the refusal names; empty: it is accepted
	}{
		"nothing":           {func(_ *testing.T, l []volume.Record) []volume.Record { return l }, ""},
		"a trimmed entry":   {drop(1), ""},
		"a deleted entry":   {drop(7), ""},
		"the first entry":   {drop(3), "entry 4-0"},
		"an entry":          {drop(10), "entry 11-0"},
		"before a gap":      {drop(6), "deleted entries"},
		"behind a gap":      {drop(9), "entry 10-0"},
		"the header's last": {drop(18), "entry 19-0"},
		"the gap": {func(_ *testing.T, l []volume.Record) []volume.Record {
			i := last(l, streams.KindGap, 0)
			return slices.Delete(l, i, i+1)
		}, "entries behind"},
		"the header": {func(_ *testing.T, l []volume.Record) []volume.Record {
			return slices.DeleteFunc(l, func(r volume.Record) bool { return r.Kind == streams.KindHead })
		}, "header is missing"},
		"the newest header": {func(_ *testing.T, l []volume.Record) []volume.Record {
			i := last(l, streams.KindHead, 0)
			return slices.Delete(l, i, i+1)
		}, "entries behind 20-0"},
		"an entry twice": {func(t *testing.T, l []volume.Record) []volume.Record {
			return append(l, l[entry(t, l, 10, false)])
		}, ""}, // as compaction leaves it: the same counter counts once
		"an entry again, with a counter of its own": {func(t *testing.T, l []volume.Record) []volume.Record {
			r := l[entry(t, l, 10, false)]
			r.Counter = l[len(l)-1].Counter + 1
			return append(l, r)
		}, "entry 10-0"},
		"an entry in place of a later one": {func(t *testing.T, l []volume.Record) []volume.Record {
			i, j := entry(t, l, 10, false), entry(t, l, 12, false)
			l[j].Payload = l[i].Payload
			return l
		}, "entry 10-0"},
		"two entries exchanged": {func(t *testing.T, l []volume.Record) []volume.Record {
			i, j := entry(t, l, 10, false), entry(t, l, 12, false)
			l[i].Payload, l[j].Payload = l[j].Payload, l[i].Payload
			return l
		}, "entry 12-0"},
		"another stream's entry": {func(t *testing.T, l []volume.Record) []volume.Record {
			i, j := entry(t, l, 10, false), entry(t, l, 10, true)
			l[i].Payload = l[j].Payload
			return l
		}, "entry 11-0"},
		"another ID": {func(t *testing.T, l []volume.Record) []volume.Record {
			i := entry(t, l, 10, false)
			l[i].Payload = slices.Clone(l[i].Payload)
			l[i].Payload[16] = 2
			return l
		}, "entry 2-0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := hostileStream(t)
			err := r.recoverEdited(func(l []volume.Record) []volume.Record { return c.edit(t, l) })
			switch {
			case c.want == "" && err != nil && name != "nothing" && strings.Contains(err.Error(), "multiset"):
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "stream ")):
				t.Fatalf("it was to be refused with %q: %v", c.want, err)
			}
		})
	}
}

// The tail is cut at each entry: up to the header's last entry the stream says so; the entries behind it are the volume's chain and
// multiset hash to miss.
func TestRecoveryRefusesACutTail(t *testing.T) {
	for n := 3; n <= 20; n++ {
		r := hostileStream(t)
		err := r.recoverEdited(func(l []volume.Record) []volume.Record {
			return slices.DeleteFunc(l, func(x volume.Record) bool {
				return x.Kind == streams.KindEntry && string(x.Payload[:8]) == string(l[0].Payload[:8]) && int(x.Payload[16]) >= n
			})
		})
		if err == nil {
			t.Fatalf("cut before entry %d: accepted", n)
		}
		if n <= 18 && n != 7 && n != 8 && !strings.Contains(err.Error(), "stream ") {
			t.Fatalf("cut before entry %d: %v", n, err)
		}
	}
}

// The device serves another block than was written while the server runs: reading an entry answers with an error that names it.
func TestReadingNamesWhatIsDamaged(t *testing.T) {
	r := newRig(t).open()
	pad := strings.Repeat("x", 4096)
	for i := range 12 {
		r.add("s", fmt.Sprint(i+1), streams.AddOptions{}, "pad", pad)
	}
	r.settle()
	r.reopen() // the cache is empty
	whole := r.dev.Snapshot()
	found := 0
	for lba := range device.LBA(r.dev.Info().Blocks) {
		old := r.dev.Peek(lba)
		if strings.Trim(string(old), "\x00") == "" {
			continue
		}
		r.dev.FlipBit(lba, 5000)
		_, err := r.tryAll("s")
		r.dev.Restore(whole)
		if err == nil {
			continue
		}
		if !errors.Is(err, volume.ErrCorrupt) || !strings.Contains(err.Error(), "entry ") || !strings.Contains(err.Error(), "key #") {
			t.Fatalf("block %d: %v", lba, err)
		}
		found++
	}
	if found < 12 {
		t.Fatalf("%d blocks that hold entries", found)
	}
	if err := r.v.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}
