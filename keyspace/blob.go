package keyspace

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"cvmstore/volume"
)

// Values that are blobs (DESIGN.md section 7). The index holds a reference to the blob of each such key; what reads or writes the
// bytes happens outside of the transaction, by volume.Transfers that the caller runs: a command that needs one returns ErrMiss,
// and finds the result when it runs again.

// blobBytesDefault is from which size on a value is a blob.
const blobBytesDefault = 64 << 10

// blobSet counts the references that a table's keys hold, by blob, so that a flush finds them without looking at all keys.
type blobSet struct {
	mu sync.Mutex
	n  map[volume.BlobID]int
}

func (s *blobSet) add(b *volume.Blob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = map[volume.BlobID]int{}
	}
	s.n[b.ID()]++
}

func (s *blobSet) release(v *volume.Volume, id volume.BlobID, by volume.Counter) {
	s.mu.Lock()
	if s.n[id]--; s.n[id] == 0 {
		delete(s.n, id)
	}
	s.mu.Unlock()
	v.BlobByID(id).Release(by)
}

func (s *blobSet) releaseAll(v *volume.Volume, by volume.Counter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.n)) { // in an order that a simulation can repeat
		b := v.BlobByID(id)
		for range s.n[id] {
			b.Release(by)
		}
	}
	s.n = nil
}

// BlobBytes is from which size on a value is a blob; negative: none is.
func (s *Space) BlobBytes() int { return s.o.BlobBytes }

// BlobBytes is from which size on a value is to be a blob; negative: none is.
func (t *Tx) BlobBytes() int { return t.w.s.o.BlobBytes }

// PutBlobSize is what a put of such a key and blob takes in a batch (for Reserve).
func PutBlobSize(keyLen int, b *volume.Blob) int { return putHeaderSize + keyLen + b.PointerSize() }

// PutBlob sets the key's value to a blob, of which the caller keeps its reference. It takes PutBlobSize of the reservation.
func (t *Tx) PutBlob(key []byte, o Put, b *volume.Blob) {
	size := PutBlobSize(len(key), b)
	r := record{table: t.tb.number, typ: o.Type, encoding: o.Encoding, expiry: o.Expiry, key: key, blob: b}
	payload, c, at := t.append(KindPutBlob, size)
	b.PutPointer(encodePut(payload, &r))
	b.Retain()
	p := t.locate(key)
	if p.i < 0 {
		p = t.w.s.obtain(t.tb, t.hash(key), key)
	}
	t.w.put(t.tb, p, &r, c, at, size)
	t.accessed(p.entry())
	t.changed(p, key, o.Event, c)
}

// View is Load that reads no blob: it returns the blob instead of its bytes. It is valid until End; who wants it longer takes a
// reference.
func (t *Tx) View(key []byte, typ TypeID) ([]byte, *volume.Blob, Item, error) {
	p, err := t.live(key)
	if p.i < 0 || err != nil {
		return nil, nil, Item{}, err
	}
	e := p.entry()
	t.accessed(e)
	if e.typ() != typ {
		return nil, nil, t.itemOf(e), ErrWrongType
	}
	if id := e.blob(); id != 0 {
		return nil, t.w.v.BlobByID(id), t.itemOf(e), nil
	}
	val, err := t.value(p)
	return val, nil, t.itemOf(e), err
}

// job is a transfer that a command asked for.
type job struct {
	t      *volume.Transfer
	load   *volume.Blob // what is loaded, from here
	from   int64        //
	sum    uint64       // of the source, where a blob is written
	held   int64        // bytes taken of budget
	budget *budget
}

// LoadRange returns the bytes from from up to to of a value that View has returned: of the blob if it is one, else of val.
func (t *Tx) LoadRange(val []byte, b *volume.Blob, from, to int64) ([]byte, error) {
	if b == nil {
		return val[from:to], nil
	}
	if from >= to {
		return []byte{}, nil
	}
	return t.loadBlob(b, from, to)
}

// loadBlob returns a part of a blob that was loaded for this command, or asks for it.
func (t *Tx) loadBlob(b *volume.Blob, from, to int64) ([]byte, error) {
	for i := range t.jobs {
		j := &t.jobs[i]
		if j.load != b || j.from != from || j.t.Size() != to-from {
			continue
		}
		switch done, err := j.t.Done(); {
		case err != nil:
			return nil, err
		case done:
			return j.t.Into, nil
		}
		t.again = true
		return nil, ErrMiss
	}
	j := job{t: volume.NewTransfer(true, volume.Piece{Blob: b, From: from, To: to}), load: b, from: from}
	if t.OnTheSpot() { // as Miss
		defer j.t.Free()
		err := t.batch.Load(j.t)
		return j.t.Into, err
	}
	j.budget, j.held = &t.w.s.loads, to-from
	if !j.budget.take(j.held, t.loads()) {
		j.t.Free()
		t.again = true
		return nil, volume.ErrBusy
	}
	t.ask(j)
	return nil, ErrMiss
}

