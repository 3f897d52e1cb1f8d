package hostile

import (
	"encoding/binary"
)

// Status codes that the controller uses.
const (
	statusOK           = 0x000
	statusOpcode       = 0x001
	statusField        = 0x002
	statusInternal     = 0x006
	statusAborted      = 0x007
	statusNamespace    = 0x00b
	statusRange        = 0x080
	statusQueue        = 0x101
	statusQueueSize    = 0x102
	statusWriteFault   = 0x280
	statusLost         = 0xffff // not a status: there is no completion
	asynchronousResult = 0x00010000
)

// adminCommand carries one out.
func (c *Controller) adminCommand(cmd *[8]uint64) (status uint16, result uint32) {
	if c.armed && c.makes(NeverDoneAdmin) {
		return statusLost, 0
	}
	w10, w11 := uint32(cmd[5]), uint32(cmd[5]>>32)
	switch op := uint8(cmd[0]); op {
	case 0x06:
		return c.identify(uint8(w10), uint32(cmd[0]>>32), cmd[3]), 0
	case 0x09:
		if uint8(w10) != 0x07 {
			c.problem("set feature %#x", uint8(w10))
			return statusField, 0
		}
		return c.grant()
	case 0x05:
		return c.createCompletion(cmd[3], w10, w11), 0
	case 0x01:
		return c.createSubmission(cmd[3], w10, w11), 0
	case 0x00, 0x04:
		return c.deleteQueue(op, int(w10&0xffff)), 0
	case 0x08:
		return statusOK, c.abort(int(w10&0xffff), uint16(w10>>16))
	default:
		c.problem("admin command %#x", op)
		return statusOpcode, 0
	}
}

func (c *Controller) grant() (uint16, uint32) {
	n := uint32(c.opts.Pairs - 1)
	if c.makes(QueuesNone) {
		if c.opts.Seed%2 == 0 {
			return statusInternal, 0
		}
		n = 0xffff
	}
	if c.makes(QueuesMany) {
		n = 0xfffe
	}
	return statusOK, n | n<<16
}

func (c *Controller) createCompletion(address uint64, w10, w11 uint32) uint16 {
	id, n := int(w10&0xffff), int(w10>>16)+1
	if id < 1 || id >= len(c.queues) || c.queues[id] != nil {
		c.problem("create completion queue %d", id)
		return statusQueue
	}
	if n < 2 || n > c.entries() || w11 != 1 {
		c.problem("completion queue of %d entries, flags %#x", n, w11)
		return statusQueueSize
	}
	cq := c.ring("completion queue", address, n*16, "I/O completion queue")
	if cq == nil {
		return statusField
	}
	c.queues[id] = &queue{id: id, cq: cq, cqAddress: address, phase: 1}
	return statusOK
}

func (c *Controller) createSubmission(address uint64, w10, w11 uint32) uint16 {
	id, n := int(w10&0xffff), int(w10>>16)+1
	if id < 1 || id >= len(c.queues) || c.queues[id] == nil || c.queues[id].sq != nil || int(w11>>16) != id {
		c.problem("create submission queue %d for completion queue %d", id, w11>>16)
		return statusQueue
	}
	if n < 2 || n > c.entries() || w11&0xffff != 1 {
		c.problem("submission queue of %d entries, flags %#x", n, w11&0xffff)
		return statusQueueSize
	}
	sq := c.ring("submission queue", address, n*64, "I/O submission queue")
	if sq == nil {
		return statusField
	}
	q := c.queues[id]
	q.sq, q.sqAddress = sq, address
	return statusOK
}

func (c *Controller) entries() int {
	if c.enabled(EntriesMany) {
		return 65536
	}
	return c.opts.Entries
}

func (c *Controller) deleteQueue(op uint8, id int) uint16 {
	if id < 1 || id >= len(c.queues) || c.queues[id] == nil || (op == 0x00) != (c.queues[id].sq != nil) {
		c.problem("delete (%#x) queue %d", op, id)
		return statusQueue
	}
	q := c.queues[id]
	rest := c.pending[:0]
	for _, p := range c.pending {
		if p.q != q {
			rest = append(rest, p)
		}
	}
	c.pending = rest
	if op == 0x00 {
		q.sq = nil
	} else {
		c.queues[id] = nil
	}
	return statusOK
}

