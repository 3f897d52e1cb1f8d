package vfio

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cvmstore/nvme"
)

// fakeIOMMU records what is mapped.
type fakeIOMMU struct {
	mapped map[uint64]int
	none   bool
	refuse error
}

func (f *fakeIOMMU) name() string { return "fake" }

func (f *fakeIOMMU) spans() ([]span, error) { return nil, nil }

func (f *fakeIOMMU) mapDMA(b []byte, iova uint64) error {
	if f.refuse != nil {
		return explainMap(len(b), f.refuse)
	}
	f.mapped[iova] = len(b)
	return nil
}

func (f *fakeIOMMU) unmapDMA(n int, iova uint64) error {
	if f.mapped[iova] != n {
		return errors.New("not mapped")
	}
	delete(f.mapped, iova)
	return nil
}

func (f *fakeIOMMU) translated() bool { return !f.none }

func (f *fakeIOMMU) close() error { return nil }

// Pieces are zeroed, never overlap, lie in what is mapped, and everything is unmapped again.
func TestDMA(t *testing.T) {
	iommu := &fakeIOMMU{mapped: map[uint64]int{}}
	d, err := newDMA(iommu, source{"pages", pagesAlloc, false})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	live := map[uint64]nvme.Memory{}
	for range 400 {
		if len(live) > 20 || len(live) > 0 && rng.IntN(3) == 0 {
			for at, m := range live {
				d.Free(m)
				delete(live, at)
				break
			}
			continue
		}
		n := 1 + rng.IntN(1+rng.IntN(3*hugeBytes))
		m, err := d.Alloc(nvme.PurposeBuffers, n)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Bytes) < n || len(m.Pages)*nvme.PageSize != len(m.Bytes) || addressOf(m.Bytes)%nvme.PageSize != 0 {
			t.Fatalf("%d bytes: %d, %d pages", n, len(m.Bytes), len(m.Pages))
		}
		inside := false
		for at, size := range iommu.mapped {
			inside = inside || m.Pages[0] >= at && m.Pages[len(m.Pages)-1]+nvme.PageSize <= at+uint64(size)
		}
		if !inside {
			t.Fatal("memory that the device cannot reach")
		}
		for i, b := range m.Bytes {
			if b != 0 {
				t.Fatalf("byte %d is %#x", i, b)
			}
		}
		for i := range m.Bytes {
			m.Bytes[i] = 1
		}
		for _, other := range live {
			if m.Pages[0] <= other.Pages[len(other.Pages)-1] && other.Pages[0] <= m.Pages[len(m.Pages)-1] {
				t.Fatal("two pieces overlap")
			}
		}
		live[m.Pages[0]] = m
	}
	for _, m := range live {
		d.Free(m)
	}
	if len(iommu.mapped) != 0 || len(d.chunks) != 0 {
		t.Errorf("still mapped: %v", iommu.mapped)
	}
	iommu.refuse = unix.ENOMEM
	if _, err := d.Alloc(nvme.PurposeBuffers, 1); err == nil || !strings.Contains(err.Error(), "locked memory") {
		t.Errorf("beyond the limit of locked memory: %v", err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
}

// pagemap is a file of entries, the first of which is for the address first.
type pagemap struct {
	first   uint64
	entries []uint64
}

func (p pagemap) ReadAt(b []byte, off int64) (int, error) {
	for i := range len(b) / 8 {
		at := uint64(off)/8 + uint64(i) - p.first/nvme.PageSize
		binary.LittleEndian.PutUint64(b[8*i:], p.entries[at])
	}
	return len(b), nil
}

func TestPhysicalPages(t *testing.T) {
	b, err := pagesAlloc(hugeBytes)
	if err != nil {
		t.Fatal(err)
	}
	b = b[:3*nvme.PageSize]
	p := pagemap{addressOf(b), []uint64{1<<63 | 7, 1<<63 | 1<<62 | 9, 1<<63 | 1<<55 | 1}}
	pages, err := physicalPages(p, b)
	if err != nil || len(pages) != 3 || pages[0] != 7*4096 || pages[1] != 9*4096 || pages[2] != 4096 {
		t.Fatalf("%x, %v", pages, err)
	}
	for name, entry := range map[string]uint64{"not present": 7, "hidden from who may not know": 1 << 63} {
		p.entries[1] = entry
		if pages, err := physicalPages(p, b); err == nil {
			t.Errorf("%s: %x", name, pages)
		}
	}
	if _, err := newDMA(&fakeIOMMU{none: true}, source{"pages", pagesAlloc, false}); err == nil {
		t.Error("pages that the kernel may move were given to a device without an IOMMU")
	}
}

// A confidential guest without the shared heap cannot work, and says so. Elsewhere there is always something.
func TestSourceOfMemory(t *testing.T) {
	for _, mark := range confidentialMarks {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "dev"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, mark), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := chooseSource(root); !errors.Is(err, ErrNoSharedMemory) {
			t.Errorf("%s: %q, %v", mark, s.kind, err)
		}
	}
	s, err := chooseSource(t.TempDir())
	if err != nil || s.kind != "huge pages" && s.kind != "pages" {
		t.Errorf("%q, %v", s.kind, err)
	}
	// Where there is a heap it is taken before anything else; a file that is none fails when it is asked.
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(sharedHeap)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, sharedHeap), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = chooseSource(root); err != nil || !strings.Contains(s.kind, "system_cc_shared") {
		t.Fatalf("%q, %v", s.kind, err)
	}
	if _, err := s.alloc(hugeBytes); err == nil {
		t.Error("a file gave memory")
	}
}
