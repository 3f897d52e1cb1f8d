package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// fetching is a read on its way from the device for a client's command.
type fetching struct {
	cl  *client // nil: got takes the result
	at  volume.Place
	got *volume.Fetched
}

// fetch starts the reads that a command missed.
func (s *server) fetch(cl *client) {
	for _, f := range cl.tx.Misses() {
		s.tokens++
		switch err := s.reader.Submit(f, s.tokens); {
		case err == nil:
			s.reads[s.tokens] = fetching{cl: cl, at: f.At}
			cl.fetching++
		case errors.Is(err, volume.ErrBusy), errors.Is(err, volume.ErrMoved): // the command will miss it again
		default:
			s.readFailed(cl, fmt.Errorf("submit: %w", err))
		}
	}
}

// startJobs starts what a command needs done with blobs.
func (s *server) startJobs(cl *client) {
	for _, j := range cl.tx.Jobs() {
		cl.fetching++
		s.blobs.Start(j, func(j *volume.Transfer) {
			cl.fetching--
			// Also one whose command finds the key gone by now: a reader's reference keeps the blob.
			if _, err := j.Done(); errors.Is(err, volume.ErrCorrupt) && !s.w.readsTampered && !s.w.mayBeDamaged {
				failf("%v: %v", cl.now, err)
			}
		})
	}
}

// mayFail says whether a read of a command's blobs may fail: something was done to them, or was while they were read.
func (w *world) mayFail(c *command) bool {
	if w.readsTampered {
		return true
	}
	for _, k := range c.keys {
		if c2, ok := w.damaged[dbKey{c.db, string(k)}]; ok && w.model.dbs[c.db][string(k)].counter >= c2 {
			return true
		}
	}
	return false
}

// poll takes what the reader has.
func (s *server) poll() {
	var out [8]volume.Fetched
	for _, f := range out[:s.reader.Poll(out[:])] {
		r, ok := s.reads[f.Token]
		if !ok {
			failf("the reader returned token %d, which is not outstanding", f.Token)
		}
		delete(s.reads, f.Token)
		if r.got != nil {
			*r.got = f
			continue
		}
		r.cl.fetching--
		if f.Err != nil {
			s.readFailed(r.cl, f.Err)
			continue
		}
		r.cl.tx.Supply(r.at, f.Payload)
	}
}

// readFailed is a command that ends with an error because of a record: only where something was done to the disk.
func (s *server) readFailed(cl *client, err error) {
	w := s.w
	switch {
	case errors.Is(err, volume.ErrCorrupt) && w.readsTampered:
		w.count("surfaced: tampered read")
	case errors.Is(err, errInjected) && w.readsTampered:
		w.count("surfaced: read error")
	default:
		failf("%v: read failed: %v", cl.now, err)
	}
	cl.readErr = err
}

// readSome reads some keys while blocks are changed: each value is right, or the read is an error.
func (w *world) readSome(s *server) {
	var t keyspace.Tx
	db := w.rng.IntN(databases)
	keys := slices.Sorted(maps.Keys(w.model.dbs[db]))
	for range min(len(keys), 6) {
		k := keys[w.rng.IntN(len(keys))]
		if it := w.model.dbs[db][k]; it.expiry != 0 && it.expiry < s.v.Now() {
			continue // looking would delete it
		}
		w.readTampered(s, &t, db, k)
	}
}

func (w *world) readTampered(s *server, t *keyspace.Tx, db int, key string) {
	s.space.Begin(t, db, [][]byte{[]byte(key)})
	val, _, err := t.Load([]byte(key), keyspace.TypeString)
	text := string(val)
	t.End()
	if jobs := t.Jobs(); len(jobs) > 0 {
		s.runJobs(jobs)
		s.space.Begin(t, db, [][]byte{[]byte(key)})
		val, _, err = t.Load([]byte(key), keyspace.TypeString)
		text = string(val)
		t.End()
	} else if errors.Is(err, keyspace.ErrMiss) {
		f := t.Misses()[0]
		s.tokens++
		var got volume.Fetched
		if s.reader.Submit(f, s.tokens) != nil {
			t.Forget()
			return // the reader is busy
		}
		s.reads[s.tokens] = fetching{at: f.At, got: &got}
		for token := s.tokens; got.Token != token; {
			s.poll()
		}
		switch {
		case errors.Is(got.Err, volume.ErrCorrupt):
			w.count("surfaced: tampered read")
			t.Forget()
			return
		case got.Err != nil:
			failf("tampered read of %q: %v", key, got.Err)
		}
		t.Supply(f.At, got.Payload)
		s.space.Begin(t, db, [][]byte{[]byte(key)})
		val, _, err = t.Load([]byte(key), keyspace.TypeString)
		text = string(val)
		t.End()
	}
	switch {
	case errors.Is(err, volume.ErrCorrupt):
		w.count("surfaced: tampered read")
	case err != nil:
		failf("tampered read of %q: %v", key, err)
	case text != w.model.dbs[db][key].val:
		failf("a tampered read of %q returned %.40q, its value is %.40q", key, text, w.model.dbs[db][key].val)
	}
	t.Forget()
}

// runJobs runs transfers to their end, on a queue of their own: nothing else happens meanwhile.
func (s *server) runJobs(jobs []*volume.Transfer) {
	for _, j := range jobs {
		s.probe.Start(j, nil)
		for n := 0; ; n++ {
			if done, _ := j.Done(); done {
				break
			}
			if n > 20_000 {
				failf("a transfer of a blob makes no progress")
			}
			s.probe.Step()
		}
	}
}
