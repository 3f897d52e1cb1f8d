package kvs

import "encoding/binary"

// names is an arena for the names of a collection's elements, in size classes of 8 bytes: what is freed is used again, nothing
// is ever moved, and the garbage collector sees only the chunks.
type names struct {
	chunks [][]byte
	cur    int      // index of the chunk that small names go to
	size   int      // its length; 0: there is none yet
	used   int      // bytes of it that are taken
	free   []uint64 // for each class the newest free place; a free place holds the one before it
	gone   []uint32 // chunks of single long names that are free
	bytes  int      // allocated
}

const (
	nameClass    = 8
	nameSmallMax = 512 // longer names have a chunk each
	nameChunkMin = 512
	nameChunkMax = 256 << 10
	noPlace      = ^uint64(0)
)

// add copies a name in and returns its place.
func (a *names) add(name []byte) uint64 {
	if len(name) > nameSmallMax {
		return a.long(name)
	}
	class := (len(name) + nameClass - 1) / nameClass
	if class == 0 {
		return 0
	}
	if class < len(a.free) && a.free[class] != noPlace {
		at := a.free[class]
		b := a.chunks[at>>32][uint32(at):]
		a.free[class] = binary.LittleEndian.Uint64(b)
		copy(b, name)
		return at
	}
	if a.used+class*nameClass > a.size {
		a.size = min(max(2*a.size, nameChunkMin), nameChunkMax)
		a.cur, a.used = a.chunk(a.size), 0
	}
	at := uint64(a.cur)<<32 | uint64(a.used)
	copy(a.chunks[a.cur][a.used:], name)
	a.used += class * nameClass
	return at
}

func (a *names) chunk(size int) int {
	a.bytes += size
	if n := len(a.gone); n > 0 {
		i := int(a.gone[n-1])
		a.gone = a.gone[:n-1]
		a.chunks[i] = make([]byte, size)
		return i
	}
	a.chunks = append(a.chunks, make([]byte, size))
	return len(a.chunks) - 1
}

func (a *names) long(name []byte) uint64 {
	i := a.chunk(len(name))
	copy(a.chunks[i], name)
	return uint64(i) << 32
}

func (a *names) get(at uint64, n uint32) []byte {
	if n == 0 {
		return nil
	}
	off := uint32(at)
	return a.chunks[at>>32][off : off+n : off+n]
}

// drop gives the place of a name of n bytes back.
func (a *names) drop(at uint64, n uint32) {
	if n > nameSmallMax {
		i := at >> 32
		a.bytes -= len(a.chunks[i])
		a.chunks[i] = nil
		a.gone = append(a.gone, uint32(i))
		return
	}
	class := (int(n) + nameClass - 1) / nameClass
	if class == 0 {
		return
	}
	for len(a.free) <= class {
		a.free = append(a.free, noPlace)
	}
	binary.LittleEndian.PutUint64(a.chunks[at>>32][uint32(at):], a.free[class])
	a.free[class] = at
}