// abort gives up a command that is pending, or one that got lost if a coin says so. Result bit 0: not aborted.
func (c *Controller) abort(id int, cid uint16) uint32 {
	for _, list := range []*[]pending{&c.pending, &c.late} {
		for i, p := range *list {
			if p.q.id != id || uint16(p.cmd[0]>>16) != cid || list == &c.late && (c.enabled(LateDMA) || c.rng.IntN(2) == 0) {
				continue
			}
			*list = append((*list)[:i], (*list)[i+1:]...)
			c.post(p.q, cid, statusAborted, 0)
			return 0
		}
	}
	return 1
}

// identify writes a page.
func (c *Controller) identify(cns uint8, namespace uint32, address uint64) uint16 {
	page := c.page("identify", address, "identify page")
	if page == nil {
		return statusField
	}
	switch cns {
	case 0x00:
		if namespace < 1 || int(namespace) > c.opts.Namespaces {
			return statusNamespace
		}
		c.identifyNamespace(page)
	case 0x01:
		c.identifyController(page)
	case 0x02:
		clear(page)
		for i := range c.opts.Namespaces {
			binary.LittleEndian.PutUint32(page[4*i:], uint32(i+1))
		}
	default:
		return statusField
	}
	return statusOK
}

func (c *Controller) identifyController(page []byte) {
	le := binary.LittleEndian
	clear(page)
	le.PutUint16(page[0:], 0x1b36)
	pad := func(at, n int, s string) {
		for i := range n {
			page[at+i] = ' '
		}
		copy(page[at:at+n], s)
	}
	c.makes(OtherDevice) // whose disk it is shows nowhere in here: that is the attack
	pad(4, 20, c.opts.Serial)
	pad(24, 40, "hostile controller")
	pad(64, 8, "1")
	if c.makes(StringsCrafted) {
		pad(4, 20, "\x1b]0;title\a\x1b[2J%s%n\xff\xfe")
		pad(24, 40, "a\r\n{\"level\":\"error\"}\x00\u202e\x9b31m")
		pad(64, 8, "\x7f\x80\x81\xc0\xaf\n\n\n")
	}
	page[77] = c.opts.MDTS
	if c.makes(TransferAbsurd) {
		page[77] = []byte{255, 63, 64, 31, 32, 52, 10}[c.rng.IntN(7)]
	}
	le.PutUint32(page[80:], 0x00020000)
	oacs := uint16(0)
	if c.makes(ShadowDoorbells) {
		oacs |= 1 << 8
	}
	le.PutUint16(page[256:], oacs)
	if c.makes(MemoryOffered) {
		le.PutUint32(page[272:], 1024) // HMPRE
	}
	page[512], page[513] = 0x66, 0x44
	if c.makes(EntrySizesAbsurd) {
		absurd := [][2]byte{{0x77, 0x44}, {0x66, 0x55}, {0, 0}, {0xff, 0xff}, {0x55, 0x44}}[c.rng.IntN(5)]
		page[512], page[513] = absurd[0], absurd[1]
	}
	le.PutUint32(page[516:], uint32(c.opts.Namespaces))
	if !c.opts.NoTrim {
		le.PutUint16(page[520:], 1<<2)
	}
	page[525] = 1
	if c.makes(NoCache) {
		page[525] = 0
	}
}

func (c *Controller) identifyNamespace(page []byte) {
	le := binary.LittleEndian
	clear(page)
	shift := uint32(9)
	if c.opts.LogicalBytes == 4096 {
		shift = 12
	}
	size := c.opts.Blocks << 12 >> shift
	if c.starts > 1 && c.makes(GeometryChanges) {
		size /= 2
	}
	if c.makes(SizeNone) {
		size = 0
	}
	if c.makes(SizeAbsurd) {
		size = ^uint64(0) - c.rng.Uint64N(3)
	}
	page[25], page[26] = 1, 1
	if c.makes(FormatAbsurd) {
		page[25], page[26] = []byte{0, 1, 255}[c.rng.IntN(3)], []byte{0x0f, 0x6f, 0xff}[c.rng.IntN(3)]
		for at := 128; at < 384; at += 4 {
			le.PutUint32(page[at:], 0x00ff0000)
		}
	}
	if c.makes(BlockSizeAbsurd) {
		shift = []uint32{0, 1, 3, 8, 10, 13, 31, 32, 63, 64, 255}[c.rng.IntN(11)]
	}
	metadata := uint32(0)
	if c.makes(MetadataOn) {
		metadata = []uint32{8, 64, 0xffff}[c.rng.IntN(3)]
	}
	le.PutUint64(page[0:], size)
	le.PutUint64(page[8:], size)
	le.PutUint64(page[16:], size)
	if !c.enabled(FormatAbsurd) {
		le.PutUint32(page[128+4:], shift<<16|metadata)
	}
}
