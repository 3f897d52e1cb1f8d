package nvme

import (
	"errors"
	"fmt"
)

// resetsMax bounds how often a device resets its controller before it gives it up.
const resetsMax = 4

var errClosed = errors.New("device is closed")

// ErrReset is wrapped by the error of a command that was in flight when the controller was reset. Its outcome is unknown.
var ErrReset = errors.New("the controller was reset meanwhile")

// ErrWritesStopped is wrapped by writes, flushes and trims after a reset. What was written before and not yet flushed may be gone;
// only a restart, which compares chain and counter, can tell (DESIGN.md 4.5, row 28). Reads go on.
var ErrWritesStopped = errors.New("no more writes after a reset of the controller: restart")

// stopLocked makes the controller stop, by its own reset or else by the function's. Afterwards it reaches no memory of ours,
// unless an error says that it may.
func (d *Device) stopLocked() error {
	err := d.ctrl.disable()
	if err == nil {
		return nil
	}
	if r, ok := d.bar.(FunctionResetter); ok && !errors.Is(err, ErrGone) {
		if resetErr := r.ResetFunction(); resetErr == nil {
			return nil
		} else {
			err = errors.Join(err, resetErr)
		}
	}
	d.stuck.Store(true)
	return err
}

// recover resets the controller because of why, unless that has happened since the caller's life began. Each queue notices by
// itself (Queue.enter) and makes its pair anew; until then the controller knows of none, so nobody has to be waited for.
func (d *Device) recover(life uint32, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recoverLocked(life, why)
}

func (d *Device) recoverLocked(life uint32, why error) {
	if d.life.Load() != life || d.dead != nil {
		return
	}
	d.writesStopped.Store(true)
	d.opts.Log(fmt.Sprintf("nvme: resetting the controller, writing stops: %v", why))
	// From here on every queue that looks waits for the mutex. Their buffers stay theirs until the controller has stopped.
	defer d.life.Add(1)
	if err := d.stopLocked(); err != nil {
		d.giveUpLocked(errors.Join(why, err))
		return
	}
	if d.resets++; d.resets > resetsMax {
		d.giveUpLocked(fmt.Errorf("%d resets: %w", resetsMax, why))
		return
	}
	_, geometry, granted, err := d.bringUp()
	switch {
	case err != nil:
	case geometry != d.geometry: // row 17
		err = fmt.Errorf("%+v, then %+v: %w", d.geometry, geometry, ErrGeometry)
	case granted < d.granted:
		err = fmt.Errorf("%d queue pairs, then %d: %w", d.granted, granted, ErrUnusable)
	}
	if err != nil {
		d.giveUpLocked(errors.Join(err, d.stopLocked()))
	}
}

// giveUpLocked ends the device for good.
func (d *Device) giveUpLocked(err error) {
	d.dead = fmt.Errorf("nvme: controller given up: %w", err)
	d.opts.Log(d.dead.Error())
}

// look checks the controller's status while something is waited for (row 32).
func (d *Device) look() error {
	switch status := d.bar.Read32(regCSTS); {
	case status == cstsGone:
		return ErrGone
	case status&cstsFatal != 0:
		return fmt.Errorf("fatal status (CSTS %#x): %w", status, ErrUnusable)
	case status&cstsReady == 0:
		return fmt.Errorf("no longer ready (CSTS %#x): %w", status, ErrUnusable)
	}
	return nil
}
