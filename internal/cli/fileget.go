package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// getPart is what one command fetches of a large file.
const getPart = 32 << 20

type fileGet struct {
	Name      string `arg:"" help:"The file's name; with -r, of a directory of names."`
	Local     string `arg:"" optional:"" help:"Where to put it, or - for standard output; default: the last part of its name."`
	Recursive bool   `short:"r" help:"All files below that name."`
	Parallel  int    `short:"j" default:"4" help:"Connections for the parts of a large file."`
	Quiet     bool   `short:"q" help:"No progress."`
}

// Run fetches files.
func (c *fileGet) Run(out *streams, f *fileCommand) error {
	s, end, err := f.session(out)
	if err != nil {
		return err
	}
	defer end()
	began := time.Now()
	if c.Recursive {
		return c.tree(s, began)
	}
	local := c.Local
	if local == "" {
		if local = filepath.Base(c.Name); !filepath.IsLocal(local) {
			return usageErrorf("%q is no name for a local file: say where to put it", c.Name)
		}
	}
	if i, err := os.Stat(local); err == nil && i.IsDir() && local != "-" {
		local = filepath.Join(local, filepath.Base(c.Name))
	}
	n, err := c.one(s, c.Name, local)
	if err != nil {
		return fmt.Errorf("%s: %w", shown(c.Name), err)
	}
	return s.summary("fetched", 1, n, time.Since(began), c.Name)
}

// tree fetches all below a name. A name that would lead out of the directory is refused: whoever stored it may mean harm.
func (c *fileGet) tree(s *fileSession, began time.Time) error {
	list, err := s.below(c.Name)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: %w", shown(c.Name), errGone)
	}
	dir := c.Local
	if dir == "" {
		dir = filepath.Base(c.Name)
	}
	total := int64(0)
	for _, name := range list {
		rel := filepath.FromSlash(strings.TrimPrefix(strings.TrimPrefix(name, strings.TrimSuffix(c.Name, "/")), "/"))
		if !filepath.IsLocal(rel) || strings.ContainsRune(rel, 0) {
			return fmt.Errorf("%s: its name would lead out of %s", shown(name), dir)
		}
		local := filepath.Join(dir, rel)
		if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
			return err
		}
		n, err := c.one(s, name, local)
		if err != nil {
			return fmt.Errorf("%s: %w", shown(name), err)
		}
		total += n
	}
	return s.summary("fetched", len(list), total, time.Since(began), "")
}

// getNote is what is written down of a file that is being fetched, beside it.
type getNote struct {
	Root  string
	Size  int64
	Parts map[int64]bool // by where they begin
}

func (c *fileGet) one(s *fileSession, name, local string) (int64, error) {
	root, size, found, err := s.rootOf(name)
	if err != nil || !found {
		return 0, errors.Join(err, errGone)
	}
	bar := newProgress(s.out.err, shown(name), size, c.Quiet)
	defer bar.done()
	if local == "-" {
		for at := int64(0); at < size; at += getPart { // a file that is replaced meanwhile is found out at the next part
			if err := s.same(name, root); err != nil {
				return at, err
			}
			n := min(getPart, size-at)
			if err := s.conn.bodyTo(s.out.out, n, bar.add, "FGET", name, strconv.FormatInt(at, 10), strconv.FormatInt(n, 10)); err != nil {
				return at, err
			}
		}
		return size, s.same(name, root)
	}
	part, noted := local+".part", local+".part.json"
	note := getNote{Parts: map[int64]bool{}}
	if b, err := os.ReadFile(noted); err == nil && json.Unmarshal(b, &note) == nil && (note.Root != root || note.Size != size || note.Parts == nil) {
		note.Parts = map[int64]bool{}
	}
	note.Root, note.Size = root, size
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return 0, err
	}
	if i, err := f.Stat(); err != nil || i.Size() != size {
		note.Parts = map[int64]bool{} // not the file that the note is about
	}
	err = errors.Join(f.Truncate(size), c.fetch(s, f, name, &note, noted, bar))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("%w (the same command goes on with it later)", err)
	}
	if err := s.same(name, root); err != nil {
		return 0, errors.Join(err, os.Remove(part), removeIfThere(noted))
	}
	return size, errors.Join(os.Rename(part, local), removeIfThere(noted))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// same makes sure that all parts are of one version of the file.
func (s *fileSession) same(name, root string) error {
	now, _, found, err := s.rootOf(name)
	if err == nil && (!found || now != root) {
		err = errChangedFile
	}
	return err
}

// fetch fetches the parts that the note does not have, over several connections.
func (c *fileGet) fetch(s *fileSession, f *os.File, name string, note *getNote, noted string, bar *fileBar) error {
	var todo []int64
	for at := int64(0); at < note.Size; at += getPart {
		if note.Parts[at] {
			bar.skip(min(getPart, note.Size-at))
			continue
		}
		todo = append(todo, at)
	}
	get := func(conn *respConn, at int64) error {
		n := min(getPart, note.Size-at)
		return conn.bodyTo(io.NewOffsetWriter(f, at), n, bar.add, "FGET", name, strconv.FormatInt(at, 10), strconv.FormatInt(n, 10))
	}
	if len(todo) <= 1 {
		for _, at := range todo {
			if err := get(s.conn, at); err != nil {
				return err
			}
		}
		return nil
	}
	work := make(chan int64, len(todo))
	for _, at := range todo {
		work <- at
	}
	close(work)
	var mu sync.Mutex
	return s.parallel(min(max(c.Parallel, 1), len(todo)), func(conn *respConn) error {
		for at := range work {
			if err := get(conn, at); err != nil {
				return err
			}
			if err := f.Sync(); err != nil { // what the note claims is there after a power cut, too
				return err
			}
			mu.Lock()
			note.Parts[at] = true
			err := os.WriteFile(noted, mustJSON(note), 0o644)
			mu.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	})
}
