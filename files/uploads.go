package files

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Errors of uploads whose texts are replies.
var (
	ErrNoUpload = errors.New("ERR no such upload: it was committed or aborted, has expired, or never was")
	ErrSize     = errors.New("ERR the size of a file is from 0 to 2^50 bytes")
	ErrChunk    = errors.New("ERR the chunk size is a power of two from 4096 to 1048576")
	ErrOutside  = errors.New("ERR the piece does not lie within the upload's size")
	ErrParts    = errors.New("ERR the upload has as many parts as a record can list: write larger ones")
	ErrUploads  = errors.New("ERR too many uploads are open: commit or abort some")
)

const (
	// DeadlineDefault is how long an upload is kept that nobody commits.
	DeadlineDefault = 24 * time.Hour
	uploadsMax      = 10_000
	piecesMax       = 60_000
)

// Uploads knows which uploads there are and what has come of each, in memory; the truth stands in the private database. New makes it,
// recovery fills it.
type Uploads struct {
	space *keyspace.Space

	mu   sync.Mutex
	open map[ID]*upload
}

type upload struct {
	key      *uploadKey
	stored   []byte // the key's bytes
	deadline int64  // store time, ms
	segments segments
	pieces   []*piece
	number   uint64 // the next piece's
	pointers int    // bytes that the commit's record will need, about
}

type piece struct {
	key    *pieceKey
	stored []byte
}

// New registers the types of files with a space, before the volume is opened.
func New(s *keyspace.Space) *Uploads {
	u := &Uploads{space: s, open: map[ID]*upload{}}
	s.Register(keyspace.TypeFile, plainType("file"))
	s.Register(keyspace.TypeUpload, uploadType{plainType("upload"), u})
	s.RegisterElements(elementsKind, elementsKind, u)
	return u
}

// Of returns what New made for a space; nil: nothing.
func Of(s *keyspace.Space) *Uploads {
	t, _ := s.TypeOf(keyspace.TypeUpload).(uploadType)
	return t.u
}

// plainType is a keyspace.Type whose values are one record or a blob, and need no care.
type plainType string

func (p plainType) Name() string                      { return string(p) }
func (plainType) Drop(uint64, keyspace.Ledger)        {}
func (plainType) Flush(uint16, keyspace.Ledger)       {}
func (plainType) Found(table uint16, n int, r uint64) {}

type uploadType struct {
	plainType
	u *Uploads
}

// elementsKind is a kind of record that nobody writes: it makes the keyspace tell when recovery begins and ends.
const elementsKind volume.Kind = 250

// Meta implements keyspace.Elements.
func (u *Uploads) Meta(_ volume.Kind, payload []byte) int { return len(payload) }

// Replay implements keyspace.Elements: there are no such records.
func (u *Uploads) Replay(*volume.Volume, volume.Record) error {
	return fmt.Errorf("a record of kind %d: %w", elementsKind, volume.ErrCorrupt)
}

// Live implements keyspace.Elements.
func (u *Uploads) Live(*volume.Volume, volume.Record) bool { return false }

// Move implements keyspace.Elements.
func (u *Uploads) Move(*volume.Volume, volume.Record) (bool, error) { return false, nil }

// Reset implements keyspace.Elements.
func (u *Uploads) Reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open = map[ID]*upload{}
}

// Settle implements keyspace.Elements: it makes the list of uploads from their keys.
func (u *Uploads) Settle(*volume.Volume, *volume.Delta) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var pieces []*piece
	var bad error
	u.space.EachKey(u.space.Private(keyspace.PrivateUploads), func(key []byte, expiry int64) {
		k, p, err := decodeUploadKey(key)
		switch {
		case err != nil:
			bad = err
		case k != nil:
			u.open[k.id] = &upload{key: k, stored: append([]byte(nil), key...), deadline: expiry}
		default:
			pieces = append(pieces, &piece{key: p, stored: append([]byte(nil), key...)})
		}
	})
	slices.SortFunc(pieces, func(a, b *piece) int { return cmp.Compare(a.key.number, b.key.number) })
	for _, p := range pieces {
		if x := u.open[p.key.id]; x != nil { // else it expires soon, as its upload did
			x.add(p)
		}
	}
	return bad
}

func (x *upload) add(p *piece) {
	x.pieces = append(x.pieces, p)
	x.segments.lay(p)
	x.number = max(x.number, p.key.number+1)
	x.pointers += pieceBytes
}

// pieceBytes is about what a piece takes in the record of the file: it and its part's pointer, with one extent and a few tags.
const pieceBytes = 256

// BeginOptions of an upload.
type BeginOptions struct {
	Size     int64 // -1: unknown until the commit
	Chunk    int   // bytes; 0: by the size of each part
	Lifetime time.Duration
}

// Plan is what a command on an upload locks; the command gets it back. Plans are made before the transaction begins.
type Plan struct {
	Keys [][]byte // for Begin
	x    *upload
	key  *uploadKey
	p    *piece
	n    int // pieces that Keys has
}

