package hostile_test

import (
	"errors"
	"fmt"
	"testing"

	"cvmstore/internal/hostile"
	"cvmstore/ioengine/device"
	"cvmstore/nvme"
)

// What must come of an attack.
const (
	refuses  = "the device is not opened"
	breaks   = "the queue fails, and the device can be opened again"
	harmless = "everything works and verifies"
	detected = "tags fail, nothing else"
	reports  = "requests end with an error, what is read verifies"
	ends     = "the queue or the device fails, nothing wrong is read before"
	special  = "a test of its own"
)

// rows is HOSTILE_DEVICE.md: each attack, and the check that stops it.
var rows = []struct {
	attack hostile.Attack
	want   string
	check  string
	error  error // of refuses and breaks
	every  int
}{
	{attack: hostile.CIDRange, want: breaks, check: "pair.take: index against the trackers", error: nvme.ErrProtocol},
	{attack: hostile.CIDTwice, want: breaks, check: "pair.take: tracker is not busy; pair.tooMany", error: nvme.ErrProtocol},
	{attack: hostile.CIDStale, want: breaks, check: "pair.take: generation in cid", error: nvme.ErrProtocol, every: 5},
	{attack: hostile.CIDNever, want: breaks, check: "pair.take: generation in cid", error: nvme.ErrProtocol},
	{attack: hostile.SQIDWrong, want: breaks, check: "pair.take: sqid", error: nvme.ErrProtocol},
	{attack: hostile.SQHeadBogus, want: harmless, check: "pair: slots counted privately"},
	{attack: hostile.CompletionChanges, want: harmless, check: "rawCompletion.read: one load; TestCompletionsChangeMeanwhile"},
	{attack: hostile.CompletionFlood, want: breaks, check: "Queue.Poll: budget; pair.tooMany", error: nvme.ErrProtocol},
	{attack: hostile.ReadNothing, want: detected, check: "poison, tag"},
	{attack: hostile.DataChanges, want: detected, check: "tag over the private copy; TestDataChangesDuringDecryption"},
	{attack: hostile.ScribbleRings, want: ends, check: "private state; pair.take"},
	{attack: hostile.RewriteCommands, want: detected, check: "nothing is read back; tag"},
	{attack: hostile.WrongBlock, want: detected, check: "associated data: place"},
	{attack: hostile.OldVersion, want: detected, check: "associated data: version; TestVolume..."},
	{attack: hostile.OtherVolume, want: detected, check: "key; TestVolume..."},
	{attack: hostile.DropWrite, want: detected, check: "found on read"},
	{attack: hostile.DropFlush, want: special, check: "TestPowerCut, TestVolume..."},
	{attack: hostile.TornWrite, want: special, check: "TestPowerCut: the tag covers the block"},
	{attack: hostile.StrideAbsurd, want: refuses, check: "capabilities.pairs", error: nvme.ErrUnusable, every: 1},
	{attack: hostile.EntriesNone, want: refuses, check: "decodeCAP", error: nvme.ErrUnusable},
	{attack: hostile.EntriesMany, want: harmless, check: "decodeCAP: clamp"},
	{attack: hostile.BarShort, want: refuses, check: "capabilities.pairs", error: nvme.ErrUnusable},
	{attack: hostile.BlockSizeAbsurd, want: refuses, check: "parseNamespace", error: nvme.ErrUnusable},
	{attack: hostile.FormatAbsurd, want: refuses, check: "parseNamespace", error: nvme.ErrUnusable},
	{attack: hostile.MetadataOn, want: refuses, check: "parseNamespace", error: nvme.ErrUnusable},
	{attack: hostile.SizeNone, want: refuses, check: "parseNamespace", error: nvme.ErrUnusable},
	{attack: hostile.SizeAbsurd, want: refuses, check: "parseNamespace: checked multiplication", error: nvme.ErrUnusable},
	{attack: hostile.TransferAbsurd, want: harmless, check: "transferBlocks: clamp"},
	{attack: hostile.GeometryChanges, want: special, check: "TestGeometryChanges"},
	{attack: hostile.EventsUnasked, want: special, check: "TestEventsUnasked"},
	{attack: hostile.LateDMA, want: special, check: "TestLateDMA"},
	{attack: hostile.NeverStops, want: special, check: "TestNeverStops"},
	{attack: hostile.MemoryOffered, want: harmless, check: "never enabled; the controller notes any write to a register that is none of ours"},
	{attack: hostile.ShadowDoorbells, want: harmless, check: "never enabled; the controller notes unknown commands"},
	{attack: hostile.NeverReady, want: refuses, check: "controller.await: deadline", error: nvme.ErrTimeout},
	{attack: hostile.NeverDone, want: special, check: "TestNeverDone"},
	{attack: hostile.NeverDoneAdmin, want: special, check: "TestNeverDoneAdmin"},
	{attack: hostile.StringsCrafted, want: harmless, check: "printable; TestStringsAreEscaped"},
	{attack: hostile.Peek, want: special, check: "TestNothingIsLeftInSharedMemory"},
	{attack: hostile.OtherDevice, want: special, check: "TestVolumeKnowsItsDevice"},
	{attack: hostile.SuperblockCrafted, want: detected, check: "tag; TestVolumeRefusesACraftedSuperblock"},
	{attack: hostile.RegistersChange, want: harmless, check: "CAP is read once; reserved bits of CSTS are masked"},
	{attack: hostile.PartialDMA, want: detected, check: "the tag covers the block"},
	{attack: hostile.ErrorButDone, want: reports, check: "the error is the caller's; volume stops writing"},
	{attack: hostile.NoCache, want: harmless, check: "flushes are sent all the same; TestFlushesWithoutACache"},
	{attack: hostile.TimesAbsurd, want: harmless, check: "decodeCAP: clamp"},
	{attack: hostile.PagesAbsurd, want: refuses, check: "decodeCAP", error: nvme.ErrUnusable},
	{attack: hostile.EntrySizesAbsurd, want: refuses, check: "parseIdentity", error: nvme.ErrUnusable},
	{attack: hostile.QueuesNone, want: refuses, check: "controller.grant"},
	{attack: hostile.QueuesMany, want: harmless, check: "controller.grant: at most what was asked"},
	{attack: hostile.FatalStatus, want: special, check: "TestFatalStatus"},
	{attack: hostile.CapabilityLoop, want: special, check: "TestCapabilityLists"},
	{attack: hostile.CapabilityOutside, want: special, check: "TestCapabilityLists"},
}

