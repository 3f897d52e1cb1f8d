package nvme

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// adminDepth is how many admin commands stand in the ring. One is in flight at a time; a lost one takes its place along.
const adminDepth = 15

// ErrGone is wrapped when the controller no longer answers at all: unplugged, or never there.
var ErrGone = errors.New("the controller is gone")

// ErrTimeout is wrapped when something was not done by our deadline.
var ErrTimeout = errors.New("no answer in time")

// controller is the controller's registers and its admin queue. Device.mu guards it; nothing here is on the data path.
type controller struct {
	bar   Bar
	dma   DMA
	clock Clock
	caps  capabilities
	admin *pair
	page  Memory // where Identify writes

	commandTimeout, readyTimeout time.Duration
}

// newController reads what does not change, and allocates the shared memory of the admin queue. The controller keeps doing
// what it did until start.
func newController(bar Bar, dma DMA, o *Options) (_ *controller, err error) {
	c := &controller{bar: bar, dma: dma, clock: o.Clock, commandTimeout: o.AdminTimeout}
	if bar.Size() < regDoorbells {
		return nil, fmt.Errorf("BAR of %d bytes: %w", bar.Size(), ErrUnusable)
	}
	if c.caps, err = decodeCAP(bar.Read64(regCAP), bar.Size()); err != nil {
		return nil, err
	}
	c.readyTimeout = min(c.caps.readyTimeout, o.ReadyTimeout)
	depth := min(adminDepth, c.caps.entries-1)
	if c.admin, err = newPair(dma, 0, depth, PurposeAdminSubmission, PurposeAdminCompletion); err != nil {
		return nil, err
	}
	c.admin.sqDoor, c.admin.cqDoor = newDoorbell(bar, c.caps.stride, 0, 0), newDoorbell(bar, c.caps.stride, 0, 1)
	if c.page, err = dma.Alloc(PurposeIdentify, PageSize); err != nil {
		c.admin.freeMemory(dma)
		return nil, err
	}
	return c, nil
}

func (c *controller) freeMemory() {
	c.admin.freeMemory(c.dma)
	c.dma.Free(c.page)
}

// await polls CSTS until mask has the wanted value (rows 21 and 26: each look is one read, and there is a deadline).
func (c *controller) await(what string, mask, want uint32) error {
	w := startWait(c.clock)
	for {
		status := c.bar.Read32(regCSTS)
		switch {
		case status == cstsGone:
			return fmt.Errorf("%s: %w", what, ErrGone)
		case status&mask == want:
			return nil
		case status&cstsFatal != 0 && want&cstsReady != 0:
			return fmt.Errorf("%s: fatal status (CSTS %#x): %w", what, status, ErrUnusable)
		}
		if w.rest() > c.readyTimeout {
			return fmt.Errorf("%s: not after %v (CSTS %#x): %w", what, c.readyTimeout, status, ErrTimeout)
		}
	}
}

// disable resets the controller (section 3.7.2, Controller Level Reset by CC.EN) and returns when it says that it has stopped: it
// forgets all queues and commands, and what they pointed to is ours again (row 18).
func (c *controller) disable() error {
	c.bar.Write32(regCC, 0)
	return c.await("disable the controller", cstsReady, 0)
}

// start brings the controller from disabled to ready, by the steps of section 3.5.1 (memory-based transport).
func (c *controller) start() error {
	c.admin.reset()
	// Step 2: the admin queue. AQA holds both sizes, 0's based; ASQ and ACQ its addresses.
	n := uint32(len(c.admin.sq) - 1)
	c.bar.Write32(regAQA, n|n<<16)
	c.bar.Write64(regASQ, c.admin.sqMemory.Pages[0])
	c.bar.Write64(regACQ, c.admin.cqMemory.Pages[0])
	// Steps 3 to 5: command set, arbitration, page size and entry sizes, then enable. No interrupts are set up anywhere.
	c.bar.Write32(regCC, ccEntrySizes|ccEnable)
	// Step 6.
	return c.await("enable the controller", cstsReady, cstsReady)
}

// shutdown tells the controller that power may go (section 3.6.1), so that it writes its cache, and stops it.
func (c *controller) shutdown() error {
	c.bar.Write32(regCC, ccEntrySizes|ccEnable|ccShutdown)
	err := c.await("shut the controller down", cstsShutdownMask, cstsShutdownDone)
	return errors.Join(err, c.disable())
}

// do runs one admin command and waits for it. After ErrTimeout or ErrProtocol only a reset helps.
func (c *controller) do(what string, cmd *command) (uint32, error) {
	p := c.admin
	if len(p.free) == 0 {
		return 0, fmt.Errorf("%s: the admin queue is full of lost commands: %w", what, ErrTimeout)
	}
	_, t := p.begin()
	cmd[0] = cmd[0]&^(0xffff<<16) | uint64(t.cid)<<16
	p.push(cmd)
	p.sqDoor.ring(p.tail)
	w := startWait(c.clock)
	// Each turn either takes one of the bounded number of commands in flight or waits against the deadline.
	for {
		done, taken, err := p.take()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
		if taken != nil {
			p.end(done)
			p.cqDoor.ring(p.head)
			if taken != t {
				continue // an abort or the like that we had given up on
			}
			if err := done.status.err(); err != nil {
				return 0, fmt.Errorf("%s: %w", what, err)
			}
			return done.result, p.tooMany()
		}
		if w.rest() > c.commandTimeout {
			return 0, fmt.Errorf("%s: %w", what, ErrTimeout)
		}
	}
}

