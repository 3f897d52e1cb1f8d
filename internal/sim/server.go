package sim

import (
	"context"
	"errors"
	"hash/fnv"
	"math"
	"sync"

	"cvmstore/epoch"
	"cvmstore/files"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/streams"
	"cvmstore/volume"
)

// server is one run of the store on a device: from the attempt to open it until it is closed, killed, or without power.
type server struct {
	w      *world
	device *memdev.Device
	disk   *disk
	line   *line
	trip   *trip
	tap    *tap
	space  *keyspace.Space
	v      *volume.Volume // nil until it is open
	reader *volume.Reader
	blobs  *volume.BlobIO // of the clients
	probe  *volume.BlobIO // of runJobs
	events []event
	reads  map[uint64]fetching // by token
	tokens uint64
	ctx    context.Context
	cancel context.CancelFunc
	dump   keyspace.Tx
	closed bool
}

// event is a change that the keyspace reports.
type event struct {
	change
	counter volume.Counter
	first   bool // of its batch
}

// tap stands between recovery and the keyspace, and sees where the recovered state ends.
type tap struct {
	*keyspace.Space
	mu      sync.Mutex
	last    volume.Counter
	records int
	swallow func(volume.Record) bool // for directed scenarios: a store that loses records
}

// Reset implements volume.Replayer.
func (t *tap) Reset() {
	t.last, t.records = 0, 0
	t.Space.Reset()
}

// Replay implements volume.Replayer.
func (t *tap) Replay(v *volume.Volume, r volume.Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records++
	if t.swallow != nil && t.swallow(r) {
		return nil
	}
	return t.Space.Replay(v, r)
}

// Settle implements volume.Replayer.
func (t *tap) Settle(v *volume.Volume, d *volume.Delta) error {
	t.last = v.Recovered()
	return t.Space.Settle(v, d)
}

