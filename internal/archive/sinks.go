package archive

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"unicode/utf8"

	"cvmstore/kvs/rdb"
)

// RESP writes commands, as redis-cli --pipe takes them.
type RESP struct {
	W  *bufio.Writer
	db int
}

// Part implements Sink.
func (s *RESP) Part(p *rdb.Part) error {
	s.selectDB(p)
	s.command(fill(p)...)
	return s.end(p)
}

// String implements Sink.
func (s *RESP) String(p *rdb.Part, r io.Reader, size int64) error {
	s.selectDB(p)
	fmt.Fprintf(s.W, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(p.Key), p.Key, size)
	if err := copyAll(s.W, r, size); err != nil {
		return err
	}
	_, _ = s.W.WriteString("\r\n")
	return s.end(p)
}

// File implements Sink. What reads such a stream carries a command's argument whole, so a larger file has no place in it.
func (s *RESP) File(name []byte, meta [][]byte, r io.Reader, size int64) error {
	if size > aofArgMax {
		return fmt.Errorf("%w: %d bytes are more than a command carries; use --format files", ErrType, size)
	}
	args := 3
	if len(meta) > 0 {
		args += 1 + len(meta)
	}
	fmt.Fprintf(s.W, "*%d\r\n$4\r\nFPUT\r\n$%d\r\n%s\r\n$%d\r\n", args, len(name), name, size)
	if err := copyAll(s.W, r, size); err != nil {
		return err
	}
	_, _ = s.W.WriteString("\r\n")
	for _, a := range putFile(nil, nil, meta)[3:] {
		fmt.Fprintf(s.W, "$%d\r\n%s\r\n", len(a), a)
	}
	_, err := s.W.Write(nil)
	return err
}

// Command implements Sink.
func (s *RESP) Command(p *rdb.Part, args [][]byte) error {
	s.selectDB(p)
	s.command(args...)
	_, err := s.W.Write(nil)
	return err
}

func (s *RESP) selectDB(p *rdb.Part) {
	if p.DB != s.db {
		s.db = p.DB
		s.command([]byte("SELECT"), strconv.AppendInt(nil, int64(p.DB), 10))
	}
}

// command writes one. The buffer keeps its first error, and end finds it.
func (s *RESP) command(args ...[]byte) {
	fmt.Fprintf(s.W, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(s.W, "$%d\r\n", len(a))
		_, _ = s.W.Write(a)
		_, _ = s.W.WriteString("\r\n")
	}
}

func (s *RESP) end(p *rdb.Part) error {
	if p.Last && p.Expiry != 0 {
		s.command([]byte("PEXPIREAT"), p.Key, strconv.AppendInt(nil, p.Expiry, 10))
	}
	_, err := s.W.Write(nil)
	return err
}

// Close implements Sink.
func (s *RESP) Close() error { return s.W.Flush() }

func copyAll(w io.Writer, r io.Reader, size int64) error {
	n, err := io.Copy(w, r)
	if err == nil && n != size {
		err = fmt.Errorf("%d of %d bytes: %w", n, size, io.ErrUnexpectedEOF)
	}
	return err
}

// Lines writes JSON lines.
type Lines struct{ W *bufio.Writer }

