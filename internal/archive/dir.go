package archive

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is a directory: each regular file below it becomes a string, by its path within the directory. Links and other things that are
// not files are left out, and counted.
type Dir struct {
	Path string
	Warn func(msg string)
}

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
	return l.DoFrom(fmt.Sprintf("file %.100q", path), f, info.Size(), []byte("SET"), []byte(path))
}
