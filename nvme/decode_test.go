package nvme

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestDoorbellsLieInsideTheBar(t *testing.T) {
	for stride := range uint64(16) {
		for _, size := range []int{0, 1, 0xfff, 0x1000, 0x1004, 0x1007, 0x1008, 0x1010, 0x1fff, 0x2000, 0x4000, 1 << 20} {
			c, err := decodeCAP(1023|1<<37|stride<<32, size)
			if err != nil {
				if !errors.Is(err, ErrUnusable) {
					t.Fatal(err)
				}
				if size >= 0x1000+c.stride+4 {
					t.Errorf("a BAR of %#x bytes with a stride of %d was refused", size, c.stride)
				}
				continue
			}
			last := newDoorbell(nil, c.stride, c.pairs(size)-1, 1)
			if last.off+4 > size {
				t.Errorf("BAR of %#x bytes, stride %d: a doorbell at %#x", size, c.stride, last.off)
			}
			if next := newDoorbell(nil, c.stride, c.pairs(size), 1); next.off+4 <= size && c.pairs(size) < 1<<16 {
				t.Errorf("BAR of %#x bytes, stride %d: only %d pairs", size, c.stride, c.pairs(size))
			}
		}
	}
}

func TestCAPIsClamped(t *testing.T) {
	for to := range uint64(256) {
		c, err := decodeCAP(0xffff|1<<37|to<<24, 0x4000)
		if err != nil || c.readyTimeout < time.Second || c.readyTimeout > 30*time.Second || c.entries != depthMax+1 {
			t.Fatalf("TO %d: %+v, %v", to, c, err)
		}
	}
	for name, raw := range map[string]uint64{
		"all ones": math.MaxUint64, "zero": 0, "MQES 0": 1 << 37, "no NVM command set": 1023, "pages of 8 KiB": 1023 | 1<<37 | 1<<48,
	} {
		if _, err := decodeCAP(raw, 0x4000); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTransferIsClamped(t *testing.T) {
	for mdts := range 256 {
		n := transferBlocks(uint8(mdts))
		if n < 1 || n > transferBlocksMax || mdts > 0 && mdts < 9 && n != 1<<mdts {
			t.Errorf("MDTS %d: %d blocks", mdts, n)
		}
	}
}

func namespacePage(size uint64, formats, flbas uint8, format uint32) *[PageSize]byte {
	page := new([PageSize]byte)
	binary.LittleEndian.PutUint64(page[0:], size)
	page[25], page[26] = formats, flbas
	for at := 128; at < 384; at += 4 {
		binary.LittleEndian.PutUint32(page[at:], format)
	}
	return page
}

func TestNamespaces(t *testing.T) {
	g, err := parseNamespace(namespacePage(1000, 0, 0, 12<<16), 3)
	if err != nil || g != (Geometry{3, 1000, 4096}) {
		t.Errorf("%+v, %v", g, err)
	}
	if g, err = parseNamespace(namespacePage(1003, 63, 0x6f, 9<<16), 1); err != nil || g != (Geometry{1, 125, 512}) {
		t.Errorf("%+v, %v", g, err)
	}
	for name, page := range map[string]*[PageSize]byte{
		"no size":                namespacePage(0, 0, 0, 12<<16),
		"less than a block":      namespacePage(7, 0, 0, 9<<16),
		"2^63 bytes":             namespacePage(1<<51, 0, 0, 12<<16),
		"a product that wraps":   namespacePage(1<<52+1, 0, 0, 12<<16),
		"no such format":         namespacePage(1000, 2, 3, 12<<16),
		"blocks of 1 byte":       namespacePage(1000, 0, 0, 0),
		"blocks of 2^255 bytes":  namespacePage(1000, 0, 0, 255<<16),
		"metadata":               namespacePage(1000, 0, 0, 12<<16|8),
		"high bits of FLBAS set": namespacePage(1000, 31, 0x60, 12<<16),
	} {
		if g, err := parseNamespace(page, 1); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
}

func TestStatusHasAName(t *testing.T) {
	if err := status(0x281).err(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "unrecovered read error") {
		t.Error(err)
	}
	if status(0x4000).err() != nil {
		t.Error("do not retry alone is no error")
	}
	if err := status(0x7ff).err(); err == nil || !strings.Contains(err.Error(), "type 7, code 0xff") {
		t.Error(err)
	}
}

// Identify pages are anything. What is accepted is inside its bounds.
func FuzzIdentify(f *testing.F) {
	f.Add([]byte("\x36\x1b\x36\x1bserial\x00\x1b[2J"), uint32(1))
	page := namespacePage(1000, 0, 0, 12<<16)
	f.Add(page[:400], uint32(1))
	f.Fuzz(func(t *testing.T, b []byte, namespace uint32) {
		page := new([PageSize]byte)
		copy(page[:], b)
		if id, err := parseIdentity(page); err == nil {
			if id.TransferBlocks < 1 || id.TransferBlocks > transferBlocksMax {
				t.Errorf("%+v", id)
			}
			for _, r := range id.Model + id.Serial + id.Firmware {
				if r < ' ' || r > '~' {
					t.Errorf("%+q", id.Model+id.Serial+id.Firmware)
				}
			}
		}
		if g, err := parseNamespace(page, namespace); err == nil {
			if g.LogicalBytes != 512 && g.LogicalBytes != 4096 || g.Blocks == 0 || uint64(g.Blocks) > math.MaxInt64/4096 {
				t.Errorf("%+v", g)
			}
		}
		if all, err := parseActive(page); err == nil && len(all) > PageSize/4 {
			t.Errorf("%d namespaces", len(all))
		}
		config := new([configBytes]byte)
		copy(config[:], b)
		if all, _ := Capabilities(config); len(all) > (configBytes-configHeader)/4 {
			t.Errorf("%d capabilities", len(all))
		}
	})
}
