package ioengine

// fair shares an engine among its pipelines: evenly by the chunks in flight, and evenly by the chunks served when there is not
// enough for that, whoever asks first. A pipeline that stopped asking holds up nobody.
type fair struct {
	pipes []*pipeline // with chunks in flight, or waiting for a buffer
	round uint64      // counts the Steps in which something completed
}

// fairLead is how many chunks a pipeline may be ahead of one that waits.
const fairLead = 2

// admit gives p an op with a buffer, or -1 if p must wait for a Step.
func (e *Engine) admit(p *pipeline) int {
	if !p.listed {
		p.listed = true
		// Whoever comes, or comes back, has no claims from before.
		p.served = max(p.served, e.fair.least(p, len(e.ops), true))
		e.fair.pipes = append(e.fair.pipes, p)
	}
	p.asked = e.fair.round
	p.waiting = true
	share := max(1, len(e.ops)/e.fair.wanting())
	if len(e.free) == 0 || e.batch.out || p.flying >= share || p.served > e.fair.least(p, share, false)+fairLead {
		return -1
	}
	buf := e.pool.get(e)
	if buf == nil {
		return -1
	}
	p.waiting = false
	p.flying++
	p.served++
	i := e.free[len(e.free)-1]
	e.free = e.free[:len(e.free)-1]
	e.ops[i].buf = buf
	return i
}

// wanting counts the pipelines that have chunks in flight or asked lately: at least one, who asks now.
func (f *fair) wanting() (n int) {
	for _, o := range f.pipes {
		if o.flying > 0 || o.asked+1 >= f.round {
			n++
		}
	}
	return n
}

// least returns the fewest chunks that another pipeline was served, of all or of those that wait and are kept from less than
// their share; p's own if there is none.
func (f *fair) least(p *pipeline, share int, all bool) uint64 {
	least, found := uint64(0), false
	for _, o := range f.pipes {
		starved := o.waiting && o.flying < share && o.asked+1 >= f.round
		if o != p && (all || starved) && (!found || o.served < least) {
			least, found = o.served, true
		}
	}
	if !found {
		return p.served
	}
	return least
}

// landed says that one of p's chunks came back.
func (e *Engine) landed(p *pipeline) {
	p.flying--
	e.fair.rest(p)
}

// rest takes p off the list if it wants nothing.
func (f *fair) rest(p *pipeline) {
	if p.flying > 0 || p.waiting || !p.listed {
		return
	}
	p.listed = false
	for i, o := range f.pipes {
		if o == p {
			f.pipes[i] = f.pipes[len(f.pipes)-1]
			f.pipes[len(f.pipes)-1] = nil
			f.pipes = f.pipes[:len(f.pipes)-1]
			return
		}
	}
}
