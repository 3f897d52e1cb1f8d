package ioengine

import (
	"fmt"
	"sort"

	"cvmstore/ioengine/device"
)

// The sizes that a chunk should have, in bytes, and the usual one. All are whole blocks. Below ChunkMin, down to one block, they
// cost speed: for tests, and where a volume is tiny.
const (
	ChunkMin     = 128 << 10
	ChunkMax     = 1 << 20
	ChunkDefault = 256 << 10
)

// Extent is a run of blocks.
type Extent struct {
	LBA    device.LBA
	Blocks device.BlockCount
}

// ChunkCount returns how many chunks of chunk bytes a blob of size bytes has. An empty blob has none.
func ChunkCount(size int64, chunk int) uint64 {
	return (uint64(size) + uint64(chunk) - 1) / uint64(chunk)
}

// ChunkLen returns how many bytes chunk number n of such a blob has.
func ChunkLen(size int64, chunk int, n uint64) int {
	return int(min(int64(chunk), size-int64(n)*int64(chunk)))
}

// BlocksFor returns how many blocks a blob of size bytes takes: less than one more than its bytes need.
func BlocksFor(size int64) device.BlockCount {
	return device.BlockCount((uint64(size) + device.BlockSize - 1) / device.BlockSize)
}

// CheckChunk returns an error if chunk is no size for chunks.
func CheckChunk(chunk int) error {
	if chunk < device.BlockSize || chunk > ChunkMax || chunk%device.BlockSize != 0 {
		return fmt.Errorf("chunks of %d bytes: want whole blocks, %d to %d bytes", chunk, device.BlockSize, ChunkMax)
	}
	return nil
}

// extents are the extents of a blob with the number of blocks before each, so that a place is found by binary search.
type extents struct {
	list   []Extent
	before []device.BlockCount
	total  device.BlockCount
}

func (x *extents) add(list ...Extent) {
	for _, e := range list {
		if e.Blocks == 0 {
			continue
		}
		x.list = append(x.list, e)
		x.before = append(x.before, x.total)
		x.total += e.Blocks
	}
}

// at returns where block number from of the blob lies, and how many of n blocks follow it there. The blob has from+n blocks.
func (x *extents) at(from, n device.BlockCount) (device.LBA, device.BlockCount) {
	i := sort.Search(len(x.before), func(i int) bool { return x.before[i] > from }) - 1
	skip := from - x.before[i]
	return x.list[i].LBA + device.LBA(skip), min(n, x.list[i].Blocks-skip)
}
