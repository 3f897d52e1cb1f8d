package nvme

import (
	"errors"
	"fmt"
	"time"

	"cvmstore/ioengine/device"
)

// timestamp is a reading of the Clock.
type timestamp = time.Duration

// Poll implements device.Queue. Completions come from the ring; what is in the buffers is the caller's to verify.
func (q *Queue) Poll(out []device.Completion) (int, error) {
	q.lock()
	defer q.unlock()
	if err := q.enter(); err != nil {
		return 0, err
	}
	n := 0
	if q.backCount > 0 {
		n = q.kept(out)
	}
	h := q.h
	taken := 0
	// At most as many as are outstanding (row 6).
	for budget := h.inflight(); taken < budget; taken++ {
		c, t, err := h.take()
		if err != nil {
			return n, q.fail(err)
		}
		if t == nil {
			break
		}
		done := device.Completion{Token: t.token}
		if c.status.code() != 0 {
			done.Err = t.err(c.status.err())
		}
		if t.owner == q && n < len(out) && q.backCount == 0 {
			out[n] = done
			n++
			q.outstanding--
		} else {
			t.owner.keep(done)
		}
		h.end(c)
	}
	if taken > 0 {
		h.cqDoor.ring(h.head)
		h.idlePolls = 0
	}
	if h.inflight() == 0 {
		if err := h.tooMany(); err != nil {
			return n, q.fail(err)
		}
	} else if taken == 0 {
		q.watch()
	}
	return n, nil
}

// err says what failed, and where.
func (t *tracker) err(why error) error {
	what := map[device.Op]string{device.OpRead: "read", device.OpWrite: "write", device.OpFlush: "flush", device.OpTrim: "trim"}[t.op]
	return fmt.Errorf("nvme: %s at block %d: %w", what, t.lba, why)
}

// Wait implements device.Queue. It polls: without a pause at first, then with short ones.
func (q *Queue) Wait(out []device.Completion, timeout time.Duration) (int, error) {
	w := startWait(q.d.opts.Clock)
	for {
		n, err := q.Poll(out)
		if n > 0 || err != nil || q.outstanding == 0 || len(out) == 0 {
			return n, err
		}
		if w.rest() >= timeout {
			return 0, nil
		}
	}
}

const (
	idlePolls = 64                   // polls that found nothing between two looks at the clock
	lookEvery = 5 * time.Millisecond // between two looks at the status and the trackers
	graceAll  = 4                    // an aborted command gets a part of the timeout to complete
)

// watch is for polls that found nothing though something is outstanding: every now and then it looks whether the controller
// is alive and the oldest commands are in time (rows 21 and 32).
func (q *Queue) watch() {
	d, h := q.d, q.h
	if h.idlePolls++; h.idlePolls < idlePolls {
		return
	}
	h.idlePolls = 0
	now := d.opts.Clock.Now()
	if now < h.nextLook {
		return
	}
	h.nextLook = now + min(lookEvery, d.opts.Timeout/graceAll)
	if err := d.look(); err != nil {
		d.recover(h.life, err)
		return
	}
	for i := range h.trackers {
		t := &h.trackers[i]
		if !t.busy || now-t.since < d.opts.Timeout {
			continue
		}
		why := t.err(ErrTimeout)
		if t.aborted {
			d.recover(h.life, why)
			return
		}
		t.aborted = true
		t.since = now - d.opts.Timeout + d.opts.Timeout/graceAll
		if err := d.abort(h, t.cid, why); err != nil {
			d.recover(h.life, errors.Join(why, err))
			return
		}
	}
}

// abort asks the controller to give up a command that is late.
func (d *Device) abort(h *hardware, cid uint16, why error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil || d.life.Load() != h.life {
		return nil // something bigger happened
	}
	d.opts.Log(fmt.Sprintf("nvme: aborting: %v", why))
	if err := d.ctrl.abort(h.id, cid); err != nil && !errors.Is(err, ErrRefused) {
		return err
	}
	return nil
}
