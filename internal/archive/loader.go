package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// ErrRefused: the server answered a command with an error.
var ErrRefused = errors.New("the server refused a command")

const (
	inFlightMax = 1024 // commands without a reply
	wireBuffer  = 256 << 10
	replyDepth  = 8        // arrays within arrays in a reply
	replyMax    = 64 << 10 // bytes of a line
)

// Loader sends commands to a server without waiting for each reply, and finds the first that failed. One goroutine uses it.
type Loader struct {
	// Checkpoint, if set, is told how many items of the source are in the store for good. Its error ends the load.
	Checkpoint func(items int64) error
	// Items, Bytes count what was sent, for progress. They may be read from any goroutine.
	Items, Bytes atomic.Int64
	// Skip is how many items of the source an earlier run has loaded: they are not sent again. The first after them may be there in
	// part, so that keys are deleted before they are filled.
	Skip int64

	conn    net.Conn
	w       *bufio.Writer
	sent    chan pending // outstanding commands
	done    chan struct{}
	err     error // of the reader; valid once done is closed
	stop    sync.Once
	db      int
	saved   time.Time
	savedAt int64
}

// pending is a command without a reply: what it is about, and who waits for its reply.
type pending struct {
	about string
	ack   chan<- struct{}
	text  *string // takes a reply that is a string
}

// Checkpoints are this far apart, in time or in bytes, whichever comes first.
const (
	checkpointEvery = 10 * time.Second
	checkpointBytes = 1 << 30
)

// NewLoader takes a connection over.
func NewLoader(conn net.Conn) *Loader {
	l := &Loader{
		conn: conn, w: bufio.NewWriterSize(conn, wireBuffer), sent: make(chan pending, inFlightMax), done: make(chan struct{}), saved: time.Now(),
	}
	go l.read()
	return l
}

// read takes the replies until the connection ends, or one is an error.
func (l *Loader) read() {
	in := bufio.NewReaderSize(l.conn, wireBuffer)
	for p := range l.sent {
		err := error(nil)
		if p.text != nil {
			*p.text, err = readString(in)
		} else {
			err = skipReply(in, replyDepth)
		}
		if err != nil {
			l.err = fmt.Errorf("%s: %w", p.about, err)
			break
		}
		if p.ack != nil {
			close(p.ack)
		}
	}
	close(l.done)
	if l.err != nil {
		_ = l.conn.Close() // a write that waits for room ends
	}
}

