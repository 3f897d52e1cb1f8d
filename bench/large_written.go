package bench

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// largeWritten counts, at the device, what is written for values that come in over RESP, and read for those that go out.
func largeWritten(ctx context.Context, o LargeOptions) error {
	s, err := startOurs(ctx, o)
	if s != nil {
		defer s.stop()
	}
	if err != nil {
		return err
	}
	c, err := dialLarge(s)
	if err != nil {
		return err
	}
	defer func() { _ = c.conn.Close() }()
	for _, row := range []struct {
		mib, count int
		goal       float64
	}{{1, 256, 1.005}, {8, 64, 1.001}, {o.ValueMiB, 8, 1.001}} {
		var ratios [2]float64
		for i, move := range []func(key string, bytes int) error{c.set, c.get} {
			before, err := c.deviceBytes()
			if err != nil {
				return err
			}
			for k := range row.count {
				if err := move(fmt.Sprint("v", row.mib, ":", k), row.mib<<20); err != nil {
					return err
				}
			}
			after, err := c.deviceBytes()
			if err != nil {
				return err
			}
			ratios[i] = float64(after[i]-before[i]) / float64(row.count*row.mib<<20)
		}
		fmt.Fprintf(o.Out, "%d values of %d MiB over RESP: written %.5f times what was stored, read %.5f times what was returned (at most %.3f)\n",
			row.count, row.mib, ratios[0], ratios[1], row.goal)
	}
	return nil
}

var deviceBytesLines = regexp.MustCompile(`(?m)^bytes_(written|read):(\d+)\r$`)

// deviceBytes asks what the volume has written and read so far, blobs, journal and metadata together.
func (c *largeClient) deviceBytes() (n [2]int64, err error) {
	if _, err := fmt.Fprintf(c.conn, "INFO cvm\r\n"); err != nil {
		return n, err
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return n, err
	}
	var size int
	if _, err := fmt.Sscanf(line, "$%d\r\n", &size); err != nil || size < 0 || size > 1<<20 {
		return n, fmt.Errorf("INFO: %q", line)
	}
	text := make([]byte, size+2)
	if _, err := io.ReadFull(c.r, text); err != nil {
		return n, err
	}
	found := 0
	for _, m := range deviceBytesLines.FindAllSubmatch(text, -1) {
		i := 0
		if string(m[1]) == "read" {
			i = 1
		}
		if n[i], err = strconv.ParseInt(string(m[2]), 10, 64); err != nil {
			return n, err
		}
		found++
	}
	if found != len(n) {
		return n, fmt.Errorf("INFO names %d of the device's %d byte counts", found, len(n))
	}
	return n, nil
}
