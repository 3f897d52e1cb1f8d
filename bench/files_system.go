package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"cvmstore/files"
	"cvmstore/volume"
)

// filesRESP compares FPUT and FGET of 1 GiB with SET and GET of redis-server, and with bytes through a socket.
func filesRESP(ctx context.Context, o FilesOptions) error {
	const size = 1 << 30
	dir := filepath.Join(o.Dir, "resp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := startPair(ctx, RedisOptions{Dir: dir, Server: o.Server}, "always")
	defer p.stop()
	if err != nil {
		return err
	}
	var clients [2]*largeClient
	for i, s := range []*server{p.ours, p.theirs} {
		if clients[i], err = dialLarge(s); err != nil {
			return err
		}
		defer func() { _ = clients[i].conn.Close() }()
		if _, err := fmt.Fprint(clients[i].conn, "CONFIG SET proto-max-bulk-len 2147483648 client-query-buffer-limit 4000000000\r\n"); err != nil {
			return err
		}
		if line, err := clients[i].r.ReadString('\n'); err != nil || line != "+OK\r\n" {
			return fmt.Errorf("%s: CONFIG SET: %q, %w", s.name, line, err)
		}
	}
	clients[0].put, clients[0].fetch = "FPUT", "FGET"
	fmt.Fprintf(o.Out, "== 1 GiB over loopback, one client: FPUT and FGET fresh with the embedded counter, SET and GET with appendfsync always, and cat through a socket; GB/s, medians of %d rounds\n", o.Rounds)
	var got [2][3][]float64
	for round := range o.Rounds {
		for k := range 2 {
			c := clients[(k+round)%2]
			start := time.Now()
			if err := c.set("big", size); err != nil {
				return err
			}
			middle := time.Now()
			if err := c.get("big", size); err != nil {
				return err
			}
			i := (k + round) % 2
			got[0][i] = append(got[0][i], size/1e9/middle.Sub(start).Seconds())
			got[1][i] = append(got[1][i], size/1e9/time.Since(middle).Seconds())
		}
		rate, err := socketRate(size)
		if err != nil {
			return err
		}
		got[0][2] = append(got[0][2], rate)
		got[1][2] = got[0][2]
	}
	for i, names := range [][2]string{{"FPUT", "SET"}, {"FGET", "GET"}} {
		a, b, c := medianOf(got[i][0]), medianOf(got[i][1]), medianOf(got[i][2])
		fmt.Fprintf(o.Out, "%s %.2f   redis-server %s %.2f   socket %.2f   ratios %.2f and %.2f\n", names[0], a, names[1], b, c, a/b, a/c)
		record(o.Out, Figure{Experiment: "files", Name: names[0] + " of 1 GiB", Unit: "x", Against: "redis-server " + names[1], Value: a / b, Rate: []float64{a, b}, RateUnit: "GB/s"})
	}
	return nil
}

// socketRate is what cat moves through a loopback socket, in GB/s.
func socketRate(size int64) (float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	sent := make(chan error, 1)
	start := time.Now()
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		piece := pattern(256 << 10)
		for left := size; err == nil && left > 0; left -= int64(len(piece)) {
			_, err = c.Write(piece)
		}
		if err == nil {
			err = c.Close()
		}
		sent <- err
	}()
	c, err := l.Accept()
	if err != nil {
		return 0, err
	}
	sink := make([]byte, 256<<10)
	for err == nil {
		_, err = c.Read(sink)
	}
	took := time.Since(start)
	if err == io.EOF {
		err = nil
	}
	return float64(size) / 1e9 / took.Seconds(), errors.Join(err, <-sent, c.Close())
}

// checkpointParts are the files of a checkpoint, checkpointAtOnce how many are written and read at a time.
const (
	checkpointParts  = 16
	checkpointAtOnce = 2
)