// PlanBegin makes the plan of a new upload.
func (u *Uploads) PlanBegin(name []byte, now int64, o BeginOptions) (*Plan, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	switch {
	case o.Size < -1 || o.Size > sizeMax:
		return nil, ErrSize
	case o.Chunk != 0 && (o.Chunk < 4096 || o.Chunk > 1<<20 || o.Chunk&(o.Chunk-1) != 0):
		return nil, ErrChunk
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.purge(now)
	if len(u.open) >= uploadsMax {
		return nil, ErrUploads
	}
	k := &uploadKey{size: o.Size, begun: now, chunk: o.Chunk, name: append([]byte(nil), name...)}
	for k.id == 0 || u.open[k.id] != nil {
		k.id = ID(rand.Uint64())
	}
	return &Plan{Keys: [][]byte{k.encode()}, key: k}, nil
}

// Begin makes the upload and returns its id.
func (u *Uploads) Begin(t *keyspace.Tx, p *Plan, o BeginOptions) (ID, error) {
	uploads(t)
	if o.Lifetime <= 0 {
		o.Lifetime = DeadlineDefault
	}
	deadline := t.Now() + o.Lifetime.Milliseconds()
	if err := t.Reserve(keyspace.PutSize(len(p.Keys[0]), 0), 1, volume.ClassNormal); err != nil {
		return 0, err
	}
	t.Put(p.Keys[0], keyspace.Put{Type: keyspace.TypeUpload, Expiry: deadline, Event: "fbegin"})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open[p.key.id] = &upload{key: p.key, stored: p.Keys[0], deadline: deadline}
	return p.key.id, nil
}

func uploads(t *keyspace.Tx) { t.Use(t.Private(keyspace.PrivateUploads)) }

// get returns an upload that is open.
func (u *Uploads) get(id ID) (*upload, error) {
	if x := u.open[id]; x != nil {
		return x, nil
	}
	return nil, ErrNoUpload
}

// Chunk returns the chunk size that an upload asked for, 0 if none.
func (u *Uploads) Chunk(id ID) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if x := u.open[id]; x != nil {
		return x.key.chunk
	}
	return 0
}

// PlanWrite makes the plan of a piece.
func (u *Uploads) PlanWrite(id ID, offset, length int64) (*Plan, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x, err := u.get(id)
	switch {
	case err != nil:
		return nil, err
	case offset < 0:
		return nil, ErrOffset
	case offset > sizeMax-length || x.key.size >= 0 && offset+length > x.key.size:
		return nil, ErrOutside
	case length == 0:
		return &Plan{Keys: [][]byte{x.stored}, x: x}, nil
	case len(x.pieces) >= piecesMax:
		return nil, ErrParts
	}
	k := &pieceKey{id: id, number: x.number, offset: offset, length: length}
	x.number++
	return &Plan{Keys: [][]byte{x.stored, k.encode()}, x: x, p: &piece{key: k}}, nil
}

// Write adds a piece: the blob that was written of it as a part of a file, or data.
func (u *Uploads) Write(t *keyspace.Tx, p *Plan, data []byte, body *volume.Blob) error {
	uploads(t)
	deadline, err := u.alive(t, p)
	if err != nil || p.p == nil {
		return err
	}
	if body == nil {
		if body, err = t.WriteFilePart(p.x.key.chunk, data); err != nil {
			return err
		}
	}
	u.mu.Lock()
	room := t.MaxRecord()*7/8 - p.x.pointers // the rest is for name and attributes
	u.mu.Unlock()
	need := compoundPiece + body.PointerSize()
	if need > room {
		return ErrParts
	}
	key := p.Keys[1]
	if err := t.Reserve(keyspace.PutBlobSize(len(key), body), 1, volume.ClassNormal); err != nil {
		return err
	}
	t.PutBlob(key, keyspace.Put{Type: keyspace.TypeUpload, Expiry: deadline, Event: "fwrite"}, body)
	u.mu.Lock()
	defer u.mu.Unlock()
	p.p.stored = key
	p.x.add(p.p)
	p.x.pointers += need - pieceBytes
	return nil
}

// compoundPiece is what a piece takes in a compound's pointer beside its part's.
const compoundPiece = 32

