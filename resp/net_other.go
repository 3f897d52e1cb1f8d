//go:build !linux

package resp

import (
	"errors"
	"net"
	"time"
)

// The event loop needs epoll: on other systems the package builds, and New says so.

var errUnsupported = errors.New("the server runs on Linux only")

type poller struct{ wake int }

type event struct{}

const pollIn, pollOut, pollEnded, pollExclusive = 1, 4, 1 << 13, 1 << 28

func (e *event) fd() int        { return -1 }
func (e *event) readable() bool { return false }
func (e *event) writable() bool { return false }
func (e *event) gone() bool     { return false }
func (e *event) ended() bool    { return false }

func newPoller() (*poller, error)                       { return nil, errUnsupported }
func (p *poller) add(int, uint32) error                 { return errUnsupported }
func (p *poller) modify(int, uint32) error              { return errUnsupported }
func (p *poller) remove(int)                            {}
func (p *poller) wait(time.Duration) []event            { return nil }
func (p *poller) aside(time.Duration) []event           { return nil }
func (p *poller) signal()                               {}
func (p *poller) drain()                                {}
func (p *poller) close()                                {}
func closeFD(int)                                       {}
func listenTCP(string, int, int) (int, net.Addr, error) { return -1, nil, errUnsupported }

func listenUnix(string, uint32, int) (int, error) { return -1, errUnsupported }
func removeSocket(string)                         {}
func acceptConn(*listener, int) (accepted, error) { return accepted{}, errUnsupported }
func blockingConn(int) (net.Conn, error)          { return nil, errUnsupported }