// filesCheckpoint saves and loads a checkpoint in parts, as a trainer does, beside files of the file system with one fsync each. Nothing
// is in a cache when it is loaded.
func filesCheckpoint(ctx context.Context, o FilesOptions) (err error) {
	dir := filepath.Join(o.Dir, "checkpoint")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	f, err := newFilesOnFile(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(ctx)) }()
	size := int64(o.Checkpoint) << 30 / checkpointParts
	window := pattern(1 << 20)
	rounds := min(o.Rounds, 3)
	fmt.Fprintf(o.Out, "== A checkpoint of %d GiB in %d parts, %d at once, durable and fresh, beside ext4 with fsync; caches cold; %d rounds\n", o.Checkpoint, checkpointParts, checkpointAtOnce, rounds)
	sides := [2][2]func(part int) error{
		{
			func(part int) error {
				return f.write(ctx, fmt.Sprint("part", part), size, 0, window, volume.LevelFresh)
			},
			func(part int) error { return f.read(ctx, fmt.Sprint("part", part)) },
		},
		{
			func(part int) error { return plainWrite(filepath.Join(dir, fmt.Sprint("part", part)), size, window) },
			func(part int) error { return plainRead(filepath.Join(dir, fmt.Sprint("part", part))) },
		},
	}
	var ratios, rates [2][]float64
	for round := range rounds + 1 { // the first lays out the space of both
		var took [2][2]time.Duration
		for k := range 2 {
			i := (k + round) % 2
			for op := range 2 {
				took[i][op], err = each(checkpointAtOnce, func(worker int) error {
					for part := worker; part < checkpointParts; part += checkpointAtOnce {
						if err := sides[i][op](part); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
		for op := range 2 {
			if round > 0 {
				ratios[op] = append(ratios[op], took[1][op].Seconds()/took[0][op].Seconds())
				rates[op] = append(rates[op], float64(o.Checkpoint)*1.073741824/took[0][op].Seconds())
			}
		}
	}
	for op, name := range []string{"save", "load"} {
		fmt.Fprintf(o.Out, "%s: %.2f GB/s, beside ext4 %s; goal 0.97, floor 0.90\n", name, medianOf(rates[op]), bootstrap(ratios[op]))
		record(o.Out, Figure{Experiment: "files", Name: "checkpoint, " + name, Unit: "x", Against: "ext4 with fsync", Samples: ratios[op], Goal: 0.97})
	}
	return nil
}

func plainWrite(path string, size int64, window []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for left := size; left > 0 && err == nil; left -= int64(len(window)) {
		_, err = f.Write(window[:min(left, int64(len(window)))])
	}
	return errors.Join(err, f.Sync(), dropCache(f), f.Close())
}

func plainRead(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	err = dropCache(f)
	for err == nil {
		_, err = f.Read(buf)
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, f.Close())
}

const smallWriters, smallSize = 8, 4096

// filesSmall writes many small files, each durable before the next one of its writer, beside ext4 with an fsync a file.
func filesSmall(ctx context.Context, o FilesOptions) (err error) {
	dir := filepath.Join(o.Dir, "small")
	if err := os.MkdirAll(filepath.Join(dir, "ext4"), 0o700); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := o.Server
	if program == "" {
		if program, err = self(); err != nil {
			return err
		}
	}
	srv, err := startServer(ctx, "cvmstore", func(port int) *exec.Cmd {
		return exec.Command(program, "serve", "--dir", filepath.Join(dir, "cvmstore"), "--port", strconv.Itoa(port), "--durability", "durable")
	})
	if err != nil {
		return err
	}
	defer srv.stop()
	var clients [smallWriters]*largeClient
	for i := range clients {
		if clients[i], err = dialLarge(srv); err != nil {
			return err
		}
		clients[i].put = "FPUT"
		defer func() { _ = clients[i].conn.Close() }()
	}
	data := pattern(smallSize)
	const slices = 10
	n := max(o.Small/slices, smallWriters)
	var ratios []float64
	var total [2]time.Duration
	for slice := range slices {
		var took [2]time.Duration
		for k := range 2 {
			i := (k + slice) % 2
			took[i], err = each(smallWriters, func(worker int) error {
				for j := worker; j < n; j += smallWriters {
					name := fmt.Sprintf("%d-%d", slice, j)
					var err error
					if i == 0 {
						err = clients[worker].set(name, smallSize)
					} else {
						err = smallWrite(filepath.Join(dir, "ext4", name), data)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			total[i] += took[i]
		}
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
	}
	all := float64(n * slices)
	fmt.Fprintf(o.Out, "== %d files of 4 KiB, %d connections, each durable before the next: %.0f a second, ext4 with an fsync a file %.0f; ratio of %d alternating slices %s, goal 1.0 (the paper: 0.29)\n",
		n*slices, smallWriters, all/total[0].Seconds(), all/total[1].Seconds(), slices, bootstrap(ratios))
	record(o.Out, Figure{Experiment: "files", Name: "small durable files", Unit: "x", Against: "ext4, one fsync a file", Samples: ratios, Goal: 1, Paper: "0.29"})
	return nil
}

func smallWrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// filesMail runs the mix of a mail server: each writer creates a mail, appends to one, reads one, deletes one. Files are written once,
// so an append here reads the mail and writes it anew.
func filesMail(ctx context.Context, o FilesOptions) (err error) {
	dir := filepath.Join(o.Dir, "mail")
	if err := os.MkdirAll(filepath.Join(dir, "ext4"), 0o700); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	f, err := newFilesOnFile(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(ctx)) }()
	boxes := [2]mailbox{&ourMail{f, ctx}, extMail(filepath.Join(dir, "ext4"))}
	rounds := max(o.Small/10/smallWriters/10, 10)
	var ratios []float64
	var total [2]time.Duration
	for slice := range 10 {
		var took [2]time.Duration
		for k := range 2 {
			i := (k + slice) % 2
			took[i], err = each(smallWriters, func(worker int) error { return mailMix(boxes[i], worker, slice, rounds) })
			if err != nil {
				return err
			}
			total[i] += took[i]
		}
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
	}
	all := float64(10 * rounds * smallWriters * 4)
	fmt.Fprintf(o.Out, "== The mail mix, %d writers: create, append, read, delete of mails of 4 to 16 KiB, changes durable: %.0f operations a second, ext4 with fsync %.0f; ratio %s (the paper: 0.29)\n",
		smallWriters, all/total[0].Seconds(), all/total[1].Seconds(), bootstrap(ratios))
	record(o.Out, Figure{Experiment: "files", Name: "mail mix", Unit: "x", Against: "ext4 with fsync", Samples: ratios, Goal: 1, Paper: "0.29"})
	return nil
}

// mailbox is one side of the mix.
type mailbox interface {
	create(name string, data []byte) error
	extend(name string, data []byte) error
	load(name string) error
	remove(name string) error
}

var mailNumber atomic.Int64

func mailMix(m mailbox, worker, slice, rounds int) error {
	rng := rand.New(rand.NewPCG(uint64(worker), uint64(slice)))
	data := pattern(16 << 10)
	var held []string
	for range rounds {
		name := fmt.Sprintf("mail-%d-%d", worker, mailNumber.Add(1))
		if err := m.create(name, data[:4096+rng.IntN(8192)]); err != nil {
			return err
		}
		held = append(held, name)
		pick := func() string { return held[rng.IntN(len(held))] }
		if err := errors.Join(m.extend(pick(), data[:1+rng.IntN(4096)]), m.load(pick())); err != nil {
			return err
		}
		if len(held) > 20 {
			if err := m.remove(held[0]); err != nil {
				return err
			}
			held = held[1:]
		}
	}
	for _, name := range held {
		if err := m.remove(name); err != nil {
			return err
		}
	}
	return nil
}

type ourMail struct {
	f   *filesVolume
	ctx context.Context
}

func (m *ourMail) create(name string, data []byte) error {
	_, err := m.f.s.Put(m.ctx, []byte(name), data, files.PutOptions{}, volume.LevelDurable)
	return err
}

func (m *ourMail) extend(name string, data []byte) error {
	f, err := m.f.s.Open(m.ctx, []byte(name))
	if err != nil {
		return err
	}
	old, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return m.create(name, append(old, data...))
}

func (m *ourMail) load(name string) error {
	f, err := m.f.s.Open(m.ctx, []byte(name))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, f)
	return errors.Join(err, f.Close())
}

func (m *ourMail) remove(name string) error {
	_, err := m.f.s.Delete(m.ctx, []byte(name), volume.LevelDurable)
	return err
}

type extMail string

func (m extMail) create(name string, data []byte) error {
	return smallWrite(filepath.Join(string(m), name), data)
}

func (m extMail) extend(name string, data []byte) error {
	f, err := os.OpenFile(filepath.Join(string(m), name), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func (m extMail) load(name string) error {
	_, err := os.ReadFile(filepath.Join(string(m), name))
	return err
}

func (m extMail) remove(name string) error { return os.Remove(filepath.Join(string(m), name)) }