// alive makes sure that the upload is still there, under its lock.
func (u *Uploads) alive(t *keyspace.Tx, p *Plan) (deadline int64, err error) {
	it, err := t.Find(p.Keys[0])
	if err != nil {
		return 0, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	id := p.x.key.id
	if it.Exists() && u.open[id] == p.x {
		return it.Expiry, nil
	}
	if !it.Exists() && u.open[id] == p.x {
		delete(u.open, id)
	}
	return 0, ErrNoUpload
}

// PlanEnd makes the plan of a commit (which changes name, too) or an abort.
func (u *Uploads) PlanEnd(id ID, commit bool) (*Plan, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x, err := u.get(id)
	if err != nil {
		return nil, err
	}
	p := &Plan{Keys: [][]byte{x.stored}, x: x, n: len(x.pieces)}
	for _, q := range x.pieces {
		p.Keys = append(p.Keys, q.stored)
	}
	if commit {
		p.Keys = append(p.Keys, x.key.name)
	}
	return p, nil
}

// errChanged has the command run again with a new plan.
var errChanged = fmt.Errorf("a piece came meanwhile: %w", volume.ErrBusy)

// removals lists the keys of an upload, if the plan still has them all.
func (u *Uploads) removals(t *keyspace.Tx, p *Plan) ([]removal, error) {
	if _, err := u.alive(t, p); err != nil {
		return nil, err
	}
	u.mu.Lock()
	stale := len(p.x.pieces) != p.n
	u.mu.Unlock()
	if stale {
		return nil, errChanged
	}
	gone := make([]removal, 0, 1+p.n)
	for _, key := range p.Keys[:1+p.n] {
		it, err := t.Find(key)
		if err != nil {
			return nil, err
		}
		if it.Exists() {
			gone = append(gone, removal{t.Private(keyspace.PrivateUploads), key})
		}
	}
	return gone, nil
}

// Commit makes the upload the file of its name, over what that had; done is false if NX or XX did not hold: then the upload stays.
func (u *Uploads) Commit(t *keyspace.Tx, p *Plan, o PutOptions) (done bool, err error) {
	uploads(t)
	gone, err := u.removals(t, p)
	if err != nil {
		return false, err
	}
	u.mu.Lock()
	list, key := p.x.segments, p.x.key
	u.mu.Unlock()
	if g, missing := list.gap(key.size); missing {
		return false, g.error()
	}
	pieces, err := piecesOf(t, list)
	if err != nil {
		return false, err
	}
	use(t)
	if ok, err := allows(t, key.name, o.NX, o.XX); !ok || err != nil {
		return false, err
	}
	head, err := (&attrs{begun: key.begun, committed: max(t.Now(), key.begun), meta: o.Meta}).encode()
	if err != nil {
		return false, err
	}
	if len(pieces) > 0 {
		err = putParts(t, key.name, head, pieces, gone)
	} else {
		err = putEmpty(t, key.name, head, gone)
	}
	if err != nil {
		return false, err
	}
	u.forget(key.id)
	return true, nil
}

// putEmpty makes a file of no bytes.
func putEmpty(t *keyspace.Tx, name, head []byte, gone []removal) error {
	if err := t.Reserve(keyspace.PutSize(len(name), len(head))+keyspace.DeleteSize(len(gone[0].key)), 2, volume.ClassNormal); err != nil {
		return err
	}
	t.Put(name, keyspace.Put{Type: keyspace.TypeFile, Event: "fput"}, head)
	t.Use(gone[0].db)
	t.Remove(gone[0].key, "fcommit")
	return nil
}

// piecesOf finds the blobs of segments; neighbours in one part become one.
func piecesOf(t *keyspace.Tx, list segments) (out []volume.CompoundPiece, err error) {
	blobs := map[*piece]*volume.Blob{}
	for i := range list {
		s := &list[i]
		b := blobs[s.piece]
		if b == nil {
			var it keyspace.Item
			if _, b, it, err = t.View(s.piece.stored, keyspace.TypeUpload); err != nil {
				return nil, err
			}
			if !it.Exists() || b == nil {
				return nil, ErrNoUpload // its time has come
			}
			blobs[s.piece] = b
		}
		out = append(out, volume.CompoundPiece{Blob: b, From: s.from, To: s.from + s.length})
	}
	return out, nil
}

// Abort throws an upload away.
func (u *Uploads) Abort(t *keyspace.Tx, p *Plan) error {
	uploads(t)
	gone, err := u.removals(t, p)
	if err != nil {
		return err
	}
	size := 0
	for _, g := range gone {
		size += keyspace.DeleteSize(len(g.key))
	}
	if err := t.Reserve(size, len(gone), volume.ClassReclaim); err != nil {
		return err
	}
	for _, g := range gone {
		t.Remove(g.key, "fabort")
	}
	u.forget(p.x.key.id)
	return nil
}

func (u *Uploads) forget(id ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, id)
}

// purge forgets uploads whose time has come; the keyspace deletes their keys.
func (u *Uploads) purge(now int64) {
	for id, x := range u.open {
		if x.deadline <= now {
			delete(u.open, id)
		}
	}
}

// UploadInfo is what FUPLOADS tells of an upload.
type UploadInfo struct {
	ID              ID
	Name            []byte
	Size            int64 // -1: unknown
	Bytes           int64 // that have come
	Parts           int
	Begun, Deadline int64
	Spans           []Span
}

// List tells of all uploads, oldest first, or of one.
func (u *Uploads) List(now int64, only ID) (out []UploadInfo) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.purge(now)
	for id, x := range u.open {
		if only != 0 && id != only {
			continue
		}
		i := UploadInfo{ID: id, Name: x.key.name, Size: x.key.size, Parts: len(x.pieces), Begun: x.key.begun, Deadline: x.deadline, Spans: x.segments.spans()}
		for _, s := range i.Spans {
			i.Bytes += s.To - s.From
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b UploadInfo) int { return cmp.Or(cmp.Compare(a.Begun, b.Begun), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Count returns how many uploads are open.
func (u *Uploads) Count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.open)
}
