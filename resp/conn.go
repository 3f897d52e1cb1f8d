package resp

import "errors"

// conn is a client's connection as a loop uses it. A plain socket reads and writes the descriptor; TLS stands between, without
// a goroutine. No call blocks: errAgain means that the poller will tell. read returns 0 bytes when the client has ended its
// side. The buffers are the caller's.
type conn interface {
	read(p []byte) (int, error)
	write(p []byte) (int, error)
	// held reports that read has something to return of which no poller will tell.
	held() bool
	// unsent is the number of bytes that write has taken and the socket has not; push tries to send them.
	unsent() int
	push() error
	fd() int
	close()
}

var errAgain = errors.New("would block")
