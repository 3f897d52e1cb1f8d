package streams_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/streams"
	"cvmstore/volume"
)

// Producers, consumers, groups and trims, and the power fails: what is there afterwards must be the state after one of the
// commands, none before the last that was acknowledged. So an append or an acknowledgement is there, in order, once.

const crashKeys = 2

// state writes down all that there is: entries, and groups with what is pending.
func (r *rig) state() string {
	r.tb.Helper()
	var b strings.Builder
	for i := range crashKeys {
		key := fmt.Sprint("s", i)
		err := r.do(0, bs(key), func(t *keyspace.Tx) error {
			list, err := streams.Range(t, []byte(key), streams.RangeOptions{To: streams.IDMax})
			if err != nil {
				return err
			}
			info, ok, err := streams.Stat(t, []byte(key))
			if err != nil {
				return err
			}
			info.Leaves = 0
			fmt.Fprintf(&b, "%s %v %+v\n", key, ok, info)
			for _, e := range list {
				fmt.Fprintf(&b, " %s%s\n", e.ID, text(e.Fields))
			}
			groups, _, err := streams.Groups(t, []byte(key), 0)
			for _, g := range groups {
				fmt.Fprintf(&b, " group %s %s read %d pending %d %v\n", g.Name, g.Last, g.Read, g.Pending, g.List)
				for _, x := range g.Consumers {
					fmt.Fprintf(&b, "  %s %v\n", x.Name, x.List)
				}
			}
			return err
		})
		if err != nil {
			r.tb.Fatal(err)
		}
	}
	return b.String()
}

// step does one random command.
func (r *rig) step(rnd *rand.Rand, next *streams.ID) error {
	key := fmt.Sprint("s", rnd.IntN(crashKeys))
	group, who := []byte(fmt.Sprint("g", rnd.IntN(2))), []byte(fmt.Sprint("c", rnd.IntN(3)))
	k := []byte(key)
	from := streams.ID{MS: next.MS - min(next.MS, uint64(rnd.IntN(30)))}
	r.clock.advance(int64(rnd.IntN(3)))
	n := rnd.IntN(100)
	err := r.do(0, bs(key), func(t *keyspace.Tx) (err error) {
		some := func(count int) (ids []streams.ID) {
			list, err := streams.Range(t, k, streams.RangeOptions{From: from, To: streams.IDMax, Count: count})
			if err != nil {
				return nil // it is on the device only: never mind
			}
			for _, e := range list {
				ids = append(ids, e.ID)
			}
			return ids
		}
		switch {
		case n < 40:
			id := streams.ID{MS: next.MS + 1}
			o := streams.AddOptions{ID: id}
			if rnd.IntN(4) == 0 {
				o.Trim = streams.Trim{By: streams.TrimMaxLen, MaxLen: uint64(rnd.IntN(20))}
			}
			_, _, err = streams.Add(t, k, o, bs("n", fmt.Sprint(id.MS), "pad", strings.Repeat("p", rnd.IntN(300))))
			if err == nil {
				*next = id
			}
		case n < 48:
			_, err = streams.Delete(t, k, some(1+rnd.IntN(3)))
		case n < 50:
			_, err = streams.XTrim(t, k, streams.Trim{By: streams.TrimMaxLen, MaxLen: uint64(rnd.IntN(10))})
		case n < 56:
			err = streams.CreateGroup(t, k, group, streams.GroupOptions{ID: from, Read: -1, MakeStream: true})
		case n < 72:
			var c streams.Change
			if _, c, err = streams.Deliver(t, k, group, who, 1+rnd.IntN(4), rnd.IntN(5) == 0); err == nil {
				err = streams.Apply(t, c)
			}
		case n < 82:
			_, err = streams.Ack(t, k, group, some(3))
		case n < 86:
			_, err = streams.Claim(t, k, group, who, some(3), streams.ClaimOptions{Delivered: t.Now(), Count: -1, Force: rnd.IntN(2) == 0})
		case n < 90:
			_, _, _, err = streams.AutoClaim(t, k, group, who, from, 3, streams.ClaimOptions{Delivered: t.Now(), Count: -1})
		case n < 92:
			_, err = streams.DestroyGroup(t, k, group)
		case n < 94:
			_, err = streams.DeleteConsumer(t, k, group, who)
		case n < 96:
			err = streams.SetGroup(t, k, group, streams.GroupOptions{ID: from, Read: 3})
		case n == 96:
			_, err = t.Del(bs(key))
		default:
			_, err = streams.CreateConsumer(t, k, group, who)
		}
		return err
	})
	for _, usual := range []error{streams.ErrNoGroup, streams.ErrBusyGroup, streams.ErrNoKey} {
		if errors.Is(err, usual) {
			return nil
		}
	}
	return err
}

func TestPowerCutsLoseNothingAcknowledged(t *testing.T) {
	cuts := 2000
	if testing.Short() {
		cuts = 150
	}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { powerCuts(t, seed, cuts/8) })
	}
}

func powerCuts(t *testing.T, seed uint64, cuts int) {
	rnd := rand.New(rand.NewPCG(seed, 9))
	r := newRig(t)
	r.volume = volume.Options{SegmentBlocks: 16}
	r.open()
	next := streams.ID{MS: 1}
	states := []string{r.state()} // those that may be found
	for cut := range cuts {
		// One life: at a random write of it the power fails.
		left := 1 + rnd.IntN(60)
		r.dev.SetFault(func(q memdev.Request) memdev.Fault {
			if q.Op != device.OpWrite && q.Op != device.OpFlush {
				return memdev.Fault{}
			}
			if left--; left >= 0 {
				return memdev.Fault{}
			}
			return memdev.Fault{Err: errors.New("power fails"), Land: []memdev.Landing{memdev.LandNone, memdev.LandTorn, memdev.LandAll}[rnd.IntN(3)]}
		})
		for range 1 + rnd.IntN(120) {
			if r.step(rnd, &next) != nil {
				break
			}
			states = append(states, r.state())
			if rnd.IntN(3) == 0 {
				applied, _, _ := r.v.Watermarks()
				level := []volume.Level{volume.LevelDurable, volume.LevelFresh}[rnd.IntN(2)]
				if r.v.Wait(context.Background(), applied, level) != nil {
					break
				}
				states = states[len(states)-1:]
			}
			if rnd.IntN(10) == 0 {
				if _, err := r.v.Compact(); err != nil && !errors.Is(err, volume.ErrBusy) {
					break
				}
			}
		}
		r.dev.SetFault(nil)
		r.dev.PowerCut(rnd)
		_ = r.v.Close(context.Background())
		if err := r.tryOpen(); err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		got := r.state()
		ok := false
		for _, s := range states {
			ok = ok || s == got
		}
		if !ok {
			t.Fatalf("cut %d: found\n%s\nwhich is none of %d states, the first\n%s\nthe last\n%s", cut, got, len(states), states[0], states[len(states)-1])
		}
		states = []string{got}
	}
}
