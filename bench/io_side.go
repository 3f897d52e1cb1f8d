package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"cvmstore/bench/xts"
	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
)

// ioSide is one contender: an engine with an ablation, its place on the device, and the private memory that it reads from or
// writes to. One goroutine uses it.
type ioSide struct {
	kind   ioengine.Ablation
	bench  *ioengine.Bench
	engine *ioengine.Engine
	chunk  int
	base   device.LBA // the side's blocks are base to base+span-1
	span   device.BlockCount
	window []byte // private memory, gone round chunk by chunk
	slots  int    // chunks that used it

	at      int64 // bytes into the side's place where the next object goes
	objects []ioObject
	turn    int // the object that is read next
	rest    ioPart
}

// ioObject is a blob that was written.
type ioObject struct {
	size  int64
	key   *ioengine.Key
	place ioengine.Extent
	tags  []ioengine.Tag
}

// ioPart is an object in progress between two slices: objects larger than a slice take several.
type ioPart struct {
	left  int64
	w     *ioengine.Writer
	r     *ioengine.Reader
	place ioengine.Extent
	key   *ioengine.Key
	chunk uint64
	obj   ioObject
}

// sectors is the cipher of ioengine.DiskLayer.
func sectors(key []byte) (ioengine.SectorCipher, error) { return xts.New(key) }

// newSide makes a side on its own blocks of a device, for which it polls so long before it sleeps.
func newSide(o IOOptions, spin time.Duration, dev device.Device, pool *ioengine.Pool, kind ioengine.Ablation, base device.LBA, span device.BlockCount) (*ioSide, error) {
	e, err := ioengine.New(dev, pool, ioengine.Options{
		Depth: o.Depth, Spin: spin, NoOverlap: kind == ioengine.WithoutOverlap,
	})
	if err != nil {
		return nil, err
	}
	s := &ioSide{
		kind: kind, bench: ioengine.NewBench(kind, o.Depth, sectors), engine: e, chunk: o.chunk(), base: base, span: span,
		window: make([]byte, (o.Depth+8)*o.chunk()), // every chunk in flight has its own part
	}
	for i := range s.window {
		s.window[i] = byte(i * 7)
	}
	return s, nil
}

// fresh forgets all objects, for others of another size.
func (s *ioSide) fresh() {
	s.abandon()
	s.at, s.objects, s.turn = 0, nil, 0
}

// fill writes the side's place full of objects of size bytes, at least one.
func (s *ioSide) fill(size int64) error {
	s.fresh()
	for {
		if _, err := s.write(size, size, true); err != nil {
			return err
		}
		if device.BlocksFor(int(s.at))+ioengine.BlocksFor(size) > s.span {
			return nil
		}
	}
}

func (s *ioSide) newKey() (*ioengine.Key, error) {
	var b [64 + 32]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, err
	}
	return s.bench.Key(b[:64], ioengine.Identity{Blob: [32]byte(b[64:]), Kind: 'B', Version: 1})
}

// slot is the part of the window that the next chunk uses.
func (s *ioSide) slot(size int) []byte {
	at := s.slots % (len(s.window) / s.chunk) * s.chunk
	return s.window[at : at+size]
}

// write writes total bytes as objects of size bytes, one after the other. If apart is set each object is on the device before
// the next one begins; else the queue stays full between them. Objects that do not end in this call go on in the next one.
func (s *ioSide) write(size, total int64, apart bool) (time.Duration, error) {
	start := time.Now()
	for total > 0 {
		if s.rest.w == nil {
			if err := s.beginWrite(size); err != nil {
				return 0, err
			}
		}
		p := &s.rest
		n := ioengine.ChunkLen(p.left, s.chunk, 0)
		ok, err := p.w.TryWrite(s.slot(n))
		if err != nil {
			return 0, err
		}
		if !ok {
			if _, err := s.engine.Wait(time.Millisecond); err != nil {
				return 0, err
			}
			continue
		}
		p.chunk++
		s.slots++
		p.left -= int64(n)
		total -= int64(n)
		if p.left > 0 {
			continue
		}
		s.objects = append(s.objects, ioObject{size, p.key, p.place, p.w.Tags()})
		w := p.w
		s.rest = ioPart{}
		if apart {
			if err := w.Drain(context.Background()); err != nil {
				return 0, err
			}
		}
	}
	err := s.drain()
	return time.Since(start), err
}

