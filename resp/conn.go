package resp

import "errors"

// conn is a client's connection as a loop uses it. A plain socket reads and writes the descriptor; TLS stands between, without
// a goroutine. Neither call blocks: errAgain means that the poller will tell. read returns 0 bytes when the client has ended
// its side. The buffers are the caller's.
type conn interface {
	read(p []byte) (int, error)
	write(p []byte) (int, error)
	fd() int
	close()
}

var errAgain = errors.New("would block")
