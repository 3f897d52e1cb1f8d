//go:build !linux

package volume

// wakeup does nothing where there is no eventfd: whoever waits polls.
type wakeup struct{}

func newWakeup() (*wakeup, error) { return &wakeup{}, nil }
func (w *wakeup) fd() int         { return -1 }
func (w *wakeup) signal()         {}
func (w *wakeup) drain()          {}
func (w *wakeup) close()          {}