// drain waits until the device has everything.
func (s *ioSide) drain() error {
	for s.engine.Outstanding() > 0 {
		if _, err := s.engine.Wait(time.Millisecond); err != nil {
			return err
		}
	}
	return s.engine.Err()
}

// beginWrite takes the next place, at the front again after the end.
func (s *ioSide) beginWrite(size int64) error {
	blocks := ioengine.BlocksFor(size)
	if device.BlocksFor(int(s.at))+blocks > s.span {
		s.at = 0
	}
	if s.at == 0 {
		s.objects = s.objects[:0]
	}
	key, err := s.newKey()
	if err != nil {
		return err
	}
	place := ioengine.Extent{LBA: s.base + device.LBA(device.BlocksFor(int(s.at))), Blocks: blocks}
	w, err := s.engine.NewWriter(key, s.chunk, place)
	if err != nil {
		return err
	}
	s.at += int64(blocks.Bytes())
	s.rest = ioPart{left: size, w: w, place: place, key: key}
	return nil
}

// read is write for reads of the objects that there are.
func (s *ioSide) read(total int64, apart bool) (time.Duration, error) {
	start := time.Now()
	var open []*ioengine.Reader // of which chunks are outstanding, oldest first
	for total > 0 {
		if s.rest.r == nil {
			if err := s.beginRead(); err != nil {
				return 0, err
			}
			open = append(open, s.rest.r)
		} else if len(open) == 0 {
			open = append(open, s.rest.r)
		}
		p := &s.rest
		n := ioengine.ChunkLen(p.left, s.chunk, 0)
		ok, err := p.r.TryRead(p.chunk, p.obj.tags[p.chunk], s.slot(n))
		if err != nil {
			return 0, err
		}
		if !ok {
			if open, err = s.collect(open); err != nil {
				return 0, err
			}
			continue
		}
		p.chunk++
		s.slots++
		p.left -= int64(n)
		total -= int64(n)
		if p.left > 0 {
			continue
		}
		s.rest = ioPart{}
		for apart && s.engine.Outstanding() > 0 {
			if open, err = s.collect(open); err != nil {
				return 0, err
			}
		}
	}
	for s.engine.Outstanding() > 0 {
		var err error
		if open, err = s.collect(open); err != nil {
			return 0, err
		}
	}
	_, err := s.collect(open)
	return time.Since(start), err
}

// collect waits for something to complete and takes the chunks that are there, in order.
func (s *ioSide) collect(open []*ioengine.Reader) ([]*ioengine.Reader, error) {
	if _, err := s.engine.Wait(time.Millisecond); err != nil {
		return open, err
	}
	for len(open) > 0 {
		for {
			got, err := open[0].Next()
			if err != nil {
				return open, err
			}
			if got == nil {
				break
			}
		}
		if open[0].Pending() > 0 || open[0] == s.rest.r {
			break
		}
		open[0].Close()
		open = open[1:]
	}
	return open, nil
}

func (s *ioSide) beginRead() error {
	if len(s.objects) == 0 {
		return fmt.Errorf("internal error: nothing was written that could be read")
	}
	s.turn = (s.turn + 1) % len(s.objects)
	o := s.objects[s.turn]
	r, err := s.engine.NewReader(o.key, s.chunk, o.place)
	if err != nil {
		return err
	}
	s.rest = ioPart{left: o.size, r: r, obj: o}
	return nil
}

// abandon forgets an object that a phase left unfinished.
func (s *ioSide) abandon() {
	if s.rest.w != nil {
		s.rest.w.Close()
	}
	if s.rest.r != nil {
		s.rest.r.Close()
	}
	s.rest = ioPart{}
}
