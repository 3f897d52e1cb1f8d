package volume

import (
	"sync"

	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
)

// nodeCache keeps verified tree nodes in private memory, of all blobs together. A node that is here was checked against the one
// above it, down from a pointer's tags, so the tags in it are authentic.
type nodeCache struct {
	mu    sync.Mutex
	nodes map[nodeName]*treeNode
	order []nodeName // in which they came: the oldest goes first
	blobs map[BlobID]int
}

type nodeName struct {
	blob BlobID
	node int
}

type treeNode [device.BlockSize]byte

func (n *treeNode) tag(i int) (t ioengine.Tag) {
	copy(t[:], n[i*tagSize:])
	return t
}

// nodesMax bounds the cache: 16 MiB, the nodes of 1 TiB in chunks of 1 MiB.
const nodesMax = 4096

func (c *nodeCache) get(blob BlobID, node int) *treeNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[nodeName{blob, node}]
}

func (c *nodeCache) put(blob BlobID, node int, n *treeNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := nodeName{blob, node}
	if c.nodes[name] != nil {
		return
	}
	if c.nodes == nil {
		c.nodes, c.blobs = map[nodeName]*treeNode{}, map[BlobID]int{}
	}
	for len(c.nodes) >= nodesMax && len(c.order) > 0 {
		c.drop(c.order[0])
		c.order = c.order[1:]
	}
	c.nodes[name] = n
	c.blobs[blob]++
	c.order = append(c.order, name)
}

func (c *nodeCache) drop(name nodeName) {
	if c.nodes[name] == nil {
		return
	}
	delete(c.nodes, name)
	if c.blobs[name.blob]--; c.blobs[name.blob] == 0 {
		delete(c.blobs, name.blob)
	}
}

// forget drops the nodes of a blob that nobody refers to any more.
func (c *nodeCache) forget(b *Blob) {
	if !b.tree {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blobs[b.ID()] == 0 {
		return
	}
	kept := c.order[:0]
	for _, name := range c.order {
		if name.blob == b.ID() {
			c.drop(name)
			continue
		}
		kept = append(kept, name)
	}
	c.order = kept
}

// treeReader finds the tags of a blob's chunks. It asks the device for the nodes that nobody has verified yet, one at a time.
type treeReader struct {
	io    *BlobIO
	blob  *Blob
	shape treeShape
	r     *ioengine.Reader // nil until the first node is asked for
	asked int              // the node that is on its way; -1: none
	dst   *treeNode
	last  *treeNode // of the chunk asked for last
	at    int       // its number
}

func (bio *BlobIO) newTreeReader(b *Blob) *treeReader {
	t := &treeReader{io: bio, blob: b, asked: -1, at: -1}
	if b.tree {
		t.shape = treeOf(b.chunks())
	}
	return t
}

// tag returns the tag of a chunk. ok false without an error: wait for a Step that moves something.
func (t *treeReader) tag(chunk int) (tag ioengine.Tag, ok bool, err error) {
	if t.shape.levels == 0 {
		return t.blob.tags[chunk], true, nil
	}
	if err := t.arrive(); err != nil {
		return tag, false, err
	}
	leaf := chunk >> treeFanLog
	if t.at != leaf {
		n, err := t.node(1, leaf)
		if n == nil || err != nil {
			return tag, false, err
		}
		t.last, t.at = n, leaf
	}
	if chunk&(treeFan-1) >= treeFan/2 && leaf+1 < t.shape.count[1] && t.asked < 0 {
		_, err = t.node(1, leaf+1) // soon wanted, if this goes on
	}
	return t.last.tag(chunk & (treeFan - 1)), true, err
}

// node returns a verified node, or asks for it, or for one above it.
func (t *treeReader) node(level, n int) (*treeNode, error) {
	number := t.shape.first[level] + n
	if got := t.io.v.blobs.nodes.get(t.blob.ID(), number); got != nil {
		return got, nil
	}
	var tag ioengine.Tag
	if level == t.shape.levels {
		tag = t.blob.tags[n]
	} else {
		above, err := t.node(level+1, n>>treeFanLog)
		if above == nil || err != nil {
			return nil, err
		}
		tag = above.tag(n & (treeFan - 1))
	}
	if t.asked < 0 {
		return nil, t.ask(number, tag)
	}
	return nil, nil
}

func (t *treeReader) ask(number int, tag ioengine.Tag) error {
	if t.r == nil {
		key, err := t.io.v.treeKey(t.blob)
		if err != nil {
			return err
		}
		_, nodes := t.blob.split()
		if t.r, err = t.io.e.NewReader(key, device.BlockSize, engineExtents(nodes)...); err != nil {
			return err
		}
	}
	t.dst = new(treeNode)
	ok, err := t.r.TryRead(uint64(number), tag, t.dst[:])
	if ok {
		t.asked = number
	}
	return err
}

// arrive takes the node that was asked for, if it has come.
func (t *treeReader) arrive() error {
	if t.asked < 0 {
		return nil
	}
	got, err := t.r.Next()
	if err != nil || got == nil {
		return err
	}
	t.io.v.blobs.nodes.put(t.blob.ID(), t.asked, t.dst)
	t.asked, t.dst = -1, nil
	return nil
}

func (t *treeReader) close() {
	if t.r != nil {
		t.r.Close()
		t.r, t.asked, t.dst = nil, -1, nil
	}
}
