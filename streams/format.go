package streams

import (
	"encoding/binary"
	"errors"
	"fmt"

	"cvmstore/volume"
)

// Records of streams, payloads of volume's records of StoreKeys. All numbers are little-endian. The key's own record is the
// keyspace's: a header of a large value, which names the stream by its incarnation, the counter of that record. Counters are those
// that the records have in volume's own header.
//
//	KindEntry: an entry
//	 0  8  incarnation  whose it is: what an older stream of the same key left behind is never taken for this one's
//	 8  8  predecessor  counter of the entry appended before it, 0: none: nothing can be missing, added or exchanged before it
//	16 16  ID           milliseconds, sequence number
//	32  .. fields       uvarint number of pairs; each field and value: uvarint length, bytes. Recovery does not need them
//
//	KindBlobEntry: an entry whose fields are a blob
//	 0 32  as KindEntry
//	32  .. pointer      volume's (blobformat.go)
//
//	KindHead: what entries do not say; it counts all entries with lower counters
//	 0  8  incarnation
//	 8  8  low          entries below this counter are trimmed: they never come back
//	16  8  tail         counter of the entry appended last, deleted or not: the end is not missing
//	24 16  last ID
//	40 16  highest ID that was deleted
//	56  8  entries added
//	64  8  length
//
//	KindGap: entries deleted from the middle
//	 0  8  incarnation
//	 8  8  first        counter of the first of them
//	16  8  last         counter of the last one: all entries between are deleted
//	24  8  predecessor  the first one's
//
//	KindGroup: a consumer group
//	 0  8  incarnation
//	 8  8  group        counter of its creation; 0: this record's own
//	16 16  last delivered ID
//	32  8  entries read; -1: not known
//	40  1  1: destroyed
//	41  7  zero
//	48  .. name
//
//	KindConsumer: a consumer of a group
//	 0  8  incarnation
//	 8  8  group
//	16  8  consumer     counter of its creation; 0: this record's own
//	24  8  seen         store time, ms
//	32  8  active       the same; -1: never
//	40  1  1: deleted
//	41  7  zero
//	48  .. name
//
//	KindPending: an entry was delivered to a consumer
//	 0  8  incarnation
//	 8  8  group
//	16 16  ID of the entry
//	32  8  consumer
//	40  8  delivered    store time, ms
//	48  8  how many times
//
//	KindAck: an entry is no longer pending
//	 0  8  incarnation
//	 8  8  group
//	16 16  ID of the entry
const (
	KindEntry     volume.Kind = 40
	KindBlobEntry volume.Kind = 41
	KindHead      volume.Kind = 42
	KindGap       volume.Kind = 43
	KindGroup     volume.Kind = 44
	KindConsumer  volume.Kind = 45
	KindPending   volume.Kind = 46
	KindAck       volume.Kind = 47

	entryHeader    = 32
	headSize       = 72
	gapSize        = 32
	groupHeader    = 48
	consumerHeader = 48
	pendingSize    = 56
	ackSize        = 32
)

var errRecord = errors.New("malformed record of a stream")

var le = binary.LittleEndian

func putID(p []byte, id ID) {
	le.PutUint64(p, id.MS)
	le.PutUint64(p[8:], id.Seq)
}

func getID(p []byte) ID { return ID{le.Uint64(p), le.Uint64(p[8:])} }

// metaOf returns how much of a payload recovery needs.
func metaOf(k volume.Kind, p []byte) int {
	if k == KindEntry {
		return min(len(p), entryHeader)
	}
	return len(p)
}

func malformed(k volume.Kind, p []byte) error {
	return fmt.Errorf("%d bytes of kind %d: %w", len(p), k, errRecord)
}

// entryRecord is a decoded KindEntry or KindBlobEntry; rest aliases the payload.
type entryRecord struct {
	incarnation uint64
	prev        volume.Counter
	id          ID
	rest        []byte // fields, or the blob's pointer
}

// encodeEntry writes all but the rest and returns where that goes.
func encodeEntry(p []byte, r *entryRecord) []byte {
	le.PutUint64(p, r.incarnation)
	le.PutUint64(p[8:], uint64(r.prev))
	putID(p[16:], r.id)
	return p[entryHeader:]
}