// Every row of HOSTILE_DEVICE.md has an attack, and every attack is in the table.
func TestTheTableIsComplete(t *testing.T) {
	var seen [34]bool
	in := map[hostile.Attack]bool{}
	for _, r := range rows {
		seen[r.attack.Row()] = true
		in[r.attack] = true
	}
	for row := 1; row <= 33; row++ {
		if !seen[row] {
			t.Errorf("row %d has no attack", row)
		}
	}
	for _, a := range hostile.All() {
		if !in[a] {
			t.Errorf("attack %v is not in the table", a)
		}
	}
}

func TestRows(t *testing.T) {
	for _, r := range rows {
		if r.want == special {
			continue
		}
		for seed := range uint64(8) {
			o := hostile.Options{
				Seed: seed, Attacks: []hostile.Attack{r.attack}, Every: max(r.every, 3),
				Shuffle: seed%2 == 1, Scatter: seed%4 > 1, LogicalBytes: []int{4096, 512}[seed%3%2], MDTS: uint8(4 + seed%4),
			}
			t.Run(fmt.Sprintf("row %d, %v, seed %d", r.attack.Row(), r.attack, seed), func(t *testing.T) {
				c := hostile.New(o)
				if r.want == refuses {
					d, err := nvme.Open(c, c, nvme.Options{Clock: c.Clock()})
					if d != nil || err == nil || r.error != nil && !errors.Is(err, r.error) {
						t.Fatalf("opened: %v; %s", err, c.Replay())
					}
					blameless(t, c)
				} else {
					attackRunning(t, c, r.attack, r.want, r.error)
				}
				if c.Made(r.attack) == 0 {
					t.Errorf("the attack was never made: %s", c.Replay())
				}
			})
		}
	}
}

func attackRunning(t *testing.T, c *hostile.Controller, a hostile.Attack, want string, wantErr error) {
	t.Helper()
	d := open(t, c, nvme.Options{})
	w := newWorkload(t, c, d, 1)
	w.pause = a == hostile.DataChanges
	w.run(50)
	if len(w.failed) > 0 || w.refused > 0 || w.broken != nil {
		t.Fatalf("before the attack: %s", w.outcome())
	}
	w.verified = 0
	c.Arm(true)
	w.run(400)
	for range 5 {
		w.readAll()
	}
	ok := false
	switch want {
	case harmless:
		ok = w.verified > 100 && w.refused == 0 && len(w.failed) == 0 && w.broken == nil
	case detected:
		ok = w.verified > 0 && w.refused > 0 && len(w.failed) == 0 && w.broken == nil
	case reports:
		ok = w.verified > 0 && w.refused == 0 && len(w.failed) > 0 && errors.Is(w.failed[0], nvme.ErrRefused) && w.broken == nil
	case ends:
		ok = w.broken != nil && w.refused == 0
	case breaks:
		ok = errors.Is(w.broken, wantErr) && len(w.failed) == 0
	}
	if !ok {
		t.Fatalf("not %q: %s", want, w.outcome())
	}
	c.Arm(false)
	w.close()
	if want == breaks {
		// The queue is gone, the buffers are safe: the controller was reset. Reads go on in a new queue.
		if c.Resets() == 0 {
			t.Error("the controller was not reset")
		}
		again := newWorkload(t, c, d, 2)
		again.versions = w.versions
		again.readAll()
		if again.verified == 0 || again.broken != nil || len(again.failed) > 0 {
			t.Errorf("reads after the reset: %s", again.outcome())
		}
		err := again.do(device.Request{Op: device.OpWrite, Buf: again.w[:device.BlockSize]})
		if !errors.Is(err, nvme.ErrWritesStopped) {
			t.Errorf("a write after the reset: %v", err)
		}
		again.close()
	}
	if err := d.Close(); err != nil {
		t.Errorf("close: %v (%s)", err, c.Replay())
	}
	if n := c.Held(); n != 0 {
		t.Errorf("%d pieces of shared memory are still allocated (%s)", n, c.Replay())
	}
}
