package rdb

import (
	"encoding/binary"
	"strconv"
)

// Streams in Redis' format: entries in listpacks, each under the ID that its entries' IDs are counted from; then what the stream
// says of itself, and its groups.

// Stream is a stream's whole content.
type Stream struct {
	Entries    []StreamEntry
	Last       StreamID
	First      StreamID // of the entries that there are
	MaxDeleted StreamID
	Added      uint64
	Groups     []StreamGroup
}

// StreamID is an entry's ID.
type StreamID struct{ MS, Seq uint64 }

// StreamEntry is an entry; Pairs are field and value in turn.
type StreamEntry struct {
	ID    StreamID
	Pairs [][]byte
}

// StreamGroup is a consumer group. Read is -1 if it is not known.
type StreamGroup struct {
	Name      []byte
	Last      StreamID
	Read      int64
	Pending   []StreamPending
	Consumers []StreamConsumer
}

// StreamPending is an entry that was delivered, at a time in ms.
type StreamPending struct {
	ID        StreamID
	Delivered int64
	Count     uint64
}

// StreamConsumer is a consumer, with the IDs that it has pending. Active is -1 if it was never.
type StreamConsumer struct {
	Name         []byte
	Seen, Active int64
	Pending      []StreamID
}

// Types of streams: as of Redis 5, 7.0 and 7.2.
const (
	typeStream1 = 15
	typeStream2 = 19
	typeStream3 = 21

	streamNode      = 100 // entries in a listpack
	streamNodeBytes = 4096

	entryDeleted    = 1
	entrySameFields = 2
)

// IsStream says whether a payload of DUMP is a stream's.
func IsStream(p []byte) bool {
	return len(p) > 0 && (p[0] == typeStream1 || p[0] == typeStream2 || p[0] == typeStream3)
}

// packer writes a listpack.
type packer struct {
	b []byte
	n int
}

func newPacker() *packer { return &packer{b: make([]byte, 6)} }

func (k *packer) end(from int) {
	k.n++
	switch n := len(k.b) - from; {
	case n < 1<<7:
		k.b = append(k.b, byte(n))
	case n < 1<<14:
		k.b = append(k.b, byte(n>>7), byte(n&127)|128)
	case n < 1<<21:
		k.b = append(k.b, byte(n>>14), byte(n>>7&127)|128, byte(n&127)|128)
	case n < 1<<28:
		k.b = append(k.b, byte(n>>21), byte(n>>14&127)|128, byte(n>>7&127)|128, byte(n&127)|128)
	default:
		k.b = append(k.b, byte(n>>28), byte(n>>21&127)|128, byte(n>>14&127)|128, byte(n>>7&127)|128, byte(n&127)|128)
	}
}

func (k *packer) int(n int64) {
	from := len(k.b)
	if n >= 0 && n < 128 {
		k.b = append(k.b, byte(n))
	} else {
		k.b = binary.LittleEndian.AppendUint64(append(k.b, 0xf4), uint64(n))
	}
	k.end(from)
}

func (k *packer) string(s []byte) {
	from := len(k.b)
	switch n := len(s); {
	case n < 1<<6:
		k.b = append(k.b, 0x80|byte(n))
	case n < 1<<12:
		k.b = append(k.b, 0xe0|byte(n>>8), byte(n))
	default:
		k.b = binary.LittleEndian.AppendUint32(append(k.b, 0xf0), uint32(n))
	}
	k.b = append(k.b, s...)
	k.end(from)
}

// listpack returns the listpack. A number of elements that does not fit means: count them.
func (k *packer) listpack() []byte {
	k.b = append(k.b, 0xff)
	binary.LittleEndian.PutUint32(k.b, uint32(len(k.b)))
	binary.LittleEndian.PutUint16(k.b[4:], uint16(min(k.n, 65535)))
	return k.b
}

// AppendStream appends a stream as DUMP returns it, of Redis 7.2, whose payloads all of ours are.
func AppendStream(b []byte, s *Stream) []byte {
	start := len(b)
	b = append(b, typeStream3)
	var nodes [][]StreamEntry
	for rest := s.Entries; len(rest) > 0; {
		n, bytes := 0, 0
		for n < len(rest) && n < streamNode && bytes < streamNodeBytes {
			for _, p := range rest[n].Pairs {
				bytes += len(p)
			}
			n++
		}
		nodes, rest = append(nodes, rest[:n]), rest[n:]
	}
	b = appendLength(b, len(nodes))
	for _, node := range nodes {
		b = appendLength(b, 16)
		b = appendRawID(b, node[0].ID)
		lp := streamListpack(node)
		b = append(appendLength(b, len(lp)), lp...)
	}
	b = appendNumbers(b, uint64(len(s.Entries)), s.Last.MS, s.Last.Seq, s.First.MS, s.First.Seq, s.MaxDeleted.MS, s.MaxDeleted.Seq, s.Added)
	b = appendLength(b, len(s.Groups))
	for i := range s.Groups {
		b = appendGroup(b, &s.Groups[i])
	}
	b = binary.LittleEndian.AppendUint16(b, Version)
	return binary.LittleEndian.AppendUint64(b, crc64(b[start:]))
}

