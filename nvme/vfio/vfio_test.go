package vfio

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"0000:01:00.0": "0000:01:00.0", "01:00.0": "0000:01:00.0", "00AB:CD:1F.7/2": "00ab:cd:1f.7/2", "00ab:cd:1f.7": "00ab:cd:1f.7",
	} {
		if a, err := ParseAddress(in); err != nil || a.String() != want {
			t.Errorf("%q: %v, %v", in, a, err)
		}
	}
	for _, in := range []string{
		"", "1", "0000:01:00", "0000:01:00.8", "0000:01:00.0/", "0000:01:00.0/0", "0000:01:00.0/x", "../../dev", "0000:01:00.0/4294967295", "0000:01:00.0\n",
		"0000:01:00.0/1/2", "00000:01:00.0",
	} {
		if a, err := ParseAddress(in); err == nil {
			t.Errorf("%q was read as %v", in, a)
		}
	}
}

// Device addresses are never handed out twice, lie inside what is allowed, and come back whole.
func TestIOVAs(t *testing.T) {
	a := newAddresses([]span{{0xfef00000, 1 << 40}, {0, 0xfedfffff}})
	first := slices.Clone(a.free)
	if len(first) != 2 || first[0].first != 1<<20 || first[1].last != 1<<addressBits-1 {
		t.Fatalf("%x", first)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	live := map[uint64]uint64{}
	for range 2000 {
		if len(live) > 50 || len(live) > 0 && rng.IntN(3) == 0 {
			for at, n := range live {
				a.give(at, n)
				delete(live, at)
				break
			}
			continue
		}
		n := hugeBytes * (1 + rng.Uint64N(300))
		at, err := a.take(n)
		if err != nil {
			t.Fatal(err)
		}
		if at%hugeBytes != 0 || at < 1<<20 || at+n > 1<<addressBits || at < 0xfef00000 && at+n > 0xfee00000 {
			t.Fatalf("%#x + %#x", at, n)
		}
		for other, m := range live {
			if at < other+m && other < at+n {
				t.Fatalf("%#x + %#x overlaps %#x + %#x", at, n, other, m)
			}
		}
		live[at] = n
	}
	for at, n := range live {
		a.give(at, n)
	}
	if !slices.Equal(a.free, first) {
		t.Errorf("afterwards free: %x", a.free)
	}
	small := newAddresses([]span{{1 << 21, 1<<22 - 1}})
	if at, err := small.take(hugeBytes); at != 1<<21 || err != nil {
		t.Errorf("%#x, %v", at, err)
	}
	if _, err := small.take(hugeBytes); !errors.Is(err, errNoAddresses) {
		t.Error(err)
	}
}

func TestRangesOfTheKernel(t *testing.T) {
	b := make([]byte, 128)
	le := binary.LittleEndian
	le.PutUint16(b[24:], 3) // another capability first
	le.PutUint32(b[28:], 40)
	le.PutUint16(b[40:], 1)
	le.PutUint32(b[48:], 2)
	for i, v := range []uint64{0, 0xfedfffff, 0xfef00000, 1<<48 - 1} {
		le.PutUint64(b[56+8*i:], v)
	}
	if all := walkRanges(b, 24); !slices.Equal(all, []span{{0, 0xfedfffff}, {0xfef00000, 1<<48 - 1}}) {
		t.Errorf("%x", all)
	}
	le.PutUint32(b[48:], 1<<31) // more than fit
	if all := walkRanges(b, 24); len(all) != 4 {
		t.Errorf("%d ranges", len(all))
	}
	le.PutUint32(b[28:], 24) // a loop
	if all := walkRanges(b, 24); all != nil {
		t.Errorf("%x", all)
	}
	for _, at := range []int{-1, 0, 120, 1 << 30} {
		if walkRanges(b, at) != nil {
			t.Errorf("ranges at %d", at)
		}
	}
}

// machine is a file tree such as sysfs and procfs show.
func machine(t *testing.T, files map[string]string, links map[string]string) Host {
	t.Helper()
	h := Host{Root: t.TempDir()}
	for name, text := range files {
		p := h.path(name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range links {
		p := h.path(name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, p); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func twoControllers(t *testing.T) Host {
	const one, two, other = "sys/bus/pci/devices/0000:01:00.0/", "sys/bus/pci/devices/0000:02:00.0/", "sys/bus/pci/devices/0000:00:1f.0/"
	return machine(t, map[string]string{
		one + "class": "0x010802\n", one + "vendor": "0x1b36\n", one + "device": "0x0010\n", one + "driver_override": "(null)\n",
		one + "nvme/nvme0/nvme0c0n1/size": "1", one + "nvme/nvme0/hwmon1/name": "nvme",
		two + "class": "0x010802\n", two + "driver_override": "(null)\n", two + "nvme/nvme1/nvme1n1/size": "1",
		other + "class":                                    "0x060100\n",
		"sys/class/block/nvme0n1/dev":                      "259:0\n",
		"sys/class/block/nvme0n1/nvme0n1p1/partition":      "1\n",
		"sys/class/block/nvme0n1/nvme0n1p1/dev":            "259:1\n",
		"sys/class/block/nvme0n1/nvme0n1p1/holders/dm-0/x": "",
		"sys/class/block/nvme1n1/dev":                      "259:2\n",
		"proc/self/mountinfo":                              "22 1 259:1 / /home rw,relatime - ext4 /dev/nvme0n1p1 rw\n23 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
		"proc/swaps":                                       "Filename Type Size Used Priority\n",
		"sys/bus/pci/drivers/vfio-pci/bind":                "",
		"sys/bus/pci/drivers/nvme/unbind":                  "",
		"sys/bus/pci/drivers_probe":                        "",
	}, map[string]string{
		one + "driver": "../../drivers/nvme", one + "iommu_group": "../../../kernel/iommu_groups/7", two + "driver": "../../drivers/nvme",
	})
}

func TestControllersAndTheirUses(t *testing.T) {
	h := twoControllers(t)
	all, err := h.Controllers()
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	c := all[0]
	if c.Address != "0000:01:00.0" || c.Driver != "nvme" || c.Group != "7" || c.Vendor != "0x1b36" || len(c.Uses) != 1 {
		t.Fatalf("%+v", c)
	}
	if got, want := strings.Join(c.Uses[0].For, "; "), "partition nvme0n1p1; nvme0n1p1 mounted on /home; nvme0n1p1 is held by dm-0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if u := all[1].Uses; len(u) != 1 || u[0].Block != "nvme1n1" || len(u[0].For) != 0 {
		t.Errorf("%+v", u)
	}
}

// A disk that somebody uses is taken only if it is named.
func TestBindRefusesWhatIsInUse(t *testing.T) {
	h := twoControllers(t)
	used, free := Address{PCI: "0000:01:00.0"}, Address{PCI: "0000:02:00.0"}
	override := func(a Address) string { return h.read("sys/bus/pci/devices", a.PCI, "driver_override") }
	if err := h.Bind(used, []string{"nvme1n1"}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "--over nvme0n1") {
		t.Fatalf("%v", err)
	}
	if override(used) != "(null)" {
		t.Fatal("something was changed")
	}
	if err := h.Bind(free, nil); err != nil {
		t.Fatal(err)
	}
	if override(free) != "vfio-pci" || h.read("sys/bus/pci/drivers/nvme/unbind") != free.PCI || h.read("sys/bus/pci/drivers_probe") != free.PCI {
		t.Errorf("override %q", override(free))
	}
	if err := h.Bind(used, []string{"nvme0n1"}); err != nil || override(used) != "vfio-pci" {
		t.Errorf("%v, %q", err, override(used))
	}
	if err := h.Bind(Address{PCI: "0000:00:1f.0"}, nil); err == nil {
		t.Error("a device that is no NVMe controller was bound")
	}
}
