package streams

import "fmt"

// splitBlob divides what a KindBlobEntry holds behind its header: the directory of its fields, and the pointer to the blob.
//
//	0  4  length of the directory
//	4  n  directory
//	   .. pointer
func splitBlob(rest []byte) (directory, pointer []byte, err error) {
	if len(rest) < 4 {
		return nil, nil, fmt.Errorf("%d bytes of a large entry: %w", len(rest), errRecord)
	}
	n := le.Uint32(rest)
	if uint64(n) > uint64(len(rest)-4) {
		return nil, nil, fmt.Errorf("directory of %d bytes in %d: %w", n, len(rest), errRecord)
	}
	return rest[4 : 4+n], rest[4+n:], nil
}
