package archive

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Dir is a directory: each regular file below it becomes a file of the store, or a string, by its path within the directory. Links and
// other things that are not files are left out, and counted.
type Dir struct {
	Path    string
	Strings bool
	Warn    func(msg string)

	piece int64 // tests: see pieceBytes; 0: that
}

// pieceBytes is what one command carries of a file; a longer one is an upload. Each is flushed before the next begins.
const pieceBytes = 256 << 20

// Load implements Source.
func (s Dir) Load(l *Loader) error {
	root, err := os.OpenRoot(s.Path)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	others := 0
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			others++
			return nil
		case l.Skipped():
			return nil
		}
		if err := s.file(l, root, path); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(s.Path, path), err)
		}
		return l.Item()
	})
	if others > 0 && s.Warn != nil {
		s.Warn(fmt.Sprintf("%d links and other things that are no files were left out", others))
	}
	return err
}

func (s Dir) file(l *Loader, root *os.Root, path string) error {
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	piece := s.piece
	if piece == 0 {
		piece = pieceBytes
	}
	about, size := fmt.Sprintf("file %.100q", path), info.Size()
	switch {
	case s.Strings:
		return l.DoFrom(about, f, size, []byte("SET"), []byte(path))
	case size <= piece:
		return l.DoFrom(about, f, size, []byte("FPUT"), []byte(path))
	}
	id, err := l.Ask(about, []byte("FBEGIN"), []byte(path), []byte("SIZE"), strconv.AppendInt(nil, size, 10))
	for at := int64(0); at < size && err == nil; at += piece {
		err = l.DoFrom(about, f, min(piece, size-at), []byte("FWRITE"), []byte(id), strconv.AppendInt(nil, at, 10))
	}
	if err != nil {
		return err
	}
	return l.Do(about, []byte("FCOMMIT"), []byte(id))
}
