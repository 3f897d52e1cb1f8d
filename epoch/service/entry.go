package service

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"cvmstore/epoch"
	"cvmstore/epoch/wire"
)

// entry is what is kept of a store:
//
//	offset  size  field
//	     0     4  magic
//	     4     2  version, 1
//	     6     2  flags            1: frozen
//	     8   128  record           as on the wire
//	   136    32  owner            Ed25519 public key that signs orders; zero: none
//	   168    32  opener           who opened the newest generation
//	   200     8  stamp            the largest that was ever answered and kept
//	   208     2  identities       how many follow, 33 bytes each: identity, flags (1 once, 2 spent)
//
// Integers are little-endian. An entry that does not decode stops every request for its store.
type entry struct {
	frozen     bool
	record     epoch.Record
	owner      [32]byte
	opener     wire.Identity
	stamp      epoch.Stamp
	identities []opener
}

// opener is an identity that may open a store. One that may do so once is spent when its opening frame is committed: with
// attestation, a restarted VM is another identity.
type opener struct {
	id    wire.Identity
	once  bool
	spent bool
}

const (
	entryVersion = 1
	entryFixed   = 210
	openerBytes  = 33
	openersMax   = 16

	entryFrozen = 1
	openerOnce  = 1
	openerSpent = 2
)

var (
	entryMagic = [4]byte{'C', 'V', 'M', 'E'}
	errEntry   = errors.New("the counter's database is damaged")
	le         = binary.LittleEndian
)

func storeKey(s epoch.StoreID) string { return storePrefix + hex.EncodeToString(s[:]) }

const storePrefix = "store/"

func (e *entry) encode() []byte {
	b := make([]byte, 0, entryFixed+openerBytes*len(e.identities))
	b = append(b, entryMagic[:]...)
	b = le.AppendUint16(b, entryVersion)
	var flags uint16
	if e.frozen {
		flags = entryFrozen
	}
	b = le.AppendUint16(b, flags)
	b = wire.AppendRecord(b, &e.record)
	b = append(b, e.owner[:]...)
	b = append(b, e.opener[:]...)
	b = le.AppendUint64(b, uint64(e.stamp))
	b = le.AppendUint16(b, uint16(len(e.identities)))
	for _, o := range e.identities {
		b = append(b, o.id[:]...)
		var f byte
		if o.once {
			f |= openerOnce
		}
		if o.spent {
			f |= openerSpent
		}
		b = append(b, f)
	}
	return b
}

// decodeEntry returns nil for no entry.
func decodeEntry(b []byte) (*entry, error) {
	if b == nil {
		return nil, nil
	}
	if len(b) < entryFixed || !bytes.Equal(b[:4], entryMagic[:]) {
		return nil, errEntry
	}
	if v := le.Uint16(b[4:]); v != entryVersion {
		return nil, fmt.Errorf("%w: entry of version %d, this program knows %d", errEntry, v, entryVersion)
	}
	e := &entry{frozen: le.Uint16(b[6:]) == entryFrozen, stamp: epoch.Stamp(le.Uint64(b[200:]))}
	var err error
	if e.record, err = wire.ParseRecord(b[8:]); err != nil {
		return nil, err
	}
	e.owner, e.opener = [32]byte(b[136:]), wire.Identity(b[168:])
	n := int(le.Uint16(b[208:]))
	if le.Uint16(b[6:])&^entryFrozen != 0 || n > openersMax || len(b) != entryFixed+n*openerBytes {
		return nil, errEntry
	}
	for p := b[entryFixed:]; len(p) > 0; p = p[openerBytes:] {
		f := p[32]
		if f&^(openerOnce|openerSpent) != 0 {
			return nil, errEntry
		}
		e.identities = append(e.identities, opener{wire.Identity(p), f&openerOnce != 0, f&openerSpent != 0})
	}
	return e, nil
}

// find returns the place of an identity, or -1.
func (e *entry) find(id wire.Identity) int {
	return slices.IndexFunc(e.identities, func(o opener) bool { return o.id == id })
}

// stamped returns the time to answer: never below one that was kept.
func (e *entry) stamped(now epoch.Stamp) epoch.Stamp { return max(now, e.stamp) }
