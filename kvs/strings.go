package kvs

import (
	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Encodings of strings, as OBJECT ENCODING names them. They are on disk.
const (
	encodingRaw    = 0
	encodingInt    = 1
	encodingEmbstr = 2

	embstrMax = 44 // bytes; Redis' limit
)

// encodingOf returns the encoding that Redis gives a value when it is set whole.
func encodingOf(val []byte) uint8 {
	if _, ok := parseInt(val); ok {
		return encodingInt
	}
	if len(val) <= embstrMax {
		return encodingEmbstr
	}
	return encodingRaw
}

// Get returns the value of a key; ok is false if it is absent.
func Get(t *keyspace.Tx, key []byte) (val []byte, ok bool, err error) {
	val, it, err := t.Load(key, keyspace.TypeString)
	return val, it.Exists() && err == nil, err
}

// StrLen returns the length of a value, 0 if the key is absent. It reads no value.
func StrLen(t *keyspace.Tx, key []byte) (int, error) {
	it, err := find(t, key)
	return it.ValueSize, err
}

// find looks up a key that must be a string or absent.
func find(t *keyspace.Tx, key []byte) (keyspace.Item, error) {
	it, err := t.Find(key)
	if err == nil && it.Exists() && it.Type != keyspace.TypeString {
		err = keyspace.ErrWrongType
	}
	return it, err
}

// SetOptions of a SET.
type SetOptions struct {
	Body    *volume.Blob // the value, instead of val; the caller keeps its reference
	NX, XX  bool         // only if the key is absent; only if it exists
	KeepTTL bool         // the key's expiry stays
	Get     bool         // return the old value; the key must be a string or absent
	Before  Before       // instead of Get: is given the old value, unread if it is a blob
	Expiry  int64        // absolute store time, ms; 0: never (unless KeepTTL)
}

// Before is given a value that a command is about to replace, delete or let expire, before anything has changed: what it keeps of it
// beyond the transaction it takes a reference of. The command ends with its error.
type Before func(old Value) error

// SetResult is what a SET did.
type SetResult struct {
	Set   bool   // false: NX or XX did not hold
	Old   []byte // with Get: the old value, valid until End
	OldOK bool   // with Get: there was one
}

// Set sets a key to a value, whatever it held.
func Set(t *keyspace.Tx, key, val []byte, o SetOptions) (SetResult, error) {
	var res SetResult
	v := source{bytes: val, body: o.Body}
	if err := checkSize(t, key, v.size()); err != nil {
		return res, err
	}
	if o.Get {
		var err error
		if res.Old, res.OldOK, err = Get(t, key); err != nil {
			return SetResult{}, err
		}
	}
	if o.Before != nil {
		old, err := View(t, key)
		if err == nil {
			err = o.Before(old)
		}
		if err != nil {
			return SetResult{}, err
		}
	}
	expiry := o.Expiry
	if o.NX || o.XX || o.KeepTTL {
		it, err := t.Find(key)
		if err != nil {
			return SetResult{}, err
		}
		if o.NX && it.Exists() || o.XX && !it.Exists() {
			return res, nil
		}
		if o.KeepTTL {
			expiry = it.Expiry
		}
	}
	c, err := prepare(t, key, v)
	if err == nil {
		err = t.Reserve(c.reserve(key), 1, volume.ClassNormal)
	}
	if err != nil {
		return SetResult{}, err
	}
	put(t, key, c, expiry, "set")
	if o.Expiry != 0 {
		t.Also(key, "expire")
	}
	res.Set = true
	return res, nil
}

// put writes a whole value.
func put(t *keyspace.Tx, key []byte, c content, expiry int64, event string) {
	encoding := uint8(encodingRaw)
	if c.blob == nil {
		encoding = encodingOf(c.parts[0])
	}
	c.put(t, key, keyspace.Put{Type: keyspace.TypeString, Encoding: encoding, Expiry: expiry, Event: event})
}

// SetNX sets a key that is absent, and says whether it was.
func SetNX(t *keyspace.Tx, key, val []byte) (bool, error) {
	res, err := Set(t, key, val, SetOptions{NX: true})
	return res.Set, err
}

// GetSet sets a key and returns its old value.
func GetSet(t *keyspace.Tx, key, val []byte) (old []byte, ok bool, err error) {
	res, err := Set(t, key, val, SetOptions{Get: true})
	return res.Old, res.OldOK, err
}

// GetDel returns the value of a key and deletes it.
func GetDel(t *keyspace.Tx, key []byte) (val []byte, ok bool, err error) {
	err = TakeDel(t, key, func(old Value) error {
		ok = old.OK
		val, err = old.load(t)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return val, ok, nil
}

// TakeDel is GetDel that reads no blob.
func TakeDel(t *keyspace.Tx, key []byte, before Before) error {
	old, err := View(t, key)
	if err == nil {
		err = before(old)
	}
	if err != nil || !old.OK {
		return err
	}
	if err := t.Reserve(keyspace.DeleteSize(len(key)), 1, volume.ClassReclaim); err != nil {
		return err
	}
	t.Remove(key, "del")
	return nil
}

// load reads what a value has of a blob.
func (v *Value) load(t *keyspace.Tx) ([]byte, error) {
	if v.Blob == nil {
		return v.Bytes, nil
	}
	return t.LoadRange(nil, v.Blob, v.From, v.To)
}

// GetExOptions of a GETEX. The zero value changes nothing.
type GetExOptions struct {
	Persist bool  // take the expiry away
	Expiry  int64 // absolute store time, ms, if Expire is set; one that has come deletes the key
	Expire  bool  // Expiry is meant
}

// GetEx hands on the value of a key, blobs unread, and changes when it goes.
func GetEx(t *keyspace.Tx, key []byte, o GetExOptions, before Before) error {
	old, err := View(t, key)
	if err == nil {
		err = before(old)
	}
	switch {
	case err != nil || !old.OK:
	case o.Persist:
		_, err = t.Persist(key)
	case o.Expire:
		_, err = t.Expire(key, o.Expiry, 0)
	}
	return err
}

// GetRange returns the bytes from start to end, both included; negative ones count from the end of the value.
func GetRange(t *keyspace.Tx, key []byte, start, end int64) ([]byte, error) {
	v, err := ViewRange(t, key, start, end)
	if err != nil || v.Blob == nil {
		return v.Bytes, err
	}
	return t.LoadRange(nil, v.Blob, v.From, v.To)
}

// View is Get that reads no blob: see Value.
func View(t *keyspace.Tx, key []byte) (Value, error) {
	val, b, it, err := t.View(key, keyspace.TypeString)
	if err != nil || !it.Exists() {
		return Value{}, err
	}
	v := Value{Bytes: val, Blob: b, OK: true}
	if b != nil {
		v.To = b.Size()
	}
	return v, nil
}

// ViewRange is GetRange that reads no blob.
func ViewRange(t *keyspace.Tx, key []byte, start, end int64) (Value, error) {
	it, err := find(t, key)
	if err != nil || !it.Exists() {
		return Value{}, err
	}
	n := int64(it.ValueSize)
	if start < 0 && end < 0 && start > end {
		return Value{}, nil
	}
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	end = min(end, n-1)
	if n == 0 || start > end {
		return Value{}, nil
	}
	v, err := View(t, key)
	switch {
	case err != nil:
		return Value{}, err
	case v.Blob != nil:
		v.From, v.To = start, end+1
	default:
		v.Bytes = v.Bytes[start : end+1]
	}
	return v, nil
}

// Append appends to a value, which an absent key has empty, and returns the new length. The expiry stays.
func Append(t *keyspace.Tx, key, suffix []byte) (int, error) {
	return appendTo(t, key, source{bytes: suffix})
}

// AppendBody is Append of a blob, of which the caller keeps its reference.
func AppendBody(t *keyspace.Tx, key []byte, body *volume.Blob) (int, error) {
	return appendTo(t, key, source{body: body})
}

func appendTo(t *keyspace.Tx, key []byte, suffix source) (int, error) {
	old, b, it, err := t.View(key, keyspace.TypeString)
	if err != nil {
		return 0, err
	}
	n := it.ValueSize + suffix.size()
	if err := checkSize(t, key, n); err != nil {
		return 0, err
	}
	encoding := uint8(encodingRaw)
	if !it.Exists() {
		encoding = encodingOf(suffix.bytes)
	}
	c, err := prepare(t, key, source{bytes: old, body: b, lent: true}, suffix)
	if err != nil {
		return 0, err
	}
	if err := t.Reserve(c.reserve(key), 1, volume.ClassNormal); err != nil {
		return 0, err
	}
	c.put(t, key, keyspace.Put{Type: keyspace.TypeString, Encoding: encoding, Expiry: it.Expiry, Event: "append"})
	return n, nil
}
