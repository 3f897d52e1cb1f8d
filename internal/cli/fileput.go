package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	putWhole = 8 << 20  // up to here a file is one command
	putPart  = 64 << 20 // of a larger one
	putPipe  = 16 << 20 // of a stream, whose pieces have to be in memory before their length is known
)

type filePut struct {
	Local    string `arg:"" help:"A file, a directory, or - for standard input."`
	Name     string `arg:"" optional:"" help:"The name to store it under; default: the last part of the local one."`
	Parallel int    `short:"j" default:"4" help:"Connections for the parts of a large file."`
	Chunk    string `help:"Bytes in which the server seals and reads it, such as 131072 for random access; default: by the size."`
	Fresh    bool   `help:"Do not go on with an upload that was broken off."`
	Quiet    bool   `short:"q" help:"No progress."`
}

// putJob is one local file.
type putJob struct {
	local, name string
	size        int64
	mtime       time.Time
}

// Run stores files.
func (c *filePut) Run(out *streams, f *fileCommand) error {
	s, end, err := f.session(out)
	if err != nil {
		return err
	}
	defer end()
	began := time.Now()
	if c.Local == "-" {
		if c.Name == "" {
			return usageErrorf("put - needs a name")
		}
		n, err := c.pipe(s, os.Stdin)
		if err != nil {
			return err
		}
		return s.summary("stored", 1, n, time.Since(began), c.Name)
	}
	jobs, err := c.jobs()
	if err != nil {
		return err
	}
	total := int64(0)
	for i := range jobs {
		if err := c.one(s, &jobs[i]); err != nil {
			return fmt.Errorf("%s: %w", jobs[i].local, err)
		}
		total += jobs[i].size
	}
	last := ""
	if len(jobs) == 1 {
		last = jobs[0].name
	}
	return s.summary("stored", len(jobs), total, time.Since(began), last)
}

// summary says what was moved, and what stands for it.
func (s *fileSession) summary(what string, n int, bytes int64, took time.Duration, name string) error {
	fmt.Fprintf(s.out.err, "%d files %s, %s in %.1f s, %s/s\n", n, what, bytesText(bytes), took.Seconds(), bytesText(int64(float64(bytes)/max(took.Seconds(), 0.001))))
	if name == "" {
		return nil
	}
	root, size, found, err := s.rootOf(name)
	if err != nil || !found {
		return err
	}
	fmt.Fprintf(s.out.err, "%s: %d bytes, root %s\n", shown(name), size, root)
	return nil
}

// jobs lists the files to store: one, or those of a directory.
func (c *filePut) jobs() (jobs []putJob, err error) {
	name := c.Name
	if name == "" {
		name = filepath.Base(filepath.Clean(c.Local))
	}
	err = filepath.WalkDir(c.Local, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !i.Mode().IsRegular() {
			return nil
		}
		as := name
		if rel, err := filepath.Rel(c.Local, path); err == nil && rel != "." {
			as = strings.TrimSuffix(name, "/") + "/" + filepath.ToSlash(rel)
		}
		jobs = append(jobs, putJob{path, as, i.Size(), i.ModTime()})
		return nil
	})
	return jobs, err
}

func (j *putJob) meta() []string {
	return []string{"META", "mtime", j.mtime.UTC().Format(time.RFC3339)}
}

func (c *filePut) one(s *fileSession, j *putJob) error {
	f, err := os.Open(j.local)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	bar := newProgress(s.out.err, shown(j.name), j.size, c.Quiet)
	defer bar.done()
	if j.size <= putWhole && c.Chunk == "" {
		_, err := s.conn.doBody([]string{"FPUT", j.name}, f, j.size, j.meta(), bar.add)
		return err
	}
	note := s.note(j)
	id, have, err := c.resume(s, j, note)
	if err == nil && id == "" {
		id, err = c.begin(s, j.name, j.size)
		if err == nil {
			err = os.WriteFile(note, mustJSON(putNote{id, j.size, j.mtime.UnixNano()}), 0o600)
		}
	}
	if err != nil {
		return err
	}
	if err := c.parts(s, f, j, id, have, bar); err != nil {
		return fmt.Errorf("%w (the same command goes on with it later)", err)
	}
	if i, err := f.Stat(); err != nil || i.Size() != j.size || !i.ModTime().Equal(j.mtime) {
		_, _ = s.conn.do("FABORT", id)
		_ = os.Remove(note)
		return errors.Join(err, errors.New("it changed while it was read: nothing was stored"))
	}
	if _, err := s.conn.do(append([]string{"FCOMMIT", id}, j.meta()...)...); err != nil {
		return err
	}
	return os.Remove(note)
}

