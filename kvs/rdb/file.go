package rdb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	stdcrc "hash/crc64"
	"io"
	"math"
	"strconv"
)

// A whole file: "REDIS", the version in four digits, then entries, each an opcode or a type with key and value, then opEnd and the
// CRC-64 of all before it. A number below opFirst where an opcode may stand is the type of a key's value.
const (
	opFunctions  = 0xf5 // a library's source: a string
	opModule     = 0xf7
	opIdle       = 0xf8 // length: seconds
	opFrequency  = 0xf9 // a byte
	opAux        = 0xfa // two strings: what wrote the file
	opResize     = 0xfb // two lengths: keys, keys with expiry
	opExpiryMs   = 0xfc // 8 bytes, little-endian
	opExpiry     = 0xfd // 4 bytes, little-endian, seconds
	opDatabase   = 0xfe // length
	opEnd        = 0xff
	opFirst      = 0xf5
	magic        = "REDIS"
	versionLast  = 12
	versionCRC   = 5         // the first that ends with a CRC
	stringMax    = 512 << 20 // bytes of one string
	partItems    = 512       // items of a part
	partBytes    = 1 << 20   // bytes of a part, beyond which no further item is added
	readAheadMax = 1 << 20   // bytes that are allocated before they have come
)

// ErrUnsupported: the file holds something that this version cannot read: a stream, a module's value.
var ErrUnsupported = errors.New("values of this type cannot be read from RDB files")

// Part is a key with all of its value, or with some of the items of a collection. The parts of a key follow each other. Its slices
// are the caller's.
type Part struct {
	DB     int
	Key    []byte
	Expiry int64 // ms since the Unix epoch; 0: never
	First  bool  // of its key
	Last   bool
	Value  // of a hash, Items has whole pairs
}

// File reads a file from its beginning to its end, in parts of bounded size. What it reads may be damaged or made to do harm.
type File struct {
	in      *bufio.Reader
	crc     uint64
	offset  int64
	version int
	db      int
	expiry  int64

	// of a collection that has been read in part
	key  []byte
	typ  byte
	left int
}

// NewFile reads the header.
func NewFile(in *bufio.Reader) (*File, error) {
	f := &File{in: in, crc: ^uint64(0)}
	head, err := f.take(len(magic) + 4)
	if err != nil {
		return nil, err
	}
	f.version, err = strconv.Atoi(string(head[len(magic):]))
	if string(head[:len(magic)]) != magic || err != nil || f.version < 1 || f.version > versionLast {
		return nil, f.bad("this is no RDB file of version 1 to " + strconv.Itoa(versionLast))
	}
	return f, nil
}

// Offset is how many bytes have been read.
func (f *File) Offset() int64 { return f.offset }

// Next returns the next part; io.EOF after the last, when the file's check was right.
func (f *File) Next() (*Part, error) {
	if f.left > 0 {
		return f.more(false)
	}
	for {
		op, err := f.byte()
		if err != nil {
			return nil, err
		}
		switch {
		case op == opEnd:
			return nil, f.end()
		case op >= opFirst:
			err = f.operation(op)
		default:
			return f.keyOf(op)
		}
		if err != nil {
			return nil, err
		}
	}
}

func (f *File) operation(op byte) (err error) {
	skip := func(strings int) {
		for range strings {
			if err == nil {
				_, err = f.string()
			}
		}
	}
	switch op {
	case opAux:
		skip(2)
	case opFunctions:
		skip(1)
	case opIdle:
		_, err = f.length()
	case opFrequency:
		_, err = f.byte()
	case opResize:
		if _, err = f.length(); err == nil {
			_, err = f.length()
		}
	case opDatabase:
		f.db, err = f.length()
	case opExpiry:
		var b []byte
		if b, err = f.take(4); err == nil {
			f.expiry = int64(binary.LittleEndian.Uint32(b)) * 1000
		}
	case opExpiryMs:
		var b []byte
		if b, err = f.take(8); err == nil {
			f.expiry = int64(binary.LittleEndian.Uint64(b))
		}
	case opModule:
		err = fmt.Errorf("RDB file, byte %d: a module's data: %w", f.offset, ErrUnsupported)
	default:
		err = f.bad("unknown opcode")
	}
	return err
}

