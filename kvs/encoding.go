package kvs

import "cvmstore/keyspace"

// Encodings of collections, as OBJECT ENCODING names them, in the low bits of the keyspace's encoding. They are on disk. What
// a collection looks like in Redis does not say how it is stored here (packedMax does), but clients look at it.
const (
	encodingListpack = 0 // hashes and sorted sets
	encodingFull     = 1 // hash table, skip list

	encodingIntset      = 0 // sets
	encodingSetListpack = 1
	encodingSetFull     = 2

	encodingQuicklist = 0 // lists
)

var collectionEncodings = map[keyspace.TypeID][]string{
	keyspace.TypeHash:   {"listpack", "hashtable"},
	keyspace.TypeZSet:   {"listpack", "skiplist"},
	keyspace.TypeSet:    {"intset", "listpack", "hashtable"},
	keyspace.TypeList:   {"quicklist"},
	keyspace.TypeStream: {"stream"},
}

// encodingAfter is the encoding that Redis would have after the changes: it goes from compact to full and never back.
func (h *handle) encodingAfter() uint8 {
	l := h.k.limits.Load()
	old := h.item.Encoding &^ keyspace.EncodingLarge
	if h.exists() && !h.grows() {
		return old
	}
	switch h.typ {
	case keyspace.TypeHash:
		if old == encodingFull || h.over(l.HashEntries, l.HashValue) {
			return encodingFull
		}
		return encodingListpack
	case keyspace.TypeZSet:
		if old == encodingFull || h.over(l.ZSetEntries, l.ZSetValue) {
			return encodingFull
		}
		return encodingListpack
	}
	if old == encodingIntset && int64(h.count) <= l.SetIntset && h.numbers() {
		return encodingIntset
	}
	if h.exists() && old == encodingSetFull || h.over(l.SetEntries, l.SetValue) {
		return encodingSetFull
	}
	return encodingSetListpack
}

// over says whether there are too many members, or one that is new is too long.
func (h *handle) over(entries, value int64) bool {
	if int64(h.count) > entries {
		return true
	}
	for i := range h.list {
		m := &h.list[i]
		if m.changed && !m.gone && (int64(len(m.name)) > value || int64(len(m.val)) > value) {
			return true
		}
	}
	return false
}

// grows says whether something was set.
func (h *handle) grows() bool {
	for i := range h.list {
		if m := &h.list[i]; m.changed && !m.gone {
			return true
		}
	}
	return false
}

// numbers says whether what was set are integers.
func (h *handle) numbers() bool {
	for i := range h.list {
		if m := &h.list[i]; m.changed && !m.gone {
			if _, ok := parseInt(m.name); !ok {
				return false
			}
		}
	}
	return true
}
