package resp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a plain connection. Its calls never block, so they need not tell the Go runtime.
type socket struct{ desc int }

func (c *socket) fd() int     { return c.desc }
func (c *socket) close()      { _ = unix.Close(c.desc) }
func (c *socket) held() bool  { return false }
func (c *socket) unsent() int { return 0 }
func (c *socket) push() error { return nil }

func (c *socket) read(p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(c.desc), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return ioResult(n, errno)
}

func (c *socket) write(p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(c.desc), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	return ioResult(n, errno)
}

func ioResult(n uintptr, errno unix.Errno) (int, error) {
	switch errno {
	case 0:
		return int(n), nil
	case unix.EAGAIN, unix.EINTR:
		return 0, errAgain
	}
	return 0, errno
}

// listenTCP opens a listening socket. An address of host "*" means every IPv4 address, "::*" every IPv6 address.
func listenTCP(host string, port, backlog int) (fd int, addr net.Addr, err error) {
	switch host {
	case "*":
		host = "0.0.0.0"
	case "::*":
		host = "::"
	}
	tcp, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return -1, nil, err
	}
	sa, family := sockaddrOf(tcp.AddrPort())
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("listen on %s: %w", tcp, err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if family == unix.AF_INET6 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err = unix.Bind(fd, sa); err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err == nil {
		sa, err = unix.Getsockname(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, nil, fmt.Errorf("listen on %s: %w", tcp, err)
	}
	return fd, net.TCPAddrFromAddrPort(addrPortOf(sa)), nil
}

// listenUnix opens a Unix socket. What a server that was killed left at the path is replaced, unless somebody listens there.
func listenUnix(path string, perm uint32, backlog int) (fd int, err error) {
	sa := &unix.SockaddrUnix{Name: path}
	if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeSocket != 0 {
		if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Connect(fd, sa)
			_ = unix.Close(fd)
			if err == unix.ECONNREFUSED {
				removeSocket(path)
			}
		}
	}
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err = unix.Bind(fd, sa); err == nil && perm != 0 {
		err = os.Chmod(path, os.FileMode(perm))
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("listen on %s: %w", path, err)
	}
	return fd, nil
}

func removeSocket(path string) { _ = os.Remove(path) }

// acceptConn takes one connection; errAgain: there is none.
func acceptConn(ln *listener, keepalive int) (a accepted, err error) {
	fd, sa, err := unix.Accept4(ln.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch err {
	case nil:
	case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED:
		return a, errAgain
	default:
		return a, err
	}
	a.conn = &socket{fd}
	if ln.kind == kindUnix {
		a.near, a.remote = true, ln.addr.String()+":0"
		a.local = a.remote
		return a, nil
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if keepalive > 0 {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepalive)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, max(keepalive/3, 1))
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3)
	}
	own, _ := unix.Getsockname(fd)
	remote := addrPortOf(sa)
	a.remote, a.local, a.near = remote.String(), addrPortOf(own).String(), remote.Addr().IsLoopback()
	return a, nil
}

// blockingConn returns the descriptor's connection for a goroutine to wait on, through a duplicate.
func blockingConn(fd int) (net.Conn, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), "client")
	defer func() { _ = f.Close() }()
	return net.FileConn(f)
}

func closeFD(fd int) { _ = unix.Close(fd) }

func sockaddrOf(a netip.AddrPort) (unix.Sockaddr, int) {
	if ip := a.Addr().Unmap(); ip.Is4() || !ip.IsValid() {
		sa := &unix.SockaddrInet4{Port: int(a.Port())}
		if ip.IsValid() {
			sa.Addr = ip.As4()
		}
		return sa, unix.AF_INET
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, unix.AF_INET6
}

func addrPortOf(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