// keyOf reads a key and its value, or the first part of it.
func (f *File) keyOf(typ byte) (*Part, error) {
	key, err := f.string()
	if err != nil {
		return nil, err
	}
	f.key, f.typ = key, typ
	switch typ {
	case typeString:
		val, err := f.string()
		if err != nil {
			return nil, err
		}
		p := f.part(true)
		p.Items = [][]byte{val}
		return f.last(p), nil
	case typeList, typeSet, typeHash, typeZSet, typeZSetText, typeQuicklist, typeQuicklist2:
		if f.left, err = f.length(); err != nil {
			return nil, err
		}
		if f.left == 0 {
			return nil, f.bad("an empty collection")
		}
		return f.more(true)
	case typeHashZipmap, typeListZiplist, typeSetIntset, typeZSetZiplist, typeHashZiplist, typeHashListpack, typeZSetListpack, typeSetListpack:
		blob, err := f.string()
		if err != nil {
			return nil, err
		}
		p := f.part(true)
		p.Kind = kinds[typ]
		if !p.compact(typ, blob) || !p.valid() {
			return nil, f.bad("a damaged value")
		}
		return f.last(p), nil
	}
	return nil, fmt.Errorf("RDB file, byte %d: key %.100q has type %d: %w", f.offset, key, typ, ErrUnsupported)
}

// kinds of collections that stand in one string.
var kinds = map[byte]Kind{
	typeHashZipmap: KindHash, typeListZiplist: KindList, typeSetIntset: KindSet, typeZSetZiplist: KindZSet, typeHashZiplist: KindHash,
	typeHashListpack: KindHash, typeZSetListpack: KindZSet, typeSetListpack: KindSet,
}

func (f *File) part(first bool) *Part {
	return &Part{DB: f.db, Key: f.key, Expiry: f.expiry, First: first}
}

// last ends a key.
func (f *File) last(p *Part) *Part {
	p.Last, f.expiry, f.key = true, 0, nil
	return p
}

// more reads some more of a collection.
func (f *File) more(first bool) (*Part, error) {
	p := f.part(first)
	size := 0
	for f.left > 0 && len(p.Items) < partItems && size < partBytes {
		before := len(p.Items)
		if err := f.item(p); err != nil {
			return nil, err
		}
		f.left--
		for _, item := range p.Items[before:] {
			size += len(item)
		}
	}
	if f.left == 0 {
		return f.last(p), nil
	}
	return p, nil
}

// item reads one element: a string, a pair, a member with its score, or a node of a list.
func (f *File) item(p *Part) error {
	container := quicklistListpack
	var err error
	switch f.typ {
	case typeList:
		p.Kind = KindList
	case typeSet:
		p.Kind = KindSet
	case typeHash:
		p.Kind = KindHash
	case typeZSet, typeZSetText:
		p.Kind = KindZSet
	case typeQuicklist, typeQuicklist2:
		p.Kind = KindList
		if f.typ == typeQuicklist2 {
			if container, err = f.length(); err != nil {
				return err
			}
		}
	}
	s, err := f.string()
	if err != nil {
		return err
	}
	ok := true
	switch {
	case f.typ == typeQuicklist:
		p.Items, ok = ziplist(s, p.Items)
	case f.typ == typeQuicklist2 && container == quicklistListpack:
		p.Items, ok = listpack(s, p.Items)
	case f.typ == typeQuicklist2 && container != quicklistPlain:
		ok = false
	default:
		p.Items = append(p.Items, s)
	}
	if !ok {
		return f.bad("a damaged list")
	}
	return f.second(p)
}

