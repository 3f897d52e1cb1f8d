package bench

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"time"

	"cvmstore/ioengine/aegis"
)

// CryptoOptions say how to measure the cipher.
type CryptoOptions struct {
	Rounds int           // each runs all sides, one after the other; default 15
	Slice  time.Duration // how long one side runs at a time; default 20 ms
	Out    io.Writer
}

// Crypto compares AEGIS-128X4 with AES-256-GCM and with memcpy on one core, in turns.
func Crypto(ctx context.Context, o CryptoOptions) error {
	o.Rounds, o.Slice = orDefault(o.Rounds, 15), orDuration(o.Slice, 20*time.Millisecond)
	fmt.Fprintf(o.Out, "One core, %d interleaved rounds of %v a side; medians\n\n%-8s %12s %12s %12s %18s %18s\n", o.Rounds, o.Slice, "",
		"AEGIS GB/s", "GCM GB/s", "memcpy GB/s", "AEGIS / GCM", "AEGIS / memcpy, time")
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10, 1 << 20} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := cryptoRow(o, size); err != nil {
			return err
		}
	}
	return nil
}

func cryptoRow(o CryptoOptions, size int) error {
	key, nonce, tag := make([]byte, 32), make([]byte, aegis.NonceSize), make([]byte, aegis.TagSize128)
	c := aegis.New(aegis.AEGIS128X4, key[:16])
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	// From 1 MiB on, what is sealed comes from memory and goes there, as it does on the way to a disk.
	sets := 1
	if size >= 1<<20 {
		sets = 24
	}
	var src, dst [][]byte
	for range sets {
		src, dst = append(src, make([]byte, size)), append(dst, make([]byte, size+gcm.Overhead()))
	}
	sides := []func(i int){
		func(i int) { c.Seal(dst[i][:size], tag, nonce, src[i], nil) },
		func(i int) { gcm.Seal(dst[i][:0], nonce[:gcm.NonceSize()], src[i], nil) },
		func(i int) { copy(dst[i], src[i]) },
	}
	rates := make([][]float64, len(sides))
	for round := range o.Rounds + 1 {
		for k := range sides {
			k = (k + round) % len(sides)
			n, begin := 0, time.Now()
			for time.Since(begin) < o.Slice {
				for range max(1, 64<<10/size) {
					sides[k](n % sets)
					n++
				}
			}
			if round > 0 { // the first one faults pages in
				rates[k] = append(rates[k], float64(n)*float64(size)/1e9/time.Since(begin).Seconds())
			}
		}
	}
	var overGCM, overCopy []float64
	for i := range rates[0] {
		overGCM, overCopy = append(overGCM, rates[0][i]/rates[1][i]), append(overCopy, rates[2][i]/rates[0][i])
	}
	name := fmt.Sprintf("%d KiB", size>>10)
	fmt.Fprintf(o.Out, "%-8s %12.2f %12.2f %12.2f %18.2f %18.2f\n", name, medianOf(rates[0]), medianOf(rates[1]), medianOf(rates[2]), medianOf(overGCM), medianOf(overCopy))
	g := Figure{Experiment: "crypto", Name: "AEGIS-128X4 seals " + name, Unit: "x", Against: "AES-256-GCM", Samples: overGCM, Rate: []float64{medianOf(rates[0]), medianOf(rates[1])}, RateUnit: "GB/s"}
	if size >= 16<<10 {
		g.Goal = 6
	}
	record(o.Out, g)
	if size >= 1<<20 {
		record(o.Out, Figure{
			Experiment: "crypto", Name: "AEGIS-128X4 seals " + name + ": time", Unit: "x", Against: "memcpy of the same bytes", Samples: overCopy, Goal: 1.15, AtMost: true,
		})
	}
	return nil
}
