package rdb

import (
	"encoding/binary"
	"errors"
)

// opFunction stands before a library in a payload of FUNCTION DUMP.
const opFunction = 245

var errFunctions = errors.New("ERR given type is not a function")

// AppendFunctions appends what FUNCTION DUMP returns of libraries' sources.
func AppendFunctions(b []byte, sources []string) []byte {
	start := len(b)
	for _, s := range sources {
		b = append(b, opFunction)
		b = appendString(b, []byte(s))
	}
	b = binary.LittleEndian.AppendUint16(b, Version)
	return binary.LittleEndian.AppendUint64(b, crc64(b[start:]))
}

// ParseFunctions returns the sources of a payload of FUNCTION DUMP, of at most limit bytes each.
func ParseFunctions(p []byte, limit int) (sources []string, err error) {
	n := len(p) - footerSize
	if n < 0 || binary.LittleEndian.Uint16(p[n:]) > Version || binary.LittleEndian.Uint64(p[n+2:]) != crc64(p[:n+2]) {
		return nil, ErrPayload
	}
	r := reader{p: p[:n]}
	for len(r.p) > 0 {
		op, ok := r.byte()
		if !ok || op != opFunction {
			return nil, errFunctions
		}
		s, ok := r.string(limit)
		if !ok {
			return nil, errFunctions
		}
		sources = append(sources, string(s))
	}
	return sources, nil
}
