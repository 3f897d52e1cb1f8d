package command

import (
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
)

// memoryMetrics are the runtime's figures that INFO memory is made of; reading them does not stop the world.
var memoryMetrics = []metrics.Sample{
	{Name: "/memory/classes/heap/objects:bytes"},
	{Name: "/memory/classes/total:bytes"},
	{Name: "/memory/classes/heap/released:bytes"},
}

// memoryFigures are the process's, in bytes.
type memoryFigures struct{ used, total, released, resident int64 }

func readMemory() (m memoryFigures) {
	samples := append([]metrics.Sample(nil), memoryMetrics...)
	metrics.Read(samples)
	m.used, m.total, m.released = int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64()), int64(samples[2].Value.Uint64())
	if m.resident = residentBytes(); m.resident == 0 {
		m.resident = m.total - m.released
	}
	return m
}

// HeapObjects returns the bytes of objects, garbage that is not collected yet included; HeapLive those that the last
// collection found alive; Collections counts collections.
func HeapObjects() int64  { return int64(metric("/memory/classes/heap/objects:bytes")) }
func Collections() uint64 { return metric("/gc/cycles/total:gc-cycles") }

// HeapLive is explained at HeapObjects. Before the first collection it is all objects.
func HeapLive() int64 {
	if n := metric("/gc/heap/live:bytes"); n > 0 {
		return int64(n)
	}
	return HeapObjects()
}

func metric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// MemoryOfSystem is the memory that this process may use: the machine's, or its control group's if that is less. 0: unknown.
func MemoryOfSystem() int64 {
	total := systemMemory()
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && (total == 0 || n < total) {
			total = n
		}
	}
	return total
}

// systemMemory is the machine's, 0 where the system does not tell.
var systemMemory = sync.OnceValue(func() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.SplitSeq(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
})

func executable() string {
	path, _ := os.Executable()
	return path
}

// residentBytes reads the process's resident size; 0 where the system does not tell.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func human(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.2fK", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.2fM", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2fG", float64(n)/(1<<30))
}