func (w *world) newServer(dev *memdev.Device, tr *trip) *server {
	s := &server{w: w, device: dev, trip: tr, reads: map[uint64]fetching{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	tr.w, tr.cancel = w, s.cancel
	s.disk = &disk{Device: dev, w: w, s: s, committed: map[epoch.Tag]int{}}
	s.line = &line{w: w, s: s}
	s.space = keyspace.New(keyspace.Options{
		Databases: databases, CacheBytes: w.p.cacheBytes, BlobBytes: w.p.blobBytes, OnChange: s.changed, Rand: w.rng.Uint64N,
		Hash: func(key []byte) uint64 {
			h := fnv.New64a()
			_, _ = h.Write(key)
			return h.Sum64() * 0x9e3779b97f4a7c15
		},
	})
	kvs.NewCollections(s.space, w.p.cacheBytes)
	files.New(s.space)
	streams.New(s.space, w.p.cacheBytes)
	s.tap = &tap{Space: s.space}
	return s
}

// open opens the volume.
func (s *server) open() error {
	p := &s.w.p
	v, err := volume.Open(s.ctx, volume.Options{
		Device: s.disk, Counter: s.line, Keys: s.w.keys, Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: s.tap},
		SegmentBlocks: p.segmentBlocks, FrameBytes: p.frameBytes, FramesInFlight: p.framesInFlight,
		EpochLength: p.epochLength, EpochOps: p.epochOps, EpochBytes: p.epochBytes, Clock: &s.w.clock,
		EpochsUncommitted: p.epochsMax, Blocking: p.blocking, Parallel: p.parallel, FreshLease: p.lease,
		FormatForeign: s.w.formatForeign, RecoveryWorkers: 1,
		Blobs: volume.BlobOptions{ChunkBytes: 4096, Buffers: 6, Depth: 4, Ahead: 2},
	})
	if err != nil {
		return err
	}
	s.v = v
	s.trip.left = 0
	s.line.serving = true
	s.space.Attach(v)
	if s.reader, err = v.NewReader(8); err != nil {
		failf("new reader: %v", err)
	}
	for _, b := range []**volume.BlobIO{&s.blobs, &s.probe} {
		if *b, err = v.NewBlobIO(); err != nil {
			failf("new blob engine: %v", err)
		}
	}
	return nil
}

// bury frees what a dead server holds of the operating system.
func (s *server) bury() {
	s.line.dead = true
	s.cancel()
	if s.v != nil && !s.closed {
		s.closed = true
		_ = s.v.Close(s.ctx)
	}
}

// changed is the keyspace's OnChange.
func (s *server) changed(db int, key []byte, ev string, c volume.Counter) {
	first := len(s.events) == 0
	if !first {
		applied, _, _ := s.v.Watermarks()
		first = applied >= s.events[len(s.events)-1].counter
	}
	s.events = append(s.events, event{change{db: db, key: string(key), ev: ev}, c, first})
}

// execute runs a client's command once. done is false if it has to be run again.
func (s *server) execute(cl *client, c *command) (reply string, seen volume.Counter, done bool) {
	w, t := s.w, &cl.tx
	if c.tx != nil && c.tx.watches && c.tx.watch == nil {
		if err := s.beginWatch(cl, c); err == nil || errors.Is(err, volume.ErrBusy) {
			return "", 0, false
		}
		c.tx.watches = false // the volume has failed: the transaction will say so
	}
	s.events = s.events[:0]
	switch {
	case c.verb == vScan: // locks for itself
	case c.all():
		s.space.BeginAll(t, c.db)
	default:
		s.space.Begin(t, c.db, c.keys)
	}
	reply, err := c.run(s.space, t)
	if c.tx != nil && c.tx.damaged && !w.mayFail(c) {
		failf("%v: a blob could not be read inside a batch", c)
	}
	if c.verb != vScan {
		t.End()
	}
	if c.tx != nil && c.tx.watch != nil && !errors.Is(err, keyspace.ErrMiss) && !errors.Is(err, volume.ErrBusy) {
		s.space.Unwatch(c.tx.watch)
	}
	s.expiries(t.Now())
	switch {
	case err == nil:
	case errors.Is(err, keyspace.ErrMiss):
		s.fetch(cl)
		s.startJobs(cl)
		s.noChange(c)
		return "", 0, false
	case errors.Is(err, volume.ErrBusy):
		w.count("busy")
		s.noChange(c)
		return "", 0, false
	default:
		reply = s.wordError(c, err)
		if reply == "" {
			s.noChange(c)
			t.Forget()
			return "error: " + err.Error(), 0, true
		}
	}
	s.compare(cl, c, reply)
	return reply, t.Seen(), true
}

// wordError returns the reply that a command's error is, or "" for one that the world's state causes, which it checks.
func (s *server) wordError(c *command, err error) string {
	w := s.w
	var size *kvs.SizeError
	switch {
	case errors.As(err, &size):
		return errTooLarge
	case errors.Is(err, kvs.ErrNotInteger):
		return err.Error()
	case errors.Is(err, volume.ErrFull):
		w.count("full")
		w.full = true
	case errors.Is(err, volume.ErrTooLarge):
		w.count("batch too large")
		if c.verb != vMSet && c.verb != vMSetNX && c.verb != vMulti {
			failf("%v: %v", c, err)
		}
	case errors.Is(err, volume.ErrFailed), errors.Is(err, volume.ErrFenced):
		if s.v.Err() == nil {
			failf("%v: %v, but the volume has not failed", c, err)
		}
	case errors.Is(err, volume.ErrCorrupt) && w.mayFail(c), errors.Is(err, errInjected) && w.readsTampered:
		w.count("surfaced: tampered blob")
	case errors.Is(err, volume.ErrCorrupt):
		failf("%v: %v", c, err)
	default:
		failf("%v: unexpected error: %v", c, err)
	}
	return ""
}

func (s *server) noChange(c *command) {
	if len(s.events) > 0 {
		failf("%v failed, but changed %v", c, s.events[0].change)
	}
}

// expiries takes the batches of expired keys that a command (or a cycle) made before its own changes.
func (s *server) expiries(now int64) {
	m := s.w.model
	var changes []change
	var counters []volume.Counter
	i := 0
	for ; i < len(s.events) && s.events[i].ev == "expired"; i++ {
		e := &s.events[i]
		if e.first && len(changes) > 0 {
			m.apply(now, changes, counters)
			changes, counters = nil, nil
		}
		it, ok := m.dbs[e.db][e.key]
		switch {
		case !ok:
			failf("key %q expired, but it was not there", e.key)
		case it.expiry == 0 || it.expiry >= now:
			failf("key %q expired early: store time %d, expiry %d", e.key, now, it.expiry)
		}
		s.checkCounter(e.counter)
		s.w.histories.internal(e.db, e.key, e.counter)
		changes, counters = append(changes, e.change), append(counters, e.counter)
		s.w.count("expired")
	}
	if len(changes) > 0 {
		m.apply(now, changes, counters)
	}
	s.events = s.events[i:]
}

// checkCounter: a counter is never handed out twice, whatever happened to the one who got it first.
func (s *server) checkCounter(c volume.Counter) {
	m := s.w.model
	if c <= m.highest {
		failf("6.4.5: counter %d was handed out, but %d was before", c, m.highest)
	}
	m.highest = c
}

// compare checks a command's reply and changes against the model's, and applies them there.
func (s *server) compare(cl *client, c *command, reply string) {
	m, now := s.w.model, cl.tx.Now()
	for _, k := range m.looksAt(c, reply) {
		if it, ok := m.dbs[c.db][string(k)]; ok && it.expiry != 0 && it.expiry < now {
			failf("%v at store time %d did not notice that %q expired at %d", c, now, k, it.expiry)
		}
	}
	recordMax := s.v.MaxRecord()
	if s.w.p.blobBytes >= 0 {
		recordMax = math.MaxInt // what no record holds is a blob
	}
	want, changes, need := m.exec(c, now, recordMax)
	if reply != want {
		failf("%v replied %q, the model says %q", c, reply, want)
	}
	cl.need = need
	if len(changes) != len(s.events) {
		failf("%v made %d changes, the model says %d", c, len(s.events), len(changes))
	}
	if len(changes) == 0 {
		return
	}
	counters := make([]volume.Counter, len(changes))
	for i, e := range s.events {
		if ch := changes[i]; ch.db != e.db || ch.key != e.key || ch.ev != e.ev || e.first != (i == 0) {
			failf("%v: change %d is %q of %q in database %d, the model says %q of %q in %d", c, i, e.ev, e.key, e.db, ch.ev, ch.key, ch.db)
		}
		s.checkCounter(e.counter)
		counters[i] = e.counter
	}
	if c.all() {
		s.w.histories.flushed(m, changes, counters)
	}
	m.apply(now, changes, counters)
	cl.need = counters[len(counters)-1]
	cl.wrote = cl.need
}
