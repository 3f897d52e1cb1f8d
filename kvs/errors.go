package kvs

import (
	"errors"
	"fmt"

	"cvmstore/keyspace"
)

// Errors whose text is Redis' reply. See also keyspace.ErrWrongType.
var (
	ErrNotInteger = errors.New("ERR value is not an integer or out of range")
	ErrOverflow   = errors.New("ERR increment or decrement would overflow")
	ErrTooLong    = errors.New("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
)

// lengthMax is the longest string that Redis allows, in bytes (proto-max-bulk-len).
const lengthMax = 512 << 20

// SizeError: a value does not fit into one record, and blobs are off or cannot be had (within MULTI).
type SizeError struct{ Size, Max int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("ERR value of %d bytes exceeds the limit of %d bytes", e.Size, e.Max)
}

// checkSize says whether a value of that size can be written for a key.
func checkSize(t *keyspace.Tx, key []byte, size int) error {
	if size > lengthMax {
		return ErrTooLong
	}
	limit := t.MaxRecord() - keyspace.PutSize(len(key), 0)
	switch {
	case len(key) > keyspace.KeyMax || limit < 0:
		return keyspace.ErrKeyTooLong
	case size > limit && t.BlobBytes() < 0:
		return &SizeError{size, limit}
	}
	return nil
}
