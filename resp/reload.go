package resp

import (
	"errors"
	"fmt"
	"time"

	"cvmstore/resp/command"
	"cvmstore/volume"
)

// DEBUG RELOAD: the volume is closed and recovered in place, as by a restart, under clients that stay connected. Every loop lets
// go of the volume and stands still meanwhile; replies that wait are released by the new watermarks, which are above all
// counters of before.

// reloadGather bounds how long the loops may take to come to a standstill: one of them may be in DEBUG SLEEP.
const reloadGather = 10 * time.Second

// reloading is one reload on its way through the loops.
type reloading struct {
	arrived chan struct{} // a loop has stopped
	permit  chan bool     // closed: let go of the volume; a false before that: go on with the old one
	free    chan error    // a loop has let go
	done    chan struct{} // closed when vol or err is there
	vol     Volume
	err     error
	back    chan error // a loop goes on, with the new volume
}

// Reload implements command.Server. The command that asks is parked first, and told with done.
func (v *view) Reload(c *command.Ctx) error {
	asker := v.l.sessions[c.S.FD]
	if c.Resume == command.ResumeReady {
		err := asker.reloaded
		asker.reloaded = nil
		return err
	}
	s := v.s
	switch {
	case s.opts.Reload == nil:
		return command.Error("ERR DEBUG RELOAD is not available here")
	case !s.isReloading.CompareAndSwap(false, true):
		return command.Error("ERR a reload is under way already")
	}
	asking := v.l
	go func() {
		err := s.reload()
		s.isReloading.Store(false)
		asking.post(func(l *loop) {
			if !asker.closed && asker.phase == phasePark {
				asker.reloaded = err
				l.unpark(asker, command.ResumeReady)
			}
		})
	}()
	c.Park = command.Park{Answer: true}
	return command.ErrPark
}

func (s *Server) reload() error {
	n := len(s.loops)
	r := &reloading{
		arrived: make(chan struct{}, n), permit: make(chan bool, n), free: make(chan error, n), done: make(chan struct{}), back: make(chan error, n),
	}
	for _, l := range s.loops {
		l.post(func(l *loop) { l.standStill(r) })
	}
	limit := time.NewTimer(reloadGather)
	defer limit.Stop()
	for range n {
		select {
		case <-r.arrived:
		case <-limit.C:
			for range n {
				r.permit <- false
			}
			return command.Error("ERR a loop did not stop in time for the reload")
		}
	}
	s.log.Warn().Msg("DEBUG RELOAD: the volume is closed and recovered")
	close(r.permit)
	var errs []error
	for range n {
		errs = append(errs, <-r.free)
	}
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
	}
	r.vol, r.err = s.opts.Reload()
	if r.err == nil {
		s.opts.Volume = r.vol // the loops that read it stand still
		s.subscribe()
		applied, _, _ := r.vol.Watermarks()
		s.observed.SavedAt.Store(uint64(applied))
		r.err = errors.Join(s.users.open(s), s.scripts.funcs.open(s, s.scripts.engine))
	}
	close(r.done)
	for range n {
		errs = append(errs, <-r.back)
	}
	err := errors.Join(append(errs, r.err)...)
	if err != nil { // nothing can be served; what a new start says is more to the point
		s.log.Error().Err(err).Msg("DEBUG RELOAD failed: stopping")
		(&view{s: s}).Shutdown()
		return fmt.Errorf("reload: %w", err)
	}
	return nil
}

// standStill keeps the loop from doing anything while the volume is exchanged.
func (l *loop) standStill(r *reloading) {
	r.arrived <- struct{}{}
	if _, keep := <-r.permit; keep {
		return
	}
	r.free <- l.letGo()
	<-r.done
	if r.err != nil {
		r.back <- nil
		return
	}
	l.vol = r.vol
	err := l.takeVolume(len(l.srv.loops))
	l.now = nanos()
	l.wants = [len(l.wants)]volume.Counter{}
	l.moved.Store(true)
	r.back <- err
}

// letGo drops the reads that are under way, whose places will mean nothing, and has their commands run again.
func (l *loop) letGo() error {
	for _, fd := range l.vol.Fds() {
		if fd >= 0 {
			l.poll.remove(fd)
		}
	}
	for _, slot := range l.fetches.slots {
		l.dropFetch(slot.s)
	}
	for _, p := range l.fetches.queue {
		l.dropFetch(p.s)
	}
	l.fetches = fetchTable{}
	l.letGoBlobs()
	l.tx.Forget()
	for _, s := range l.sessions {
		if s.tx != nil {
			s.tx.Forget() // what arrived already is of the old places too
		}
	}
	if l.reader == nil {
		return nil
	}
	if fd := l.reader.Fd(); fd >= 0 {
		l.poll.remove(fd)
	}
	err := l.reader.Close() // it waits for the device
	l.reader = nil
	return err
}

func (l *loop) dropFetch(s *session) {
	if s == nil || s.fetches == 0 {
		return
	}
	s.fetches, s.fetchErr = 0, nil
	if s.closed {
		if s.tx != nil {
			l.txFree(s)
		}
		return
	}
	if s.phase == phaseFetch {
		l.wake(s)
	}
}
