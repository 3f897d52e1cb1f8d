package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"

	"cvmstore/kvs/rdb"
)

// Sink takes what an Exporter reads, a part at a time, in the order of databases. A string's bytes come from r, of which Sink takes
// exactly size; its part has no items.
type Sink interface {
	String(p *rdb.Part, r io.Reader, size int64) error
	Part(p *rdb.Part) error
	// Command takes one of the commands that make a key of a type without parts: p names the key, and says whether it is its first or last.
	Command(p *rdb.Part, args [][]byte) error
	// File takes a file; meta has keys and values in turn.
	File(name []byte, meta [][]byte, r io.Reader, size int64) error
	// Close is called when everything was written.
	Close() error
}

// Exporter reads all keys of a server that nobody else changes.
type Exporter struct {
	Databases    int
	Items, Bytes atomic.Int64 // written so far; they may be read from any goroutine

	in  *bufio.Reader
	out *bufio.Writer
}

const (
	scanCount  = 1000
	pageItems  = 512
	exportType = "type cannot be exported"
)

// ErrType: a value has a type that cannot be exported.
var ErrType = errors.New(exportType)

// Export writes everything that the server behind conn holds, and closes conn. Whatever does not verify ends the connection, and is an
// error here: what was written until then is right, and not all.
func (e *Exporter) Export(conn net.Conn, sink Sink) error {
	defer conn.Close() //nolint:errcheck // only read
	e.attach(conn)
	for db := range e.Databases {
		if _, err := e.ask("SELECT", strconv.Itoa(db)); err != nil {
			return err
		}
		for cursor := "0"; ; {
			reply, err := e.ask("SCAN", cursor, "COUNT", strconv.Itoa(scanCount))
			if err != nil {
				return err
			}
			if len(reply.list) != 2 {
				return errReply
			}
			for _, key := range reply.list[1].list {
				if err := e.key(db, key.text, sink); err != nil {
					return fmt.Errorf("key %.100q: %w", key.text, err)
				}
				e.Items.Add(1)
			}
			if cursor = string(reply.list[0].text); cursor == "0" {
				break
			}
		}
	}
	if err := e.files(sink); err != nil {
		return err
	}
	return sink.Close()
}

func newExporter(conn net.Conn) *Exporter {
	e := new(Exporter)
	e.attach(conn)
	return e
}

func (e *Exporter) attach(conn net.Conn) {
	e.in, e.out = bufio.NewReaderSize(conn, wireBuffer), bufio.NewWriter(conn)
}

// files exports what is not among the keys.
func (e *Exporter) files(sink Sink) error {
	for cursor := "0"; ; {
		r, after, err := e.page(e.ask("FSCAN", cursor, "COUNT", strconv.Itoa(scanCount)))
		if err != nil {
			return err
		}
		for _, name := range r.list {
			if err := e.file(name.text, sink); err != nil {
				return fmt.Errorf("file %.100q: %w", name.text, err)
			}
			e.Items.Add(1)
		}
		if cursor = after; cursor == "0" {
			return nil
		}
	}
}

func (e *Exporter) file(name []byte, sink Sink) error {
	stat, err := e.ask("FSTAT", string(name))
	if err != nil {
		return err
	}
	var meta [][]byte
	for i := 0; i+1 < len(stat.list); i += 2 {
		if string(stat.list[i].text) == "meta" {
			for _, m := range stat.list[i+1].list {
				meta = append(meta, m.text)
			}
		}
	}
	_, err = e.body(func(r io.Reader, size int64) error { return sink.File(name, meta, r, size) }, "FGET", string(name))
	return err
}

var errReply = errors.New("the server gave a reply of another shape")

// reply is one that is small.
type reply struct {
	text   []byte
	number int64
	list   []reply
	null   bool
}

// send writes a command.
func (e *Exporter) send(args ...string) error {
	fmt.Fprintf(e.out, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(e.out, "$%d\r\n%s\r\n", len(a), a)
	}
	return e.out.Flush()
}

func (e *Exporter) ask(args ...string) (reply, error) {
	if err := e.send(args...); err != nil {
		return reply{}, err
	}
	return e.receive(replyDepth)
}

// receive reads a reply that fits memory: a page of items.
func (e *Exporter) receive(depth int) (r reply, err error) {
	text, err := readLine(e.in)
	if err != nil {
		return r, err
	}
	switch text[0] {
	case '+':
		return reply{text: []byte(text[1:])}, nil
	case '-':
		return r, fmt.Errorf("%w: %s", ErrRefused, text[1:])
	}
	n, err := strconv.ParseInt(text[1:], 10, 64)
	if err != nil || depth == 0 {
		return r, errReply
	}
	switch text[0] {
	case ':':
		return reply{number: n}, nil
	case '$':
		if n < 0 {
			return reply{null: true}, nil
		}
		if n > aofArgMax {
			return r, errReply
		}
		b := make([]byte, n+2)
		_, err := io.ReadFull(e.in, b)
		return reply{text: b[:n]}, err
	case '*':
		for range n {
			item, err := e.receive(depth - 1)
			if err != nil {
				return r, err
			}
			r.list = append(r.list, item)
		}
		return r, nil
	}
	return r, errReply
}