// second reads what belongs to an element: a hash's value, a score.
func (f *File) second(p *Part) error {
	switch f.typ {
	case typeHash:
		val, err := f.string()
		p.Items = append(p.Items, val)
		return err
	case typeZSet:
		b, err := f.take(8)
		if err != nil {
			return err
		}
		p.Scores = append(p.Scores, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case typeZSetText:
		n, err := f.byte()
		if err != nil {
			return err
		}
		b := []byte{n}
		if n < 253 {
			text, err := f.take(int(n))
			if err != nil {
				return err
			}
			b = append(b, text...)
		}
		score, ok := (&reader{p: b}).textDouble()
		if !ok {
			return f.bad("a score that is no number")
		}
		p.Scores = append(p.Scores, score)
	}
	if n := len(p.Scores); n > 0 && math.IsNaN(p.Scores[n-1]) {
		return f.bad("a score that is no number")
	}
	return nil
}

// end compares the check.
func (f *File) end() error {
	if f.version < versionCRC {
		return io.EOF
	}
	want := ^f.crc
	b, err := f.take(8)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(b); got != 0 && got != want { // 0: it was written without
		return f.bad("its check does not match: it was damaged")
	}
	return io.EOF
}

func (f *File) bad(what string) error {
	return fmt.Errorf("RDB file, byte %d: %s: %w", f.offset, what, ErrFormat)
}

// take reads n bytes. Memory is allocated as they come, so a length that is a lie costs no more than the file's.
func (f *File) take(n int) ([]byte, error) {
	var b []byte
	var err error
	if n <= readAheadMax {
		b = make([]byte, n)
		_, err = io.ReadFull(f.in, b)
	} else {
		var buf bytes.Buffer
		_, err = io.CopyN(&buf, f.in, int64(n))
		b = buf.Bytes()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, f.bad("it ends in the middle")
	}
	f.crc = stdcrc.Update(f.crc, crcTable, b)
	f.offset += int64(len(b))
	return b, err
}

func (f *File) byte() (byte, error) {
	b, err := f.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// header reads the form of a length or string: the number, or which special form stands in its place.
func (f *File) header() (n int, special bool, err error) {
	b, err := f.take(1)
	if err != nil {
		return 0, false, err
	}
	more := 0
	switch {
	case b[0]>>6 == form14:
		more = 1
	case b[0] == long32:
		more = 4
	case b[0] == long64:
		more = 8
	}
	rest, err := f.take(more)
	if err != nil {
		return 0, false, err
	}
	n, special, ok := (&reader{p: append(b, rest...)}).length()
	if !ok {
		return 0, false, f.bad("an unknown form of a length")
	}
	return n, special, nil
}

func (f *File) length() (int, error) {
	n, special, err := f.header()
	if err == nil && special {
		err = f.bad("no length where one must be")
	}
	return n, err
}

func (f *File) string() ([]byte, error) {
	n, special, err := f.header()
	switch {
	case err != nil:
		return nil, err
	case !special && n > stringMax:
		return nil, f.bad("a string that is too long")
	case !special:
		return f.take(n)
	case n != specialLZF:
		sizes := [...]int{special8: 1, special16: 2, special32: 4}
		if n >= len(sizes) {
			return nil, f.bad("an unknown form of a string")
		}
		b, err := f.take(sizes[n])
		if err != nil {
			return nil, err
		}
		text, _ := (&reader{p: b}).number(n)
		return text, nil
	}
	packed, err := f.length()
	if err != nil {
		return nil, err
	}
	size, err := f.length()
	if err != nil {
		return nil, err
	}
	if packed > stringMax || size > stringMax || size > packed*lzfRatioMax {
		return nil, f.bad("a compressed string that cannot be")
	}
	b, err := f.take(packed)
	if err != nil {
		return nil, err
	}
	text, ok := decompress(b, size)
	if !ok {
		return nil, f.bad("a damaged compressed string")
	}
	return text, nil
}
