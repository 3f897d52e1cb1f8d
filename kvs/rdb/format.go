// Package rdb reads and writes single values in the format of Redis' RDB files, as DUMP and RESTORE carry them. What comes in is
// any client's bytes: whatever they are, the answer is a value or an error, and memory stays in proportion to them.
package rdb

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// A payload:
//
//	0    1  type of the value
//	1    .. the value
//	n-10 2  RDB version, little-endian
//	n-8  8  CRC-64 of all before it (crc64.go), little-endian: stops what was damaged on its way, not who means harm
//
// A string begins with its length, in one of these forms, named by the first byte's upper bits:
//
//	00xxxxxx                   6 bits
//	01xxxxxx b                 14 bits, big-endian
//	10000000 b b b b           32 bits, big-endian
//	10000001 b*8               64 bits, big-endian
//	11000000 b                 no length: a number of 8 bits,
//	11000001 b b               of 16 bits, little-endian,
//	11000010 b b b b           of 32 bits, little-endian
//	11000011 length length     compressed (lzf.go): lengths of what follows and of what it becomes
const (
	// Version is what payloads are written as: Redis 7.2's. Lower ones are read.
	Version = 11

	typeString = 0

	footerSize = 2 + 8

	form6, form14, formLong, formSpecial = 0, 1, 2, 3 // the upper bits

	long32, long64 = 0x80, 0x81

	special8, special16, special32, specialLZF = 0, 1, 2, 3

	// numberTextMax is how long a text may be to be looked at as a number.
	numberTextMax = 11
)

// Errors, by what Redis answers to them.
var (
	ErrPayload = errors.New("ERR DUMP payload version or checksum are wrong")
	ErrFormat  = errors.New("ERR Bad data format")
)

// AppendDump appends the payload of a string.
func AppendDump(b, val []byte) []byte {
	start := len(b)
	b = append(b, typeString)
	b = appendString(b, val)
	b = binary.LittleEndian.AppendUint16(b, Version)
	return binary.LittleEndian.AppendUint64(b, crc64(b[start:]))
}

// appendString appends a string: as a number if it is one that fits, else as it is. Nothing is compressed.
func appendString(b, val []byte) []byte {
	if n, ok := number(val); ok {
		switch {
		case n >= -1<<7 && n < 1<<7:
			return append(b, form(formSpecial, special8), byte(n))
		case n >= -1<<15 && n < 1<<15:
			return binary.LittleEndian.AppendUint16(append(b, form(formSpecial, special16)), uint16(n))
		default:
			return binary.LittleEndian.AppendUint32(append(b, form(formSpecial, special32)), uint32(n))
		}
	}
	return append(appendLength(b, len(val)), val...)
}

func form(upper, lower byte) byte { return upper<<6 | lower }

// number reads a text that is exactly how a number of 32 bits is written.
func number(val []byte) (int64, bool) {
	if len(val) == 0 || len(val) > numberTextMax {
		return 0, false
	}
	n, err := strconv.ParseInt(string(val), 10, 32)
	if err != nil || strconv.FormatInt(n, 10) != string(val) {
		return 0, false
	}
	return n, true
}

func appendLength(b []byte, n int) []byte {
	switch {
	case n < 1<<6:
		return append(b, form(form6, byte(n)))
	case n < 1<<14:
		return append(b, form(form14, byte(n>>8)), byte(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, long32), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, long64), uint64(n))
}

// ParseDump checks a payload and returns the string in it, of at most limit bytes. It may alias p.
func ParseDump(p []byte, limit int) ([]byte, error) {
	n := len(p) - footerSize
	if n < 0 || binary.LittleEndian.Uint16(p[n:]) > Version || binary.LittleEndian.Uint64(p[n+2:]) != crc64(p[:n+2]) {
		return nil, ErrPayload
	}
	// As in Redis, what stands between the value and the footer is not looked at.
	r := reader{p: p[:n]}
	if t, ok := r.byte(); !ok || t != typeString {
		return nil, ErrFormat
	}
	val, ok := r.string(limit)
	if !ok {
		return nil, ErrFormat
	}
	return val, nil
}
