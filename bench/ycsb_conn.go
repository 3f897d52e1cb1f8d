package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// ycsbConn sends one command and waits for its answer, as YCSB's client does.
type ycsbConn struct {
	conn net.Conn
	r    *bufio.Reader
	out  []byte
	val  []byte
}

func dialYCSB(port int) (*ycsbConn, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &ycsbConn{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), val: make([]byte, ycsbFieldBytes)}, nil
}

func (c *ycsbConn) begin(args int) {
	c.out = append(strconv.AppendInt(append(c.out[:0], '*'), int64(args), 10), "\r\n"...)
}

func (c *ycsbConn) arg(s string) {
	c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(s)), 10), "\r\n"...)
	c.out = append(append(c.out, s...), "\r\n"...)
}

func (c *ycsbConn) send() error {
	_, err := c.conn.Write(c.out)
	return err
}

// line reads a line of an answer: its kind and what follows. An error reply is an error.
func (c *ycsbConn) line() (kind byte, text []byte, err error) {
	b, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	b = bytes.TrimSuffix(b, []byte("\r\n"))
	if len(b) == 0 {
		return 0, nil, errors.New("empty line in an answer")
	}
	if b[0] == '-' {
		return 0, nil, errors.New(string(b))
	}
	return b[0], b[1:], nil
}

// count reads the head of an array or a string.
func (c *ycsbConn) count(kind byte) (int, error) {
	k, text, err := c.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(text))
	if k != kind || err != nil {
		return 0, fmt.Errorf("answer %c%s, want %c", k, text, kind)
	}
	return n, nil
}

func (c *ycsbConn) bulk() ([]byte, error) {
	n, err := c.count('$')
	if err != nil || n < 0 || n > 1<<20 {
		return nil, errors.Join(err, fmt.Errorf("a string of %d bytes", n))
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return nil, err
	}
	return b[:n], nil
}

// setFields writes n fields from one on.
func (c *ycsbConn) setFields(key string, from, n int, rng *rand.Rand) error {
	c.begin(2 + 2*n)
	c.arg("HMSET")
	c.arg(key)
	for f := from; f < from+n; f++ {
		name := "field" + strconv.Itoa(f)
		c.arg(name)
		c.arg(string(c.value(key, name, rng.Uint64())))
	}
	if err := c.send(); err != nil {
		return err
	}
	k, text, err := c.line()
	if err == nil && (k != '+' || string(text) != "OK") {
		err = fmt.Errorf("HMSET answered %c%s", k, text)
	}
	return err
}

// value is a value for a field of a key: a random number, and bytes that follow from it, the key and the field.
func (c *ycsbConn) value(key, field string, seed uint64) []byte {
	h := seed
	for _, s := range [...]string{key, field} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	binary.LittleEndian.PutUint64(c.val, seed)
	for i := 8; i < len(c.val); i += 8 {
		h = (h ^ h>>33) * 0xff51afd7ed558ccd
		for j := i; j < min(i+8, len(c.val)); j++ {
			c.val[j] = byte(h >> (8 * (j - i)))
		}
	}
	return c.val
}

func (c *ycsbConn) index(key string) error {
	c.begin(4)
	c.arg("ZADD")
	c.arg(ycsbIndex)
	c.arg(javaDouble(javaHash(key)))
	c.arg(key)
	if err := c.send(); err != nil {
		return err
	}
	n, err := c.count(':')
	if err == nil && n != 1 {
		err = fmt.Errorf("ZADD of a new key answered %d", n)
	}
	return err
}

// readRecord reads all fields of a record and checks them; it returns how many.
func (c *ycsbConn) readRecord(key string) (int, error) {
	c.begin(2)
	c.arg("HGETALL")
	c.arg(key)
	if err := c.send(); err != nil {
		return 0, err
	}
	n, err := c.count('*')
	if err != nil {
		return 0, err
	}
	if n != 2*ycsbFields {
		return 0, fmt.Errorf("%s has %d fields and values", key, n)
	}
	seen := 0
	for range ycsbFields {
		field, err := c.bulk()
		if err != nil {
			return 0, err
		}
		val, err := c.bulk()
		if err != nil {
			return 0, err
		}
		if len(val) != ycsbFieldBytes || !bytes.Equal(val, c.value(key, string(field), binary.LittleEndian.Uint64(val))) {
			return 0, fmt.Errorf("%s, %s: not the value of this field", key, field)
		}
		i, err := strconv.Atoi(string(bytes.TrimPrefix(field, []byte("field"))))
		if err != nil || i < 0 || i >= ycsbFields || seen>>i&1 != 0 {
			return 0, fmt.Errorf("%s has a field %q, or has it twice", key, field)
		}
		seen |= 1 << i
	}
	return ycsbFields, nil
}

// scanIndex returns up to n keys from one on, in the order of their scores.
func (c *ycsbConn) scanIndex(from string, n int) ([]string, error) {
	c.begin(7)
	for _, a := range [...]string{"ZRANGEBYSCORE", ycsbIndex, javaDouble(javaHash(from)), "+inf", "LIMIT", "0", strconv.Itoa(n)} {
		c.arg(a)
	}
	if err := c.send(); err != nil {
		return nil, err
	}
	got, err := c.count('*')
	if err != nil {
		return nil, err
	}
	if got < 1 || got > n {
		return nil, fmt.Errorf("a scan for %d keys from %s, which is one, found %d", n, from, got)
	}
	keys := make([]string, got)
	for i := range keys {
		key, err := c.bulk()
		if err != nil {
			return nil, err
		}
		keys[i] = string(key)
	}
	return keys, nil
}
