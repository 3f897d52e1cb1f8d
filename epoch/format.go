package epoch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// The embedded counter's file holds slotCount slots, each at the front of a block of its own, so that no write of one slot
// can tear another. A slot is 512 bytes, one sector:
//
//	offset  size  field            the fault that it stops
//	     0     8  magic            a file that is something else
//	     8     2  version, 1       a format of a later program
//	    10     6  reserved, zero
//	    16    16  store id         the counter of another store
//	    32     8  sequence         which slot is the newest; counts writes, from 1
//	    40     8  generation       the newest generation opened
//	    48    48  current state    value 8, generation 8, tag 32
//	    96    48  state before     the same
//	   144     8  floor            the value's floor after an authorised rollback, else 0
//	   152   328  reserved, zero
//	   480    32  SHA-256 of bytes 0 to 479: a torn or damaged slot
//
// Integers are little-endian. The checksum is against accidents only: whoever can write this file can write a valid one.
const (
	slotCount  = 3
	slotStride = 4096
	slotBytes  = 512
	fileBytes  = slotCount * slotStride

	slotVersion = 1

	offVersion  = 8
	offReserved = 10
	offStore    = 16
	offSeq      = 32
	offGen      = 40
	offCurrent  = 48
	offBefore   = 96
	offFloor    = 144
	offTail     = 152
	offSum      = 480

	stateBytes = 48
)

var slotMagic = [8]byte{'c', 'v', 'm', 'c', 'o', 'u', 'n', 't'}

// slot is one slot's content.
type slot struct {
	seq uint64 // from 1; 0 is a slot that holds nothing
	rec Record
}

var (
	errSlotEmpty   = errors.New("never written")
	errSlotDamaged = errors.New("checksum or layout is wrong")
	errSlotVersion = errors.New("written by a later version of cvmstore")
)

// encodeSlot fills buf, which is slotBytes long, with s.
func encodeSlot(buf []byte, s slot) {
	clear(buf[:offSum])
	copy(buf, slotMagic[:])
	binary.LittleEndian.PutUint16(buf[offVersion:], slotVersion)
	copy(buf[offStore:], s.rec.Store[:])
	binary.LittleEndian.PutUint64(buf[offSeq:], s.seq)
	binary.LittleEndian.PutUint64(buf[offGen:], uint64(s.rec.Gen))
	encodeState(buf[offCurrent:offCurrent+stateBytes], s.rec.Current)
	encodeState(buf[offBefore:offBefore+stateBytes], s.rec.Before)
	binary.LittleEndian.PutUint64(buf[offFloor:], uint64(s.rec.Floor))
	sum := checksum(buf[:offSum])
	copy(buf[offSum:], sum[:])
}

// decodeSlot reads a slot back. An all-zero slot is errSlotEmpty.
func decodeSlot(buf []byte) (slot, error) {
	if isZero(buf) {
		return slot{}, errSlotEmpty
	}
	sum := checksum(buf[:offSum])
	if !bytes.Equal(buf[:len(slotMagic)], slotMagic[:]) || !bytes.Equal(buf[offSum:], sum[:]) {
		return slot{}, errSlotDamaged
	}
	if v := binary.LittleEndian.Uint16(buf[offVersion:]); v != slotVersion {
		return slot{}, fmt.Errorf("%w: format %d, this program knows %d", errSlotVersion, v, slotVersion)
	}
	s := slot{seq: binary.LittleEndian.Uint64(buf[offSeq:])}
	if s.seq == 0 || !isZero(buf[offReserved:offStore]) || !isZero(buf[offTail:offSum]) {
		return slot{}, errSlotDamaged
	}
	copy(s.rec.Store[:], buf[offStore:])
	s.rec.Gen = Generation(binary.LittleEndian.Uint64(buf[offGen:]))
	s.rec.Current = decodeState(buf[offCurrent : offCurrent+stateBytes])
	s.rec.Before = decodeState(buf[offBefore : offBefore+stateBytes])
	s.rec.Floor = Counter(binary.LittleEndian.Uint64(buf[offFloor:]))
	return s, nil
}

func checksum(body []byte) [sha256.Size]byte { return sha256.Sum256(body) }

func encodeState(buf []byte, s State) {
	binary.LittleEndian.PutUint64(buf, uint64(s.Value))
	binary.LittleEndian.PutUint64(buf[8:], uint64(s.Gen))
	copy(buf[16:], s.Tag[:])
}

func decodeState(buf []byte) State {
	s := State{
		Value: Counter(binary.LittleEndian.Uint64(buf)),
		Gen:   Generation(binary.LittleEndian.Uint64(buf[8:])),
	}
	copy(s.Tag[:], buf[16:])
	return s
}

func isZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
