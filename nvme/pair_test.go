package nvme

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"cvmstore/ioengine/device"
)

// heap is DMA in the heap. Addresses of pages are made up; scattered ones do not follow each other.
type heap struct {
	next    uint64
	scatter bool
}

func (h *heap) Alloc(_ Purpose, n int) (Memory, error) {
	pages := (n + PageSize - 1) / PageSize
	raw := make([]byte, (pages+1)*PageSize)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (PageSize - 1)
	m := Memory{Bytes: raw[skip : skip+pages*PageSize : skip+pages*PageSize]}
	for range pages {
		h.next += PageSize
		if h.scatter {
			h.next += PageSize
		}
		m.Pages = append(m.Pages, h.next)
	}
	return m, nil
}

func (h *heap) Free(Memory) {}

func (h *heap) Kind() string { return "heap" }

func mustPair(t testing.TB, depth int) *pair {
	t.Helper()
	p, err := newPair(&heap{}, 1, depth, PurposeSubmission, PurposeCompletion)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func post(p *pair, at uint32, cid, sqid uint16, phase, status uint64) {
	p.cq[at].high = uint64(sqid)<<16 | uint64(cid)<<32 | phase<<48 | status<<49
}

// A ring goes around many times, commands complete in any order, and identifiers in flight never repeat.
func TestPairGoesAround(t *testing.T) {
	for _, depth := range []int{1, 2, 3, 7, 8, 100, depthMax} {
		p := mustPair(t, depth)
		rng := rand.New(rand.NewPCG(uint64(depth), 0))
		inflight := map[uint16]bool{}
		tail, phase := uint32(0), uint64(1)
		for range 20 * depth {
			for n := rng.IntN(depth + 1); n > 0 && len(p.free) > 0; n-- {
				i, tr := p.begin()
				if inflight[tr.cid] || tr.cid == 0xffff || p.trackers[i].cid != tr.cid {
					t.Fatalf("depth %d: cid %#x", depth, tr.cid)
				}
				inflight[tr.cid] = true
				p.push(&command{uint64(tr.cid)})
			}
			for cid := range inflight {
				if rng.IntN(3) == 0 {
					continue
				}
				post(p, tail, cid, 1, phase, 0)
				if tail++; tail == uint32(len(p.cq)) {
					tail, phase = 0, phase^1
				}
				c, tr, err := p.take()
				if err != nil || tr == nil || c.cid != cid {
					t.Fatalf("depth %d: took %+v for %#x: %v", depth, c, cid, err)
				}
				p.end(c)
				delete(inflight, cid)
			}
			if p.inflight() != len(inflight) {
				t.Fatalf("%d in flight, not %d", p.inflight(), len(inflight))
			}
		}
	}
}

// Whatever stands in the completion ring: no panic, no tracker given back twice, at most as many completions as commands.
func FuzzCompletions(f *testing.F) {
	f.Add([]byte{}, uint8(3), uint8(3))
	f.Add(bytes.Repeat([]byte{0, 0, 1, 0, 8, 0, 1, 0}, 20), uint8(4), uint8(2))
	f.Add(bytes.Repeat([]byte{0xff}, 200), uint8(7), uint8(7))
	f.Fuzz(func(t *testing.T, b []byte, depth, commands uint8) {
		p := mustPair(t, 1+int(depth))
		sent := map[uint16]bool{}
		for range min(int(commands), len(p.trackers)) {
			_, tr := p.begin()
			sent[tr.cid] = true
			p.push(&command{})
		}
		for i := range p.cq {
			var word [16]byte
			copy(word[:], b[min(len(b), 16*i):])
			p.cq[i].low = binary.LittleEndian.Uint64(word[:])
			p.cq[i].high = binary.LittleEndian.Uint64(word[8:])
		}
		budget := p.inflight()
		for range budget {
			c, tr, err := p.take()
			if err != nil {
				if !errors.Is(err, ErrProtocol) {
					t.Fatal(err)
				}
				return
			}
			if tr == nil {
				break
			}
			if c.sqid != 1 || !sent[c.cid] {
				t.Fatalf("accepted %+v", c)
			}
			delete(sent, c.cid)
			_ = c.status.err()
			p.end(c)
		}
		if p.inflight() != len(sent) {
			t.Fatalf("%d in flight, %d not completed", p.inflight(), len(sent))
		}
		_ = p.tooMany()
	})
}

// Lists describe exactly the pages of the buffer, whatever its size and place.
func TestPRPsDescribeTheBuffer(t *testing.T) {
	for _, scatter := range []bool{false, true} {
		h := &heap{scatter: scatter}
		for _, most := range []int{1, 2, 3, 8, 32, 500, transferBlocksMax} {
			l, err := newLists(h, 20, most)
			if err != nil {
				t.Fatal(err)
			}
			m, _ := h.Alloc(PurposeBuffers, 2*transferBlocksMax*PageSize)
			r := &region{memory: m, linear: m.contiguous(len(m.Bytes))}
			if r.linear == scatter {
				t.Fatal("scattered memory is linear")
			}
			for n := 1; n <= most; n += 1 + n/7 {
				for _, first := range []int{0, 1, transferBlocksMax} {
					for _, tracker := range []uint16{0, 7, 19} {
						var c command
						l.describe(&c, tracker, r, first, n)
						if err := sameSpan(&c, &l, tracker, m.Pages[first:first+n]); err != nil {
							t.Fatalf("%d pages of at most %d from %d, tracker %d, scattered %v: %v", n, most, first, tracker, scatter, err)
						}
					}
				}
			}
		}
	}
}

func sameSpan(c *command, l *prpLists, tracker uint16, want []uint64) error {
	if c[3] != want[0] {
		return fmt.Errorf("PRP1 %#x", c[3])
	}
	switch len(want) {
	case 1:
		if c[4] != 0 {
			return fmt.Errorf("PRP2 %#x", c[4])
		}
	case 2:
		if c[4] != want[1] {
			return fmt.Errorf("PRP2 %#x", c[4])
		}
	default:
		list, address := l.list(tracker)
		page := (address - l.memory.Pages[0]) / PageSize
		if c[4] != address || int(address%PageSize)+8*(len(want)-1) > PageSize || page >= uint64(2*len(l.memory.Pages)) {
			return fmt.Errorf("PRP2 %#x, list at %#x", c[4], address)
		}
		for i, a := range want[1:] {
			if list[i] != a {
				return fmt.Errorf("entry %d is %#x, not %#x", i, list[i], a)
			}
		}
	}
	return nil
}

// Buffers never overlap, come back whole, and are found again from any address inside.
func TestBuffers(t *testing.T) {
	b := newBuffers(&heap{})
	rng := rand.New(rand.NewPCG(1, 2))
	live := map[*byte][]byte{}
	for round := range 600 {
		if len(live) < 40 && rng.IntN(2) == 0 {
			n := device.BlockCount(1 + rng.IntN(1+rng.IntN(600)))
			buf, err := b.alloc(n)
			if err != nil || len(buf) != n.Bytes() {
				t.Fatal(len(buf), err)
			}
			for i, v := range buf {
				if v != 0 {
					t.Fatalf("byte %d of a new buffer is %#x", i, v)
				}
			}
			for i := range buf {
				buf[i] = byte(round) | 1
			}
			live[&buf[0]] = buf
			r := b.find(addressOf(buf) + uintptr(len(buf)) - 1)
			if r == nil || addressOf(buf) < r.start {
				t.Fatal("a buffer is not found")
			}
			continue
		}
		for at, buf := range live {
			if bytes.Count(buf, buf[:1]) != len(buf) {
				t.Fatal("buffers overlap")
			}
			b.release(buf)
			delete(live, at)
			break
		}
	}
	for _, buf := range live {
		b.release(buf)
	}
	for r, list := range b.free {
		if len(list) != 1 || list[0].n != len(r.memory.Pages) {
			t.Errorf("extents of an empty arena: %v of %d", list, len(r.memory.Pages))
		}
	}
	if b.find(0) != nil || b.find(^uintptr(0)) != nil {
		t.Error("an address that is nobody's was found")
	}
}

func TestStoresAndLoads(t *testing.T) {
	var a uint32
	var b uint64
	StoreRegister32(&a, 0x89abcdef)
	StoreRegister64(&b, 0x0123456789abcdef)
	if LoadRegister32(&a) != 0x89abcdef || LoadRegister64(&b) != 0x0123456789abcdef || a != 0x89abcdef || b != 0x0123456789abcdef {
		t.Errorf("%#x, %#x", a, b)
	}
}
