package aegis

import (
	"crypto/aes"
	"crypto/cipher"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchSizes are the message sizes of the benchmarks. The last one is measured out of the L2 cache.
var benchSizes = []int{64, 128, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20}

// outOfL2 is the size from which a contender rotates over sources and destinations that together exceed any L2.
const (
	outOfL2     = 1 << 20
	buffersCold = 24
)

// buffers is a set of sources and destinations that a contender goes round, the same for all contenders of a size.
type buffers struct {
	src, dst [][]byte
	next     int
}

func newBuffers(size int) *buffers {
	n := 1
	if size >= outOfL2 {
		n = buffersCold
	}
	b := new(buffers)
	for i := range n {
		src, dst := make([]byte, size), make([]byte, size+TagSize256)
		for j := range src {
			src[j] = byte(i + j)
		}
		clear(dst) // fault the pages in
		b.src, b.dst = append(b.src, src), append(b.dst, dst)
	}
	return b
}

// pair returns a source and a destination of the same size and room for a tag after the destination.
func (b *buffers) pair() (src, dst []byte) {
	if b.next++; b.next >= len(b.src) {
		b.next = 0
	}
	return b.src[b.next], b.dst[b.next]
}

// contender is one line of the benchmark.
type contender struct {
	name string
	// prepare returns what is timed: a number of calls, which use the buffers in turn.
	prepare func(size int, b *buffers) func(calls int)
}

func sealer(v Variant) func(int, *buffers) func(int) {
	return func(size int, b *buffers) func(int) {
		c := New(v, make([]byte, KeySize))
		nonce, ad := make([]byte, NonceSize), make([]byte, 16)
		return func(calls int) {
			for range calls {
				src, dst := b.pair()
				c.Seal(dst[:size], dst[size:size+TagSize128], nonce, src, ad)
			}
		}
	}
}

func opener(v Variant) func(int, *buffers) func(int) {
	return func(size int, b *buffers) func(int) {
		c := New(v, make([]byte, KeySize))
		nonce, ad := make([]byte, NonceSize), make([]byte, 16)
		tags := make([][TagSize128]byte, len(b.src))
		sealed := make([][]byte, len(b.src))
		for i := range b.src {
			sealed[i] = make([]byte, size)
			c.Seal(sealed[i], tags[i][:], nonce, b.src[i], ad)
		}
		return func(calls int) {
			for range calls {
				_, dst := b.pair()
				if err := c.Open(dst[:size], nonce, sealed[b.next], tags[b.next][:], ad); err != nil {
					panic(err)
				}
			}
		}
	}
}

func macer(v Variant) func(int, *buffers) func(int) {
	return func(size int, b *buffers) func(int) {
		c := New(v, make([]byte, KeySize))
		nonce, tag := make([]byte, NonceSize), make([]byte, TagSize128)
		return func(calls int) {
			for range calls {
				src, _ := b.pair()
				c.MAC(tag, nonce, src)
			}
		}
	}
}

func newGCM() cipher.AEAD {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return gcm
}

func sealGCM(_ int, b *buffers) func(int) {
	gcm := newGCM()
	nonce, ad := make([]byte, gcm.NonceSize()), make([]byte, 16)
	return func(calls int) {
		for range calls {
			src, dst := b.pair()
			gcm.Seal(dst[:0], nonce, src, ad)
		}
	}
}

func openGCM(_ int, b *buffers) func(int) {
	gcm := newGCM()
	nonce, ad := make([]byte, gcm.NonceSize()), make([]byte, 16)
	sealed := make([][]byte, len(b.src))
	for i := range b.src {
		sealed[i] = gcm.Seal(nil, nonce, b.src[i], ad)
	}
	return func(calls int) {
		for range calls {
			_, dst := b.pair()
			if _, err := gcm.Open(dst[:0], nonce, sealed[b.next], ad); err != nil {
				panic(err)
			}
		}
	}
}

func copier(_ int, b *buffers) func(int) {
	return func(calls int) {
		for range calls {
			src, dst := b.pair()
			copy(dst, src)
		}
	}
}

// contenders run side by side; the first two are what ratios refer to.
var contenders = []contender{
	{"copy", copier},
	{"AES-256-GCM/seal", sealGCM},
	{"AES-256-GCM/open", openGCM},
	{"AEGIS-128L/seal", sealer(AEGIS128L)},
	{"AEGIS-128L/open", opener(AEGIS128L)},
	{"AEGIS-128L/mac", macer(AEGIS128L)},
	{"AEGIS-128X4/seal", sealer(AEGIS128X4)},
	{"AEGIS-128X4/open", opener(AEGIS128X4)},
	{"AEGIS-128X4/mac", macer(AEGIS128X4)},
}

func BenchmarkSizes(b *testing.B) {
	for _, size := range benchSizes {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("%d/%s", size, c.name), func(b *testing.B) {
				run := c.prepare(size, newBuffers(size))
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				run(b.N)
			})
		}
	}
}

