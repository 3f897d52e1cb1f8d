package command

import (
	"bytes"
	"strconv"

	"cvmstore/kvs"
	"cvmstore/volume"
)

// scriptValueMax is the longest value that a script may read, in bytes.
const scriptValueMax = 64 << 20

// TakesBody says whether argument number arg of a command, counted from its name on, may be a large value that is sealed while it
// arrives. The handler then finds it in Ctx.Body, and the argument empty.
func TakesBody(name []byte, arg int) bool {
	c := find(name)
	return c != nil && c.Body == arg && arg > 0
}

// BlobPart is a part of a blob that stands in a reply: the loop sends it, piece by piece, between the bytes before and those
// from At on. It holds a reference.
type BlobPart struct {
	At       int // in Reply.Buf
	Key      []byte
	Blob     *volume.Blob
	From, To int64
}

// blob appends a bulk string that is a part of a blob.
func (r *Reply) blob(key []byte, v *kvs.Value) {
	r.Buf = append(r.Buf, '$')
	r.Buf = strconv.AppendInt(r.Buf, v.To-v.From, 10)
	r.Buf = append(r.Buf, '\r', '\n')
	v.Blob.Retain()
	r.Blobs = append(r.Blobs, BlobPart{len(r.Buf), bytes.Clone(key), v.Blob, v.From, v.To})
	r.Buf = append(r.Buf, '\r', '\n')
}

// Cut drops what was appended from length n on.
func (r *Reply) Cut(n int) {
	r.Buf = r.Buf[:n]
	for len(r.Blobs) > 0 && r.Blobs[len(r.Blobs)-1].At > n {
		last := len(r.Blobs) - 1
		r.Blobs[last].Blob.Release(0)
		r.Blobs[last] = BlobPart{}
		r.Blobs = r.Blobs[:last]
	}
}

// value answers with a value. A blob of one chunk is read first, so that damage is an ordinary error; a longer one is sent while it
// is read.
func (c *Ctx) value(key []byte, v kvs.Value) error {
	if err := c.inMemory(&v); err != nil {
		return err
	}
	switch {
	case v.Blob == nil:
		c.Reply.BulkOrNull(v.Bytes, v.OK)
	case !c.Rehearsal:
		c.Reply.blob(key, &v)
	}
	return nil
}

// inMemory loads a part of a blob that is not worth streaming.
func (c *Ctx) inMemory(v *kvs.Value) (err error) {
	if v.Blob != nil && c.Script && v.To-v.From > scriptValueMax {
		return Error("ERR a value of this size cannot be read by a script")
	}
	if v.Blob != nil && (c.Script || v.To-v.From <= int64(v.Blob.ChunkBytes())) {
		v.Bytes, err = c.Tx.LoadRange(nil, v.Blob, v.From, v.To)
		v.Blob = nil
	}
	return err
}