func appendGroup(b []byte, g *StreamGroup) []byte {
	b = append(appendLength(b, len(g.Name)), g.Name...)
	b = appendNumbers(b, g.Last.MS, g.Last.Seq, uint64(g.Read))
	b = appendLength(b, len(g.Pending))
	for _, p := range g.Pending {
		b = appendRawID(b, p.ID)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Delivered))
		b = appendNumbers(b, p.Count)
	}
	b = appendLength(b, len(g.Consumers))
	for _, c := range g.Consumers {
		b = append(appendLength(b, len(c.Name)), c.Name...)
		b = binary.LittleEndian.AppendUint64(b, uint64(c.Seen))
		b = binary.LittleEndian.AppendUint64(b, uint64(c.Active))
		b = appendLength(b, len(c.Pending))
		for _, id := range c.Pending {
			b = appendRawID(b, id)
		}
	}
	return b
}

func appendRawID(b []byte, id StreamID) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, id.MS), id.Seq)
}

// appendNumbers appends numbers of up to 64 bits.
func appendNumbers(b []byte, list ...uint64) []byte {
	for _, n := range list {
		if n < 1<<14 {
			b = appendLength(b, int(n))
		} else {
			b = binary.BigEndian.AppendUint64(append(b, 0x81), n)
		}
	}
	return b
}

// streamListpack encodes a run of entries.
func streamListpack(node []StreamEntry) []byte {
	k := newPacker()
	first := &node[0]
	k.int(int64(len(node)))
	k.int(0)
	k.int(int64(len(first.Pairs) / 2))
	for i := 0; i < len(first.Pairs); i += 2 {
		k.string(first.Pairs[i])
	}
	k.int(0)
	for i := range node {
		e := &node[i]
		same := len(e.Pairs) == len(first.Pairs)
		for j := 0; same && j < len(e.Pairs); j += 2 {
			same = string(e.Pairs[j]) == string(first.Pairs[j])
		}
		n := k.n
		if same {
			k.int(entrySameFields)
		} else {
			k.int(0)
		}
		k.int(int64(e.ID.MS - first.ID.MS))
		k.int(int64(e.ID.Seq - first.ID.Seq))
		if !same {
			k.int(int64(len(e.Pairs) / 2))
		}
		for j, p := range e.Pairs {
			if !same || j%2 == 1 {
				k.string(p)
			}
		}
		k.int(int64(k.n - n))
	}
	return k.listpack()
}

// ParseStream reads what DUMP returned of a stream, whole or not at all. limit bounds a field or value.
func ParseStream(p []byte, limit int) (*Stream, error) {
	n := len(p) - footerSize
	if n < 0 || binary.LittleEndian.Uint16(p[n:]) > Version || binary.LittleEndian.Uint64(p[n+2:]) != crc64(p[:n+2]) {
		return nil, ErrPayload
	}
	body := p[:n]
	if !IsStream(body) {
		return nil, ErrFormat
	}
	r := &streamReader{reader: reader{p: body[1:]}, limit: limit, version: 1}
	switch body[0] {
	case typeStream2:
		r.version = 2
	case typeStream3:
		r.version = 3
	}
	s := r.stream()
	if r.bad || !s.valid() {
		return nil, ErrFormat
	}
	return s, nil
}

// streamReader reads a stream; bad says that something was missing or made no sense.
type streamReader struct {
	reader
	limit, version int
	bad            bool
}

func (r *streamReader) fail() { r.bad, r.p = true, nil }

// uint reads a number of up to 64 bits.
func (r *streamReader) uint() uint64 {
	if len(r.p) > 8 && r.p[0] == 0x81 {
		n := binary.BigEndian.Uint64(r.p[1:])
		r.p = r.p[9:]
		return n
	}
	n, special, ok := r.length()
	if !ok || special || n < 0 {
		r.fail()
		return 0
	}
	return uint64(n)
}

// count reads how many of something there are, each of at least size bytes.
func (r *streamReader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.p)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *streamReader) text(limit int) []byte {
	s, ok := r.string(limit)
	if !ok {
		r.fail()
	}
	return s
}

func (r *streamReader) fixed() uint64 {
	p, ok := r.take(8)
	if !ok {
		r.fail()
		return 0
	}
	return binary.LittleEndian.Uint64(p)
}

func (r *streamReader) rawID() StreamID {
	p, ok := r.take(16)
	if !ok {
		r.fail()
		return StreamID{}
	}
	return StreamID{binary.BigEndian.Uint64(p), binary.BigEndian.Uint64(p[8:])}
}