// key exports one key.
func (e *Exporter) key(db int, name []byte, sink Sink) error {
	key := string(name)
	kind, err := e.ask("TYPE", key)
	if err != nil {
		return err
	}
	expiry, err := e.ask("PEXPIRETIME", key)
	if err != nil {
		return err
	}
	p := &rdb.Part{DB: db, Key: name, Expiry: max(expiry.number, 0), First: true}
	switch string(kind.text) {
	case "string":
		return e.string(p, sink)
	case "list":
		p.Kind = rdb.KindList
		return e.pages(p, sink, func(from int64, _ string) (reply, string, error) {
			r, err := e.ask("LRANGE", key, strconv.FormatInt(from, 10), strconv.FormatInt(from+pageItems-1, 10))
			return r, next(len(r.list)), err
		})
	case "zset":
		p.Kind = rdb.KindZSet
		return e.pages(p, sink, func(from int64, _ string) (reply, string, error) {
			r, err := e.ask("ZRANGE", key, strconv.FormatInt(from, 10), strconv.FormatInt(from+pageItems-1, 10), "WITHSCORES")
			return r, next(len(r.list) / 2), err
		})
	case "set":
		p.Kind = rdb.KindSet
		return e.pages(p, sink, func(_ int64, cursor string) (reply, string, error) { return e.scan("SSCAN", key, cursor) })
	case "hash":
		p.Kind = rdb.KindHash
		return e.pages(p, sink, func(_ int64, cursor string) (reply, string, error) { return e.scan("HSCAN", key, cursor) })
	case "stream":
		return e.stream(p, sink)
	case "none": // it has expired since
		return nil
	}
	return fmt.Errorf("%q: %w", kind.text, ErrType)
}

// next is the cursor after a page: "0" if it was not a full one.
func next(items int) string {
	if items < pageItems {
		return "0"
	}
	return "more"
}

func (e *Exporter) scan(verb, key, cursor string) (reply, string, error) {
	return e.page(e.ask(verb, key, cursor, "COUNT", strconv.Itoa(pageItems)))
}

// page takes a reply of a scan apart.
func (e *Exporter) page(r reply, err error) (reply, string, error) {
	if err != nil {
		return r, "", err
	}
	if len(r.list) != 2 {
		return r, "", errReply
	}
	return r.list[1], string(r.list[0].text), nil
}

// pages hands a collection on, a page at a time; read returns a page and the cursor of the next, "0" after the last.
func (e *Exporter) pages(p *rdb.Part, sink Sink, read func(from int64, cursor string) (reply, string, error)) error {
	cursor := "0"
	for from := int64(0); ; {
		r, after, err := read(from, cursor)
		if err != nil {
			return err
		}
		p.Items, p.Scores = nil, nil
		for i, item := range r.list {
			if p.Kind == rdb.KindZSet && i%2 == 1 {
				score, err := strconv.ParseFloat(string(item.text), 64)
				if err != nil {
					return errReply
				}
				p.Scores = append(p.Scores, score)
				continue
			}
			p.Items = append(p.Items, item.text)
			e.Bytes.Add(int64(len(item.text)))
		}
		cursor = after
		p.Last = cursor == "0"
		if len(p.Items) > 0 {
			if err := sink.Part(p); err != nil {
				return err
			}
			p.First = false
		}
		if p.Last {
			return nil
		}
		from += int64(len(p.Items))
	}
}

// string hands a string on as it comes.
func (e *Exporter) string(p *rdb.Part, sink Sink) error {
	p.Last = true
	_, err := e.body(func(r io.Reader, size int64) error { return sink.String(p, r, size) }, "GET", string(p.Key))
	return err
}

// body sends a command whose reply is one string, and hands that on as it comes. It is gone if it has expired since.
func (e *Exporter) body(take func(r io.Reader, size int64) error, args ...string) (there bool, err error) {
	if err := e.send(args...); err != nil {
		return false, err
	}
	text, err := readLine(e.in)
	if err != nil {
		return false, err
	}
	if text[0] == '-' {
		return false, fmt.Errorf("%w: %s", ErrRefused, text[1:])
	}
	n, err := strconv.ParseInt(text[1:], 10, 64)
	if err != nil || text[0] != '$' {
		return false, errReply
	}
	if n < 0 {
		return false, nil
	}
	body := &io.LimitedReader{R: e.in, N: n}
	if err := take(counted{body, &e.Bytes}, n); err != nil {
		return false, err
	}
	if body.N > 0 {
		return false, fmt.Errorf("%d of %d bytes: %w", n-body.N, n, io.ErrUnexpectedEOF)
	}
	_, err = io.CopyN(io.Discard, e.in, 2)
	return true, err
}