// loads reports whether this command has parts of blobs in memory, or on their way there, already.
func (t *Tx) loads() bool {
	for i := range t.jobs {
		if t.jobs[i].held > 0 {
			return true
		}
	}
	return false
}

// loadBudget bounds what commands that need large values in memory hold of them together (BITOP, LCS, DUMP and the like; what
// only passes through is streamed, and counts for a chunk). A command that finds it used up waits. One that has begun goes on,
// so that none waits for another that waits for it: the bound is this and what one command needs.
const loadBudget = 128 << 20

// budget is what of it is taken.
type budget struct {
	mu    sync.Mutex
	taken int64
}

func (b *budget) take(n int64, begun bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !begun && b.taken > 0 && b.taken+n > loadBudget {
		return false
	}
	b.taken += n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken -= n; b.taken < 0 {
		panic("internal error: more memory of large values was given back than was taken")
	}
}

// WriteBlob returns a blob of the pieces, or asks for it to be written; what was written for other pieces is not taken. The
// reference stays the transaction's, until the command ends. Where the transaction has changed something already nothing can
// be written any more: then the answer is ErrMiss and nothing is asked for (HasChanged).
func (t *Tx) WriteBlob(pieces ...volume.Piece) (*volume.Blob, error) {
	sum := t.w.s.sumOf(pieces)
	if b, known, err := t.written(sum); known {
		return b, err
	}
	if !t.HasChanged() {
		t.ask(job{t: volume.NewTransfer(false, pieces...), sum: sum})
	}
	return nil, ErrMiss
}

// written returns the blob that was written from such a source, if this command has asked for it before.
func (t *Tx) written(sum uint64) (b *volume.Blob, known bool, err error) {
	for i := range t.jobs {
		j := &t.jobs[i]
		if j.load != nil || j.sum != sum {
			continue
		}
		switch done, err := j.t.Done(); {
		case err != nil:
			return nil, true, err
		case done:
			return j.t.Blob(), true, nil
		}
		t.again = true
		return nil, true, ErrMiss
	}
	return nil, false, nil
}

// sumOf is what tells the sources of blobs apart from one run of a command to the next: a keyed hash of their contents, with
// the names of blobs, to which the transaction holds references, in place of theirs.
func (s *Space) sumOf(pieces []volume.Piece) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for i := range pieces {
		p := &pieces[i]
		var head [24]byte
		binary.LittleEndian.PutUint64(head[0:], uint64(p.Size()))
		if p.Blob != nil {
			binary.LittleEndian.PutUint64(head[8:], uint64(p.Blob.ID()))
			binary.LittleEndian.PutUint64(head[16:], uint64(p.From))
		}
		_, _ = h.Write(head[:])
		_, _ = h.Write(p.Bytes)
	}
	return h.Sum64()
}

func (t *Tx) ask(j job) {
	t.again = true
	t.jobs = append(t.jobs, j)
}

// Jobs lists the transfers that a command which returned ErrMiss needs, beside Misses, and that have not ended. The caller runs
// them to their end, or cancels them, before it calls Forget.
func (t *Tx) Jobs() (list []*volume.Transfer) {
	for i := range t.jobs {
		if done, _ := t.jobs[i].t.Done(); !done {
			list = append(list, t.jobs[i].t)
		}
	}
	return list
}

// TakeOver moves what was asked for and supplied from another transaction, for a command that will run again in this one.
func (t *Tx) TakeOver(from *Tx) {
	for at, payload := range from.supplied {
		t.Supply(at, payload)
	}
	for at, err := range from.refused {
		t.Refuse(at, err)
	}
	clear(from.refused)
	clear(from.supplied)
	t.jobs = append(t.jobs, from.jobs...)
	clear(from.jobs)
	from.jobs = from.jobs[:0]
}

func (t *Tx) forgetJobs() {
	for i := range t.jobs {
		t.jobs[i].t.Free()
		if b := t.jobs[i].budget; b != nil {
			b.give(t.jobs[i].held)
		}
		t.jobs[i] = job{}
	}
	t.jobs = t.jobs[:0]
}