func (r *streamReader) id() StreamID { return StreamID{r.uint(), r.uint()} }

func (r *streamReader) stream() *Stream {
	s := &Stream{}
	for range r.count(2) {
		key := r.text(16)
		if r.bad || len(key) != 16 {
			r.fail()
			return s
		}
		base := StreamID{binary.BigEndian.Uint64(key), binary.BigEndian.Uint64(key[8:])}
		items, ok := listpack(r.text(r.limit), nil)
		if !ok || !s.node(base, items) {
			r.fail()
			return s
		}
	}
	if n := r.uint(); n != uint64(len(s.Entries)) {
		r.fail()
	}
	s.Last = r.id()
	if len(s.Entries) > 0 {
		s.First = s.Entries[0].ID
	}
	s.Added = uint64(len(s.Entries))
	if r.version >= 2 {
		s.First, s.MaxDeleted, s.Added = r.id(), r.id(), r.uint()
	}
	for range r.count(4) {
		s.Groups = append(s.Groups, r.group(s))
		if r.bad {
			break
		}
	}
	return s
}

func (r *streamReader) group(s *Stream) (g StreamGroup) {
	g.Name, g.Last, g.Read = r.text(r.limit), r.id(), -1
	if r.version >= 2 {
		g.Read = max(int64(r.uint()), -1)
	} else {
		g.Read = s.distance(g.Last)
	}
	for range r.count(25) {
		g.Pending = append(g.Pending, StreamPending{r.rawID(), int64(r.fixed()), r.uint()})
	}
	for range r.count(10) {
		c := StreamConsumer{Name: r.text(r.limit), Seen: int64(r.fixed())}
		if c.Active = c.Seen; r.version >= 3 {
			c.Active = int64(r.fixed())
		}
		for range r.count(16) {
			c.Pending = append(c.Pending, r.rawID())
		}
		g.Consumers = append(g.Consumers, c)
	}
	return g
}

// distance is how many entries a group had read, of a version that did not say: Redis' estimate.
func (s *Stream) distance(id StreamID) int64 {
	switch {
	case len(s.Entries) == 0 || id == s.Last:
		return int64(s.Added)
	case id.less(s.First):
		return 0
	case id == s.First:
		return 1
	}
	return -1
}

func (a StreamID) less(b StreamID) bool { return a.MS < b.MS || a.MS == b.MS && a.Seq < b.Seq }

// node takes the entries of a listpack.
func (s *Stream) node(base StreamID, items [][]byte) bool {
	ok := true
	number := func() int64 {
		if len(items) == 0 {
			ok = false
			return 0
		}
		n, err := strconv.ParseInt(string(items[0]), 10, 64)
		ok = ok && err == nil
		items = items[1:]
		return n
	}
	take := func(n int64) [][]byte {
		if !ok || n < 0 || n > int64(len(items)) {
			ok = false
			return nil
		}
		list := items[:n]
		items = items[n:]
		return list
	}
	live, deleted := number(), number()
	fields := take(number())
	if number() != 0 || live < 0 || deleted < 0 || live+deleted > int64(len(items)) {
		return false
	}
	for range live + deleted {
		flags := number()
		id := StreamID{base.MS + uint64(number()), base.Seq + uint64(number())}
		var pairs [][]byte
		if flags&entrySameFields != 0 {
			vals := take(int64(len(fields)))
			for i := range vals {
				pairs = append(pairs, fields[i], vals[i])
			}
		} else if n := number(); n <= int64(len(items)) {
			pairs = take(2 * n)
		} else {
			ok = false
		}
		number()
		if !ok {
			return false
		}
		if flags&entryDeleted == 0 {
			s.Entries = append(s.Entries, StreamEntry{id, pairs})
		}
	}
	return ok && len(items) == 0
}

// valid checks what the parts say of each other.
func (s *Stream) valid() bool {
	last := StreamID{}
	for i := range s.Entries {
		if id := s.Entries[i].ID; !last.less(id) || s.Last.less(id) || len(s.Entries[i].Pairs) == 0 {
			return false
		}
		last = s.Entries[i].ID
	}
	names := map[string]bool{}
	for i := range s.Groups {
		g := &s.Groups[i]
		if names[string(g.Name)] || !g.valid() {
			return false
		}
		names[string(g.Name)] = true
	}
	return true
}

func (g *StreamGroup) valid() bool {
	of := map[StreamID]bool{}
	for _, p := range g.Pending {
		if of[p.ID] {
			return false
		}
		of[p.ID] = true
	}
	names, n := map[string]bool{}, 0
	for _, c := range g.Consumers {
		if names[string(c.Name)] {
			return false
		}
		names[string(c.Name)] = true
		for _, id := range c.Pending {
			if !of[id] {
				return false
			}
			of[id] = false
			n++
		}
	}
	return n == len(g.Pending)
}