func (c *filePut) begin(s *fileSession, name string, size int64) (string, error) {
	args := []string{"FBEGIN", name}
	if size >= 0 {
		args = append(args, "SIZE", strconv.FormatInt(size, 10))
	}
	if c.Chunk != "" {
		args = append(args, "CHUNK", c.Chunk)
	}
	x, err := s.conn.do(args...)
	return str(x), err
}

// putNote is what is written down of an upload, so that a later run can go on with it.
type putNote struct {
	ID    string
	Size  int64
	MTime int64
}

func mustJSON(x any) []byte {
	b, err := json.Marshal(x)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return b
}

// note is where an upload is written down.
func (s *fileSession) note(j *putJob) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	dir = filepath.Join(dir, "cvmstore")
	_ = os.MkdirAll(dir, 0o700)
	local, err := filepath.Abs(j.local)
	if err != nil {
		local = j.local
	}
	sum := sha256.Sum256([]byte(s.server.Addr + "\x00" + local + "\x00" + j.name))
	return filepath.Join(dir, "upload-"+hex.EncodeToString(sum[:12]))
}

// span is a part of a file.
type span struct{ from, to int64 }

// resume finds the upload that was begun of the very same file before, and what has come of it.
func (c *filePut) resume(s *fileSession, j *putJob, note string) (id string, have []span, err error) {
	b, err := os.ReadFile(note)
	if err != nil || c.Fresh {
		return "", nil, nil
	}
	var n putNote
	if json.Unmarshal(b, &n) != nil || n.Size != j.size || n.MTime != j.mtime.UnixNano() {
		return "", nil, nil
	}
	x, err := s.conn.do("FUPLOADS", n.ID)
	var refused replyError
	if errors.As(err, &refused) {
		return "", nil, nil // it has expired
	}
	if err != nil {
		return "", nil, err
	}
	i := fields(x)
	if str(i["name"]) != j.name || num(i["size"]) != j.size {
		return "", nil, nil
	}
	list, _ := i["ranges"].([]any)
	for _, r := range list {
		if pair, _ := r.([]any); len(pair) == 2 {
			have = append(have, span{num(pair[0]), num(pair[1])})
		}
	}
	return n.ID, have, nil
}

// missing cuts what has not come into parts.
func missing(size int64, have []span) (list []span) {
	at := int64(0)
	for _, h := range append(have, span{size, size}) {
		for at < h.from {
			to := min(at+putPart, h.from)
			list = append(list, span{at, to})
			at = to
		}
		at = max(at, h.to)
	}
	return list
}

// parts sends the parts that are missing over several connections.
func (c *filePut) parts(s *fileSession, f io.ReaderAt, j *putJob, id string, have []span, bar *fileBar) error {
	todo := missing(j.size, have)
	left := j.size
	work := make(chan span, len(todo))
	for _, p := range todo {
		work <- p
		left -= p.to - p.from
	}
	close(work)
	bar.skip(left)
	return s.parallel(min(max(c.Parallel, 1), len(todo)), func(conn *respConn) error {
		for p := range work {
			_, err := conn.doBody([]string{"FWRITE", id, strconv.FormatInt(p.from, 10)}, io.NewSectionReader(f, p.from, p.to-p.from), p.to-p.from, nil, bar.add)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// parallel runs f on n connections of its own, and ends all when one fails.
func (s *fileSession) parallel(n int, f func(conn *respConn) error) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []*respConn
	var first error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && first == nil {
			first = err
			for _, c := range conns {
				_ = c.Close()
			}
		}
	}
	for range n {
		all.Add(1)
		go func() {
			defer all.Done()
			conn, err := s.server.dial(s.ctx)
			if err != nil {
				fail(err)
				return
			}
			defer func() { _ = conn.Close() }()
			mu.Lock()
			conns = append(conns, conn)
			failed := first != nil
			mu.Unlock()
			if !failed {
				fail(f(conn))
			}
		}()
	}
	all.Wait()
	if err := s.ctx.Err(); err != nil {
		return err
	}
	return first
}

// pipe stores a stream of unknown length.
func (c *filePut) pipe(s *fileSession, src io.Reader) (total int64, err error) {
	id, err := c.begin(s, c.Name, -1)
	if err != nil {
		return 0, err
	}
	bar := newProgress(s.out.err, shown(c.Name), -1, c.Quiet)
	defer bar.done()
	buf := make([]byte, putPipe)
	for {
		n, rerr := io.ReadFull(src, buf)
		if n > 0 {
			_, err = s.conn.doBody([]string{"FWRITE", id, strconv.FormatInt(total, 10)}, strings.NewReader(string(buf[:n])), int64(n), nil, bar.add)
			total += int64(n)
		}
		switch {
		case err != nil:
			return total, err
		case rerr == io.EOF || rerr == io.ErrUnexpectedEOF:
			_, err = s.conn.do("FCOMMIT", id)
			return total, err
		case rerr != nil:
			_, _ = s.conn.do("FABORT", id)
			return total, rerr
		}
	}
}
