package files

import (
	"errors"
	"fmt"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Errors whose texts are replies. None changes anything.
var (
	ErrNameEmpty   = errors.New("ERR the name of a file must not be empty")
	ErrNameTooLong = fmt.Errorf("ERR the name of a file exceeds the limit of %d bytes", NameMax)
	ErrNoFile      = errors.New("ERR no such file")
	ErrOffset      = errors.New("ERR the offset is negative")
	ErrLength      = errors.New("ERR the length is negative")
	ErrPastEnd     = errors.New("ERR the offset is past the end of the file")
)

// CheckName returns what is wrong with a name.
func CheckName(name []byte) error {
	switch {
	case len(name) == 0:
		return ErrNameEmpty
	case len(name) > NameMax:
		return ErrNameTooLong
	}
	return nil
}

// use makes the transaction one on files.
func use(t *keyspace.Tx) { t.Use(t.Private(keyspace.PrivateFiles)) }

// named says which file an error is about. Errors that only ask for another run stay as they are.
func named(name []byte, err error) error {
	if err == nil || errors.Is(err, keyspace.ErrMiss) || errors.Is(err, volume.ErrBusy) || !errors.Is(err, volume.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("file %q: %w", name, err)
}

// PutOptions of Put. NX and XX: only if the name does not exist yet, or does.
type PutOptions struct {
	NX, XX bool
	Meta   []Pair
	Body   *volume.Blob // the content, in place of data: written as a part of a file already. The reference stays the caller's
}

// Put makes a file, over what the name had; done is false if NX or XX did not hold. The transaction was begun with the name.
func Put(t *keyspace.Tx, name, data []byte, o PutOptions) (done bool, err error) {
	if err := CheckName(name); err != nil {
		return false, err
	}
	use(t)
	if ok, err := allows(t, name, o.NX, o.XX); !ok || err != nil {
		return false, err
	}
	now := t.Now()
	head, err := (&attrs{begun: now, committed: now, meta: o.Meta}).encode()
	if err != nil {
		return false, err
	}
	body := o.Body
	if body == nil && !inRecord(t, name, len(head)+len(data)) {
		if body, err = t.WriteFilePart(0, data); err != nil {
			return false, err
		}
	}
	if body != nil {
		return true, putParts(t, name, head, []volume.CompoundPiece{{Blob: body, To: body.Size()}}, nil)
	}
	if err := t.Reserve(keyspace.PutSize(len(name), len(head)+len(data)), 1, volume.ClassNormal); err != nil {
		return false, err
	}
	t.Put(name, keyspace.Put{Type: keyspace.TypeFile, Event: "fput"}, head, data)
	return true, nil
}

func allows(t *keyspace.Tx, name []byte, nx, xx bool) (bool, error) {
	if !nx && !xx {
		return true, nil
	}
	it, err := t.Find(name)
	return err == nil && !(nx && it.Exists()) && !(xx && !it.Exists()), err
}

// inRecord says whether a value of so many bytes is a record rather than a blob.
func inRecord(t *keyspace.Tx, name []byte, size int) bool {
	least := t.BlobBytes()
	return (least < 0 || size < least) && keyspace.PutSize(len(name), size) <= t.MaxRecord()
}

// removal is a key that goes in the same batch.
type removal struct {
	db  int
	key []byte
}

// putParts makes a file of pieces, whose blobs are flushed, and removes what gone names, in one batch.
func putParts(t *keyspace.Tx, name, head []byte, pieces []volume.CompoundPiece, gone []removal) error {
	b, err := t.Compound(head, pieces...)
	if err != nil {
		return err
	}
	defer b.Release(0)
	size := keyspace.PutBlobSize(len(name), b)
	if size > t.MaxRecord() {
		return fmt.Errorf("%d parts: %w", len(pieces), volume.ErrTooLarge)
	}
	for _, g := range gone {
		size += keyspace.DeleteSize(len(g.key))
	}
	if err := t.Reserve(size, 1+len(gone), volume.ClassNormal); err != nil {
		return err
	}
	t.PutBlob(name, keyspace.Put{Type: keyspace.TypeFile, Event: "fput"}, b)
	for _, g := range gone {
		t.Use(g.db)
		t.Remove(g.key, "fcommit")
	}
	return nil
}

// Range is a part of a file, to be read. It is valid until the transaction's End; who wants Blob longer takes a reference.
type Range struct {
	OK       bool         // the file exists
	Bytes    []byte       // of a small file: the part
	Blob     *volume.Blob // of a large one: the part is From up to To of it
	From, To int64
}

// Size returns the length of the part.
func (r *Range) Size() int64 {
	if r.Blob != nil {
		return r.To - r.From
	}
	return int64(len(r.Bytes))
}

// file is what a name stands for, looked up.
type file struct {
	ok      bool
	attrs   attrs
	content []byte
	blob    *volume.Blob
}

func (f *file) size() int64 {
	if f.blob != nil {
		return f.blob.Size()
	}
	return int64(len(f.content))
}

func open(t *keyspace.Tx, name []byte) (f file, err error) {
	if err := CheckName(name); err != nil {
		return f, err
	}
	use(t)
	val, b, it, err := t.View(name, keyspace.TypeFile)
	if err != nil || !it.Exists() {
		return f, named(name, err)
	}
	f.ok, f.blob = true, b
	if b != nil {
		f.attrs, _, err = decodeAttrs(b.Attrs())
	} else {
		f.attrs, f.content, err = decodeAttrs(val)
	}
	return f, named(name, err)
}

// View returns the part of a file of length bytes from offset on; less where the file ends, all that follows if length is negative.
func View(t *keyspace.Tx, name []byte, offset, length int64) (Range, error) {
	f, err := open(t, name)
	if err != nil || !f.ok {
		return Range{}, err
	}
	switch size := f.size(); {
	case offset < 0:
		return Range{}, ErrOffset
	case offset > size:
		return Range{}, ErrPastEnd
	case length < 0 || length > size-offset:
		length = size - offset
	}
	if f.blob == nil || length == 0 {
		return Range{OK: true, Bytes: append([]byte{}, f.content[min(offset, int64(len(f.content))):min(offset+length, int64(len(f.content)))]...)}, nil
	}
	return Range{OK: true, Blob: f.blob, From: offset, To: offset + length}, nil
}

// Load returns the bytes of a part that View has returned, from the device if need be.
func (r *Range) Load(t *keyspace.Tx, name []byte) ([]byte, error) {
	if r.Blob == nil {
		return r.Bytes, nil
	}
	b, err := t.LoadRange(nil, r.Blob, r.From, r.To)
	return b, named(name, err)
}

// Info is what FSTAT tells of a file.
type Info struct {
	OK               bool // it exists
	Size             int64
	Begun, Committed int64 // store time, ms
	Chunk            int   // bytes, in which it is sealed and read; 0: it is one record
	Parts            int
	Meta             []Pair // valid until End
}

// Stat tells of a file.
func Stat(t *keyspace.Tx, name []byte) (Info, error) {
	f, err := open(t, name)
	if err != nil || !f.ok {
		return Info{}, err
	}
	i := Info{OK: true, Size: f.size(), Begun: f.attrs.begun, Committed: f.attrs.committed, Meta: f.attrs.meta, Parts: 1}
	if f.blob != nil {
		i.Chunk, i.Parts = f.blob.ChunkBytes(), len(f.blob.Pieces())
	}
	return i, nil
}

// Root returns what stands for all of a file: a keyed hash over its record, which holds the tops of the parts' trees. It changes
// with each version, also with one of the same content, since that is sealed anew.
func Root(t *keyspace.Tx, name []byte) (root [32]byte, size int64, ok bool, err error) {
	f, err := open(t, name)
	if err != nil || !f.ok {
		return root, 0, false, err
	}
	var b []byte
	if f.blob != nil {
		b = make([]byte, 1+f.blob.PointerSize())
		f.blob.PutPointer(b[1:])
	} else {
		head, err := f.attrs.encode()
		if err != nil {
			return root, 0, false, err
		}
		b = append(append([]byte{0}, head...), f.content...)
	}
	sum := t.KeyedHash(volume.StoreFiles, b)
	for i, w := range sum {
		le.PutUint64(root[8*i:], w)
	}
	return root, f.size(), true, nil
}

// Verify reads all of a file from the device and checks it, without keeping it.
func Verify(t *keyspace.Tx, name []byte) (size int64, err error) {
	f, err := open(t, name)
	if err != nil {
		return 0, err
	}
	if !f.ok {
		return 0, ErrNoFile
	}
	return f.size(), named(name, t.CheckValue(name))
}

// Delete deletes the files that exist and returns how many. A name that stands twice counts once.
func Delete(t *keyspace.Tx, names [][]byte) (int, error) {
	for _, n := range names {
		if err := CheckName(n); err != nil {
			return 0, err
		}
	}
	use(t)
	return t.Del(names)
}

// Exists counts the names that exist; one that stands twice counts twice.
func Exists(t *keyspace.Tx, names [][]byte) (int, error) {
	for _, n := range names {
		if err := CheckName(n); err != nil {
			return 0, err
		}
	}
	use(t)
	return t.Exists(names)
}

// Rename gives a file another name, over what that had; with nx only if it is free. The transaction was begun with both.
func Rename(t *keyspace.Tx, from, to []byte, nx bool) (done bool, err error) {
	if err := errors.Join(CheckName(from), CheckName(to)); err != nil {
		return false, err
	}
	use(t)
	done, found, err := t.Rename(from, to, nx)
	if err == nil && !found {
		err = ErrNoFile
	}
	return done, named(from, err)
}

// Scan is keyspace's Scan over the names of files.
func Scan(s *keyspace.Space, t *keyspace.Tx, cursor uint64, o keyspace.ScanOptions, emit func(name []byte)) (uint64, error) {
	return s.Scan(t, s.Private(keyspace.PrivateFiles), cursor, o, emit)
}