// File implements Sink.
func (s *Lines) File(name []byte, meta [][]byte, r io.Reader, size int64) error {
	if size > aofArgMax {
		return fmt.Errorf("%w: %d bytes are more than a line carries; use --format files", ErrType, size)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return s.write(line{Type: fileType}, name, append([][]byte{b}, meta...), nil)
}

// Command implements Sink.
func (s *Lines) Command(p *rdb.Part, args [][]byte) error {
	return s.write(line{Type: commandType, DB: p.DB, More: !p.First}, p.Key, args, nil)
}

// Part implements Sink.
func (s *Lines) Part(p *rdb.Part) error {
	out := line{DB: p.DB, More: !p.First, Expiry: p.Expiry}
	for name, kind := range kindNames {
		if kind == p.Kind {
			out.Type = name
		}
	}
	return s.write(out, p.Key, p.Items, p.Scores)
}

// write writes one line.
func (s *Lines) write(out line, key []byte, values [][]byte, scores []float64) error {
	for _, b := range append([][]byte{key}, values...) {
		out.Base64 = out.Base64 || !utf8.Valid(b)
	}
	text := func(b []byte) string {
		if out.Base64 {
			return base64.StdEncoding.EncodeToString(b)
		}
		return string(b)
	}
	out.Key = text(key)
	items := make([]string, len(values))
	for i, b := range values {
		items[i] = text(b)
	}
	for _, f := range scores {
		number := strconv.FormatFloat(f, 'g', -1, 64)
		if math.IsInf(f, 0) {
			number = map[bool]string{true: "1e999", false: "-1e999"}[f > 0]
		}
		out.Scores = append(out.Scores, json.Number(number))
	}
	var value any = items
	switch out.Type {
	case "string":
		value = items[0]
	case fileType:
		value, out.Meta = items[0], items[1:]
	}
	var err error
	if out.Value, err = json.Marshal(value); err != nil {
		return err
	}
	b, err := json.Marshal(out)
	if err != nil {
		return err
	}
	_, err = s.W.Write(append(b, '\n'))
	return err
}

// String implements Sink. JSON needs the whole value at once, of at most 512 MiB.
func (s *Lines) String(p *rdb.Part, r io.Reader, _ int64) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	p.Items = [][]byte{b}
	return s.Part(p)
}

// Close implements Sink.
func (s *Lines) Close() error { return s.W.Flush() }

// Files writes each file, and each string of database 0, to a file below a directory, by its name. Keys that name no place below it are refused.
type Files struct {
	root *os.Root
}

// ErrName: a key is no name of a file below the directory.
var ErrName = errors.New("no name of a file below the directory")

// NewFiles makes the directory. A file that is there already must have the right content, as one of an earlier run has.
func NewFiles(dir string) (*Files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	return &Files{root: root}, err
}

// Part implements Sink.
func (s *Files) Part(p *rdb.Part) error {
	return fmt.Errorf("%w: a collection or a stream is no file; export it as a RESP stream or as JSON lines", ErrType)
}

// Command implements Sink.
func (s *Files) Command(p *rdb.Part, _ [][]byte) error { return s.Part(p) }

// String implements Sink. The file appears under its name when it is complete.
func (s *Files) String(p *rdb.Part, r io.Reader, size int64) error {
	if p.DB != 0 {
		return fmt.Errorf("database %d: %w", p.DB, ErrName)
	}
	return s.File(p.Key, nil, r, size)
}

// File implements Sink. Of a file's attributes nothing is written.
func (s *Files) File(key []byte, _ [][]byte, r io.Reader, size int64) error {
	name := filepath.FromSlash(string(key))
	if !filepath.IsLocal(name) || name == "." || name != filepath.Clean(name) {
		return ErrName
	}
	if info, err := s.root.Lstat(name); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%w: there is something else of that name", ErrName)
		}
		return s.same(name, r, size)
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := s.root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	draft := name + draftSuffix
	f, err := s.root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = copyAll(f, r, size)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return s.root.Rename(draft, name)
}

// same reads what an earlier run wrote beside what it should have.
func (s *Files) same(name string, r io.Reader, size int64) error {
	f, err := s.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	return copyAll(&comparer{f}, r, size)
}

// comparer fails where what is written to it is not what the file holds.
type comparer struct{ f io.Reader }

func (c *comparer) Write(p []byte) (int, error) {
	have := make([]byte, len(p))
	if _, err := io.ReadFull(c.f, have); err != nil || !bytes.Equal(have, p) {
		return 0, errors.New("there is a file of that name with other content")
	}
	return len(p), nil
}

const draftSuffix = ".part"

// Close implements Sink.
func (s *Files) Close() error { return s.root.Close() }
