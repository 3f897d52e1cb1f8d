package hostile

import (
	"cvmstore/ioengine/device"
	"cvmstore/nvme"
)

// backing is a device that does what commands ask for, in place of the controller's own disk: a modelled drive, for benchmarks.
// Requests are handed on when the doorbell rings; completions are posted when the driver looks at the clock.
type backing struct {
	dev  device.Device
	q    device.Queue
	open []pending // by token
	free []uint64
	done [64]device.Completion
}

// backingDepth is how many requests the backing device has at once.
const backingDepth = 256

func newBacking(d device.Device) (*backing, error) {
	q, err := d.NewQueue(backingDepth)
	if err != nil {
		return nil, err
	}
	b := &backing{dev: d, q: q, open: make([]pending, backingDepth)}
	for i := range uint64(backingDepth) {
		b.free = append(b.free, i)
	}
	return b, nil
}

// Attach makes a device do what I/O commands ask for. It is called before the driver opens the controller, which then has as
// many blocks as the device.
func (c *Controller) Attach(d device.Device) error {
	b, err := newBacking(d)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backing, c.opts.Blocks = b, uint64(d.Info().Blocks)
	return nil
}

// Detach closes the queue of the device that was attached.
func (c *Controller) Detach() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.backing.q.Close()
}

// handOn gives a command to the backing device.
func (c *Controller) handOn(p pending) {
	b := c.backing
	if len(b.free) == 0 {
		c.problem("more than %d commands at once", backingDepth)
		return
	}
	token := b.free[len(b.free)-1]
	r := device.Request{Op: device.OpFlush, Token: token}
	switch op := uint8(p.cmd[0]); op {
	case 0x01, 0x02:
		lba, blocks, ok := c.span(p.cmd[5], p.cmd[6]&0xffff+1)
		r.Buf = c.buffer(&p.cmd, int(blocks))
		if !ok || r.Buf == nil {
			c.post(p.q, uint16(p.cmd[0]>>16), statusField, 0)
			return
		}
		r.LBA, r.Op, r.Through = device.LBA(lba), device.OpWrite, p.cmd[6]>>30&1 != 0
		if op == 0x02 {
			r.Op = device.OpRead
		}
	case 0x00:
	default:
		c.post(p.q, uint16(p.cmd[0]>>16), statusOpcode, 0)
		return
	}
	if n, err := b.q.Submit([]device.Request{r}); n != 1 {
		c.problem("the backing device takes no request: %v", err)
		return
	}
	b.free = b.free[:len(b.free)-1]
	b.open[token] = p
}

// buffer is the data of a command as one piece, which it is unless Options.Scatter is set.
func (c *Controller) buffer(cmd *[8]uint64, n int) []byte {
	for _, p := range c.pieces {
		first := p.memory.Pages[0]
		if p.purpose != nvme.PurposeBuffers || cmd[3] < first || cmd[3]-first >= uint64(len(p.memory.Bytes)) {
			continue
		}
		at := int(cmd[3] - first)
		last := cmd[3] + uint64(n-1)*pageSize
		if n > 2 {
			list, ok := c.table[cmd[4]&^(pageSize-1)]
			if !ok || words(list.bytes)[cmd[4]%pageSize/8+uint64(n-2)] != last {
				break
			}
		} else if n == 2 && cmd[4] != last {
			break
		}
		if at+n*pageSize <= len(p.memory.Bytes) {
			return p.memory.Bytes[at : at+n*pageSize]
		}
	}
	c.problem("data at %#x is not %d pages of one piece of memory", cmd[3], n)
	return nil
}

// collect posts the completions that the backing device has.
func (b *backing) collect(c *Controller) {
	n, err := b.q.Poll(b.done[:])
	if err != nil {
		c.problem("the backing device: %v", err)
		return
	}
	for _, d := range b.done[:n] {
		p := b.open[d.Token]
		b.free = append(b.free, d.Token)
		status := uint16(statusOK)
		if d.Err != nil {
			status = statusInternal
		}
		c.post(p.q, uint16(p.cmd[0]>>16), status, 0)
	}
}