// skipReply reads a reply of any shape. An error anywhere in it is an error.
func skipReply(in *bufio.Reader, depth int) error {
	line, err := readLine(in)
	if err != nil {
		return err
	}
	switch line[0] {
	case '+', ':', '_', ',', '#', '(':
		return nil
	case '-', '!':
		return fmt.Errorf("%w: %s", ErrRefused, line[1:])
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || depth == 0 {
		return fmt.Errorf("a reply that is none: %.40q", line)
	}
	switch line[0] {
	case '$', '=':
		if n >= 0 {
			_, err = io.CopyN(io.Discard, in, int64(n)+2)
		}
		return err
	case '%':
		n *= 2
	}
	for range n {
		if err := skipReply(in, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// readString reads a reply that is a short string.
func readString(in *bufio.Reader) (string, error) {
	line, err := readLine(in)
	if err != nil {
		return "", err
	}
	if line[0] == '-' {
		return "", fmt.Errorf("%w: %s", ErrRefused, line[1:])
	}
	n, err := strconv.Atoi(line[1:])
	if line[0] != '$' || err != nil || n < 0 || n > replyMax {
		return "", fmt.Errorf("a reply that is no string: %.40q", line)
	}
	b := make([]byte, n+2)
	_, err = io.ReadFull(in, b)
	return string(b[:n]), err
}

// readLine reads a line that is not empty, without its end.
func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 3 || len(line) > replyMax || line[len(line)-2] != '\r' {
		return "", fmt.Errorf("a line that is none: %.40q", line)
	}
	return string(line[:len(line)-2]), nil
}

// begin counts a command and writes its head: the number of its arguments.
func (l *Loader) begin(p pending, args int) error {
	select {
	case l.sent <- p:
	default: // too many outstanding: their commands may stand in the buffer still
		if err := l.w.Flush(); err != nil {
			return l.broken(err)
		}
		select {
		case l.sent <- p:
		case <-l.done:
			return l.broken(nil)
		}
	}
	l.head('*', int64(args))
	return nil
}

// head writes a length. Errors of the buffer are sticky, and found at the end of each command.
func (l *Loader) head(form byte, n int64) {
	var b [24]byte
	_, _ = l.w.Write(append(strconv.AppendInt(append(b[:0], form), n, 10), '\r', '\n'))
}

func (l *Loader) arg(b []byte) {
	l.head('$', int64(len(b)))
	_, _ = l.w.Write(b)
	_, _ = l.w.WriteString("\r\n")
	l.Bytes.Add(int64(len(b)))
}

// Do sends a command; about says of what, for errors.
func (l *Loader) Do(about string, args ...[]byte) error {
	if err := l.begin(pending{about: about}, len(args)); err != nil {
		return err
	}
	for _, a := range args {
		l.arg(a)
	}
	return l.check()
}

// DoFrom sends a command whose last argument is size bytes of r.
func (l *Loader) DoFrom(about string, r io.Reader, size int64, args ...[]byte) error {
	if err := l.begin(pending{about: about}, len(args)+1); err != nil {
		return err
	}
	for _, a := range args {
		l.arg(a)
	}
	l.head('$', size)
	n, err := io.CopyN(l.w, counted{r, &l.Bytes}, size)
	if err != nil && n < size {
		return l.broken(fmt.Errorf("%s: after %d of %d bytes: %w", about, n, size, err))
	}
	_, _ = l.w.WriteString("\r\n")
	return l.check()
}

type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (l *Loader) check() error {
	select {
	case <-l.done:
		return l.broken(nil)
	default:
	}
	if _, err := l.w.Write(nil); err != nil {
		return l.broken(err)
	}
	return nil
}

// broken ends the load. What a reply said explains more than a write that failed after it.
func (l *Loader) broken(err error) error {
	l.stop.Do(func() {
		_ = l.conn.Close()
		close(l.sent)
	})
	<-l.done
	if l.err != nil && (err == nil || errors.Is(l.err, ErrRefused)) {
		return l.err
	}
	if err == nil {
		err = net.ErrClosed
	}
	return err
}

// Select chooses the database for what follows.
func (l *Loader) Select(db int) error {
	if db == l.db {
		return nil
	}
	l.db = db
	return l.Do("SELECT", []byte("SELECT"), strconv.AppendInt(nil, int64(db), 10))
}

// Item says that an item of the source has been sent as a whole. Now and then it waits until all of them are in the store for good,
// and tells Checkpoint.
func (l *Loader) Item() error {
	n := l.Items.Add(1)
	if l.Checkpoint == nil || time.Since(l.saved) < checkpointEvery && l.Bytes.Load()-l.savedAt < checkpointBytes {
		return nil
	}
	if err := l.sync(); err != nil {
		return err
	}
	l.saved, l.savedAt = time.Now(), l.Bytes.Load()
	return l.Checkpoint(n)
}

// Skipped reports whether an earlier run has loaded the next item, and counts it then.
func (l *Loader) Skipped() bool {
	if l.Items.Load() >= l.Skip {
		return false
	}
	l.Items.Add(1)
	return true
}

// Resumed reports whether an earlier run may have left something behind.
func (l *Loader) Resumed() bool { return l.Skip > 0 }

// sync waits for all replies, and until everything is durable and committed.
func (l *Loader) sync() error {
	return l.wait(pending{about: "CVM.EPOCH SYNC"}, []byte("CVM.EPOCH"), []byte("SYNC"))
}

// Ask sends a command and waits for its reply, a string.
func (l *Loader) Ask(about string, args ...[]byte) (text string, err error) {
	err = l.wait(pending{about: about, text: &text}, args...)
	return text, err
}

// wait sends a command and waits until its reply has come.
func (l *Loader) wait(p pending, args ...[]byte) error {
	ack := make(chan struct{})
	p.ack = ack
	if err := l.begin(p, len(args)); err != nil {
		return err
	}
	for _, a := range args {
		l.arg(a)
	}
	if err := l.w.Flush(); err != nil {
		return l.broken(err)
	}
	select {
	case <-ack:
		return nil
	case <-l.done:
		return l.broken(nil)
	}
}

// Close waits until everything that was sent is in the store for good, and ends the connection.
func (l *Loader) Close() error {
	err := l.sync()
	l.Abort()
	return err
}

// Abort ends the connection.
func (l *Loader) Abort() {
	l.stop.Do(func() {
		_ = l.conn.Close()
		close(l.sent)
	})
	<-l.done
}
