package resp

import (
	"fmt"
	"maps"
	"slices"

	"cvmstore/keyspace"
	"cvmstore/resp/command"
	"cvmstore/volume"
)

// What the server keeps in the volume beside keys: each thing is cut into up to partsMax system items with consecutive numbers.
const (
	functionParts  = 0x100
	userParts      = 0x200
	systemPartsMax = 64
)

// readParts returns what is stored from a number on; with a transaction, the reply depends on it.
func (s *Server) readParts(t *keyspace.Tx, from uint16) (all []byte) {
	for i := range uint16(systemPartsMax) {
		part := s.space.System().Get(t, from+i)
		if len(part) == 0 {
			break
		}
		all = append(all, part...)
	}
	return all
}

// writeParts stores it, in a transaction that holds everything. Only parts that differ are written.
func (s *Server) writeParts(t *keyspace.Tx, from uint16, all []byte) error {
	y, size := s.space.System(), t.SystemPartMax()
	if len(all) > size*systemPartsMax {
		return command.Error("ERR too much to store: at most " + fmt.Sprint(size*systemPartsMax>>20) + " MiB in all")
	}
	bytes, records := 0, 0
	parts := map[uint16][]byte{}
	for i := range uint16(systemPartsMax) {
		part := all[:min(len(all), size)]
		all = all[len(part):]
		if n := from + i; string(y.Get(t, n)) != string(part) {
			parts[n] = part
			bytes += keyspace.SystemSize(len(part))
			records++
		}
	}
	if records == 0 {
		return nil
	}
	if err := t.Reserve(bytes, records, volume.ClassNormal); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(parts)) {
		y.Put(t, n, parts[n])
	}
	return nil
}