// identify returns a private copy of an Identify page (section 5.17).
func (c *controller) identify(what string, cns, namespace uint32) (*[PageSize]byte, error) {
	clear(c.page.Bytes[:PageSize])
	var cmd command
	cmd.head(opIdentify, 0, namespace)
	cmd[3] = c.page.Pages[0]
	cmd.words10(cns, 0)
	if _, err := c.do("identify "+what, &cmd); err != nil {
		return nil, err
	}
	page := new([PageSize]byte)
	copy(page[:], c.page.Bytes)
	return page, nil
}

func (c *controller) identity() (Identity, error) {
	page, err := c.identify("the controller", cnsController, 0)
	if err != nil {
		return Identity{}, err
	}
	return parseIdentity(page)
}

// active lists up to 1024 namespaces. A controller before NVMe 1.1 has no such list: all numbers may be active then.
func (c *controller) active(id Identity) ([]uint32, error) {
	page, err := c.identify("the active namespaces", cnsActive, 0)
	if err == nil {
		return parseActive(page)
	}
	if !errors.Is(err, ErrRefused) {
		return nil, err
	}
	var all []uint32
	for n := range min(id.Namespaces, 16) {
		all = append(all, n+1)
	}
	return all, nil
}

// geometry returns the shape of one namespace; 0 means the only one.
func (c *controller) geometry(id Identity, namespace uint32) (Geometry, error) {
	all, err := c.active(id)
	if err != nil {
		return Geometry{}, err
	}
	switch {
	case len(all) == 0:
		return Geometry{}, fmt.Errorf("no namespace is active: %w", ErrUnusable)
	case namespace == 0 && len(all) > 1:
		return Geometry{}, fmt.Errorf("there are namespaces %v: say which one (vfio:ADDRESS/NUMBER): %w", all[:min(len(all), 8)], ErrUnusable)
	case namespace == 0:
		namespace = all[0]
	case !slices.Contains(all, namespace):
		return Geometry{}, fmt.Errorf("namespace %d is not active, but %v: %w", namespace, all[:min(len(all), 8)], ErrUnusable)
	}
	page, err := c.identify(fmt.Sprintf("namespace %d", namespace), cnsNamespace, namespace)
	if err != nil {
		return Geometry{}, err
	}
	return parseNamespace(page, namespace)
}

// grant asks for n queue pairs (section 5.27.1.5) and returns how many there are, at most n (row 31).
func (c *controller) grant(n int) (int, error) {
	n = min(n, c.caps.pairs(c.bar.Size())-1)
	if n < 1 {
		return 0, fmt.Errorf("no room for the doorbells of an I/O queue: %w", ErrUnusable)
	}
	var cmd command
	cmd.head(opSetFeatures, 0, 0)
	cmd.words10(featureQueues, uint32(n-1)|uint32(n-1)<<16)
	result, err := c.do("ask for I/O queues", &cmd)
	if err != nil {
		return 0, err
	}
	// Both numbers are 0's based, so no answer means none; 0xffff cannot be meant, section 5.27.1.5 forbids it.
	submission, completion := int(result&0xffff)+1, int(result>>16)+1
	if submission > 0xffff || completion > 0xffff {
		return 0, fmt.Errorf("the controller grants no I/O queues (%#x): %w", result, ErrUnusable)
	}
	return min(n, submission, completion), nil
}

// create tells the controller about a pair's rings (sections 5.4 and 5.5): the completion queue first, without interrupts.
func (c *controller) create(p *pair) error {
	size := uint32(len(p.cq)-1)<<16 | uint32(p.id)
	var cmd command
	cmd.head(opCreateCompletion, 0, 0)
	cmd[3] = p.cqMemory.Pages[0]
	cmd.words10(size, createContiguous)
	if _, err := c.do(fmt.Sprintf("create completion queue %d", p.id), &cmd); err != nil {
		return err
	}
	cmd = command{}
	cmd.head(opCreateSubmission, 0, 0)
	cmd[3] = p.sqMemory.Pages[0]
	cmd.words10(size, createContiguous|uint32(p.id)<<16)
	_, err := c.do(fmt.Sprintf("create submission queue %d", p.id), &cmd)
	return err
}

// remove makes the controller forget a pair (sections 5.7 and 5.6), the submission queue first.
func (c *controller) remove(p *pair) error {
	for _, op := range []uint8{opDeleteSubmission, opDeleteCompletion} {
		var cmd command
		cmd.head(op, 0, 0)
		cmd.words10(uint32(p.id), 0)
		if _, err := c.do(fmt.Sprintf("delete queue %d", p.id), &cmd); err != nil {
			return err
		}
	}
	return nil
}

// abort asks the controller to give a command up (section 5.1). It may do so or not; the command completes either way.
func (c *controller) abort(queue, cid uint16) error {
	var cmd command
	cmd.head(opAbort, 0, 0)
	cmd.words10(uint32(queue)|uint32(cid)<<16, 0)
	_, err := c.do("abort", &cmd)
	return err
}