var (
	ratiosFlag = flag.Bool("ratios", false, "print the speeds of all ciphers as ratios, measured in alternating slices")
	forceFlag  = flag.String("force", "", "with -ratios, the implementation to measure")
)

// TestRatios prints a table for people; it asserts nothing about time. Run it with
//
//	go test -run TestRatios ./ioengine/aegis -ratios -v
func TestRatios(t *testing.T) {
	if !*ratiosFlag {
		t.Skip("prints a table if -ratios is given")
	}
	if *forceFlag != "" {
		restore, err := Force(*forceFlag)
		if err != nil {
			t.Fatal(err)
		}
		defer restore()
	}
	const slicesMax = 61
	var table strings.Builder
	fmt.Fprintf(&table, "%s; AES-256-GCM seal in ns; the others as (time of AES-256-GCM) / (own time); last: (time of X4 seal) / (time of copy)\n", Implementation())
	fmt.Fprintf(&table, "%8s %9s %8s %8s %8s %8s %8s %8s %8s %8s\n", "bytes", "GCM ns", "copy", "L seal", "L open", "L mac", "X4 seal", "X4 open", "X4 mac", "X4/copy")
	for _, size := range benchSizes {
		ns := medians(size, slicesMax)
		gcmSeal, gcmOpen := ns["AES-256-GCM/seal"], ns["AES-256-GCM/open"]
		fmt.Fprintf(&table, "%8d %9.0f %8.1f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f\n", size, gcmSeal,
			gcmSeal/ns["copy"],
			gcmSeal/ns["AEGIS-128L/seal"], gcmOpen/ns["AEGIS-128L/open"], gcmSeal/ns["AEGIS-128L/mac"],
			gcmSeal/ns["AEGIS-128X4/seal"], gcmOpen/ns["AEGIS-128X4/open"], gcmSeal/ns["AEGIS-128X4/mac"],
			ns["AEGIS-128X4/seal"]/ns["copy"])
	}
	t.Log("\n" + table.String())
}

// medians times all contenders in turn, slice by slice, so that what disturbs the machine disturbs all of them, and
// returns the median time of one call in nanoseconds.
func medians(size, rounds int) map[string]float64 {
	b := newBuffers(size)
	runs := make([]func(int), len(contenders))
	for i, c := range contenders {
		runs[i] = c.prepare(size, b)
	}
	times := make(map[string][]float64)
	calls := max(1, 1<<20/(size+512)) // a slice is about 1 MiB, some 0.1 ms
	if size >= outOfL2 {
		calls = len(b.src)
	}
	for range rounds {
		for i, c := range contenders {
			runs[i](1) // the first call pays for code and keys that are not in the cache
			start := time.Now()
			runs[i](calls)
			times[c.name] = append(times[c.name], float64(time.Since(start).Nanoseconds())/float64(calls))
		}
	}
	result := make(map[string]float64)
	for name, ts := range times {
		slices.Sort(ts)
		result[name] = ts[len(ts)/2]
	}
	return result
}