func decodeEntry(k volume.Kind, p []byte) (r entryRecord, err error) {
	if len(p) < entryHeader {
		return r, malformed(k, p)
	}
	return entryRecord{le.Uint64(p), volume.Counter(le.Uint64(p[8:])), getID(p[16:]), p[entryHeader:]}, nil
}

// head is what a stream's header record holds.
type head struct {
	low, tail  volume.Counter
	last       ID
	maxDeleted ID
	added      uint64
	length     uint64
}

func encodeHead(p []byte, incarnation uint64, h *head) {
	le.PutUint64(p, incarnation)
	le.PutUint64(p[8:], uint64(h.low))
	le.PutUint64(p[16:], uint64(h.tail))
	putID(p[24:], h.last)
	putID(p[40:], h.maxDeleted)
	le.PutUint64(p[56:], h.added)
	le.PutUint64(p[64:], h.length)
}

func decodeHead(p []byte) (h head, err error) {
	if len(p) != headSize {
		return h, malformed(KindHead, p)
	}
	return head{
		low: volume.Counter(le.Uint64(p[8:])), tail: volume.Counter(le.Uint64(p[16:])),
		last: getID(p[24:]), maxDeleted: getID(p[40:]), added: le.Uint64(p[56:]), length: le.Uint64(p[64:]),
	}, nil
}

func encodeGap(p []byte, incarnation uint64, g *gap) {
	le.PutUint64(p, incarnation)
	le.PutUint64(p[8:], uint64(g.first))
	le.PutUint64(p[16:], uint64(g.last))
	le.PutUint64(p[24:], uint64(g.prev))
}

func decodeGap(p []byte) (g gap, err error) {
	if len(p) != gapSize {
		return g, malformed(KindGap, p)
	}
	g = gap{first: volume.Counter(le.Uint64(p[8:])), last: volume.Counter(le.Uint64(p[16:])), prev: volume.Counter(le.Uint64(p[24:]))}
	if g.first == 0 || g.first > g.last || g.prev >= g.first {
		return g, fmt.Errorf("gap from %d to %d after %d: %w", g.first, g.last, g.prev, errRecord)
	}
	return g, nil
}

// AppendFields appends pairs, field and value in turn, as an entry holds them.
func AppendFields(b []byte, pairs [][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(pairs)/2))
	for _, x := range pairs {
		b = append(binary.AppendUvarint(b, uint64(len(x))), x...)
	}
	return b
}

func fieldsSize(pairs [][]byte) int {
	n := uvarintSize(uint64(len(pairs) / 2))
	for _, x := range pairs {
		n += uvarintSize(uint64(len(x))) + len(x)
	}
	return n
}

func uvarintSize(n uint64) (size int) {
	for size = 1; n >= 1<<7; n >>= 7 {
		size++
	}
	return size
}

// Fields calls f for each field and value of an entry, and reports whether they were well formed.
func Fields(p []byte, f func(field, value []byte)) bool {
	n, k := binary.Uvarint(p)
	if k <= 0 || n > uint64(len(p)) {
		return false
	}
	p = p[k:]
	var pair [2][]byte
	for range n {
		for i := range pair {
			size, k := binary.Uvarint(p)
			if k <= 0 || size > uint64(len(p)-k) {
				return false
			}
			pair[i] = p[k : k+int(size) : k+int(size)]
			p = p[k+int(size):]
		}
		if f != nil {
			f(pair[0], pair[1])
		}
	}
	return len(p) == 0
}

// FieldCount returns the number of pairs.
func FieldCount(p []byte) int {
	n, k := binary.Uvarint(p)
	if k <= 0 {
		return 0
	}
	return int(min(n, uint64(len(p))))
}

// First bytes of multiset items (DESIGN.md 6.4.4); those of the keyspace and of elements are 1 to 3. Each is followed by 7 zero
// bytes, the incarnation, and what makes the item: ItemHash takes the counter of its record beside.
const (
	itemEntry    = 8  // ID
	itemHead     = 9  // nothing: the counter stands for it
	itemGap      = 10 // first, last
	itemGroup    = 11 // group
	itemConsumer = 12 // group, consumer
	itemPending  = 13 // group, ID
)

func appendItem(b []byte, kind byte, incarnation uint64, parts ...uint64) []byte {
	b = append(b, kind, 0, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, incarnation)
	for _, x := range parts {
		b = le.AppendUint64(b, x)
	}
	return b
}
