package volume

import (
	"fmt"

	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
)

// # Tree
//
// A blob that is a file, or a part of one, keeps no tag of every chunk in its pointer, and so none in memory: the tags are the
// leaves of a static Merkle tree. A node is a block of 256 tags, those of the chunks or nodes below it in order, the rest zero. It
// is sealed like a chunk, under a key of its own, and its tag stands in the node above. The levels end where a few tags are left:
// those stand in the pointer.
//
//	blocks 0 ..                 the chunks
//	behind them                 level 1: node k has the tags of the chunks 256*k ..
//	behind each level           the next one: node k has the tags of the nodes 256*k .. below it
//
// Nodes are numbered through all levels, and the number is the nonce: a node is sealed once. So each node verifies alone against
// the one above, a read needs only those on its path, and a damaged one spoils no more than the chunks below it.
const (
	treeFan      = device.BlockSize / tagSize
	treeFanLog   = 8
	treeTop      = 16 // tags in a pointer at most
	treeLevels   = 6  // above that a blob would be larger than blobSizeMax
	treeKind     = 'T'
	labelTree    = "volume blob tree"
	treeTagsWait = 16 * treeFan // tags that wait for their node to be written; then the writer waits, too
)

// treeShape says how many nodes there are above so many chunks.
type treeShape struct {
	count  [treeLevels + 1]int // by level; 0: chunks
	first  [treeLevels + 1]int // the number of a level's first node
	levels int
}

func treeOf(chunks int) (s treeShape) {
	s.count[0] = chunks
	for n := chunks; n > treeTop; {
		n = (n + treeFan - 1) / treeFan
		s.levels++
		s.count[s.levels] = n
		if s.levels > 1 {
			s.first[s.levels] = s.first[s.levels-1] + s.count[s.levels-1]
		}
	}
	return s
}

// top is how many tags are in the pointer.
func (s treeShape) top() int { return s.count[s.levels] }

// nodes is how many nodes there are.
func (s treeShape) nodes() int {
	if s.levels == 0 {
		return 0
	}
	return s.first[s.levels] + s.count[s.levels]
}

// split parts a blob's extents into those of its chunks and those of its nodes.
func (b *Blob) split() (chunks, nodes []extent) {
	left := ioengine.BlocksFor(b.size)
	for _, x := range b.extents {
		n := min(left, x.n)
		if n > 0 {
			chunks = append(chunks, extent{x.lba, n})
		}
		if x.n > n {
			nodes = append(nodes, extent{x.lba + device.LBA(n), x.n - n})
		}
		left -= n
	}
	return chunks, nodes
}

// treeWriter makes the nodes of a blob while its chunks are written.
type treeWriter struct {
	w     *ioengine.Writer
	shape treeShape
	level int            // that is being written
	tags  []ioengine.Tag // of the level below that have no node yet, above the first
}

// newTreeWriter returns nil if the blob needs no nodes.
func (io *BlobIO) newTreeWriter(b *Blob, nodes []extent) (*treeWriter, error) {
	t := &treeWriter{shape: treeOf(b.chunks()), level: 1}
	if !b.tree || t.shape.levels == 0 {
		return nil, nil
	}
	key, err := io.v.treeKey(b)
	if err != nil {
		return nil, err
	}
	t.w, err = io.e.NewWriter(key, device.BlockSize, engineExtents(nodes)...)
	return t, err
}

// take writes what nodes of the first level it can from the tags of chunks, and forgets those there.
func (t *treeWriter) take(chunks *ioengine.Writer, all bool) error {
	if t.level > 1 {
		return nil
	}
	n, err := t.nodes(chunks.Tags(), all)
	chunks.TakeTags(n)
	return err
}

// nodes writes nodes from tags, incomplete ones if these are all, and returns how many tags it has used.
func (t *treeWriter) nodes(tags []ioengine.Tag, all bool) (used int, err error) {
	for used < len(tags) && (all || len(tags)-used >= treeFan) {
		var node [device.BlockSize]byte
		n := min(treeFan, len(tags)-used)
		for i := range n {
			copy(node[i*tagSize:], tags[used+i][:])
		}
		if ok, err := t.w.TryWrite(node[:]); !ok || err != nil {
			return used, err
		}
		used += n
	}
	return used, nil
}

// finish writes the upper levels, once all chunks are sealed. done: top are the tags for the pointer.
func (t *treeWriter) finish(chunks *ioengine.Writer) (top []ioengine.Tag, done bool, err error) {
	if err := t.take(chunks, true); err != nil || t.level == 1 && len(chunks.Tags()) > 0 {
		return nil, false, err
	}
	for {
		if len(t.tags) > 0 {
			n, err := t.nodes(t.tags, true)
			if t.tags = t.tags[n:]; err != nil || len(t.tags) > 0 {
				return nil, false, err
			}
		}
		// Of the writer's tags only those of the level that is complete are left.
		if n := len(t.w.Tags()); n != t.shape.count[t.level] {
			panic(fmt.Sprintf("internal error: %d nodes at level %d of a tree that has %d there", n, t.level, t.shape.count[t.level]))
		}
		if t.level == t.shape.levels {
			return t.w.Tags(), true, nil
		}
		t.tags = append([]ioengine.Tag(nil), t.w.Tags()...)
		t.w.TakeTags(len(t.tags))
		t.level++
	}
}

// treeKey derives the key of a blob's nodes.
func (v *Volume) treeKey(b *Blob) (*ioengine.Key, error) {
	return v.deriveBlobKey(b, labelTree, treeKind)
}
