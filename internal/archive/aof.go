package archive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cvmstore/kvs/rdb"
)

// AOF is an append-only file of Redis: one file, or the manifest of several. Its commands are carried out in their order, so a load that
// was interrupted begins anew. Warn is told of a last command that is cut off, as a crash of Redis leaves it.
type AOF struct {
	Path string
	Warn func(msg string)
}

const (
	aofArgs     = 1 << 20 // arguments of a command
	aofArgMax   = 512 << 20
	aofManifest = ".manifest"
)

var errCut = errors.New("cut off in the middle of a command")

// Load implements Source.
func (s AOF) Load(l *Loader) error {
	files, err := s.files()
	if err != nil {
		return err
	}
	for i, path := range files {
		err := s.file(l, path)
		if errors.Is(err, errCut) && i == len(files)-1 && s.Warn != nil {
			s.Warn(fmt.Sprintf("%s: its last command is cut off and left out", path))
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// files lists the files in the order in which they count. A directory has one manifest.
func (s AOF) files() ([]string, error) {
	manifest := s.Path
	if info, err := os.Stat(s.Path); err != nil {
		return nil, err
	} else if info.IsDir() {
		found, err := filepath.Glob(filepath.Join(s.Path, "*"+aofManifest))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%s: %d manifests of an append-only file, want one", s.Path, len(found))
		}
		manifest = found[0]
	}
	if !strings.HasSuffix(manifest, aofManifest) {
		return []string{s.Path}, nil
	}
	text, err := os.ReadFile(manifest)
	if err != nil {
		return nil, err
	}
	return parseManifest(string(text), filepath.Dir(manifest))
}

// parseManifest reads lines of "file NAME seq N type T": the base (b) first, then the increments (i) by number; history (h) is
// garbage.
func parseManifest(text, dir string) ([]string, error) {
	type part struct {
		path string
		seq  int
	}
	var base, increments []part
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 6 || f[0] != "file" || f[2] != "seq" || f[4] != "type" || !filepath.IsLocal(f[1]) {
			return nil, fmt.Errorf("manifest: %.100q is no line of one", line)
		}
		seq, err := strconv.Atoi(f[3])
		if err != nil {
			return nil, fmt.Errorf("manifest: %.100q: %w", line, err)
		}
		p := part{filepath.Join(dir, f[1]), seq}
		switch f[5] {
		case "b":
			base = append(base, p)
		case "i":
			increments = append(increments, p)
		case "h":
		default:
			return nil, fmt.Errorf("manifest: %.100q has an unknown type", line)
		}
	}
	if len(base) > 1 || len(base)+len(increments) == 0 {
		return nil, errors.New("manifest: no files, or two bases")
	}
	slices.SortFunc(increments, func(a, b part) int { return a.seq - b.seq })
	var files []string
	for _, p := range append(base, increments...) {
		files = append(files, p.path)
	}
	return files, nil
}

// file sends one file: commands, maybe with a whole RDB file before them. Each begins in database 0.
func (s AOF) file(l *Loader, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	in := bufio.NewReaderSize(f, wireBuffer)
	if err := l.Select(0); err != nil {
		return err
	}
	if head, _ := in.Peek(5); bytes.Equal(head, []byte("REDIS")) {
		r, err := rdb.NewFile(in)
		if err == nil {
			err = loadRDB(l, r)
		}
		if err == nil {
			err = l.Select(0) // the RDB part may have chosen another
		}
		if err != nil {
			return err
		}
	}
	for {
		args, err := readCommand(in)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = s.command(l, args)
		}
		if err != nil {
			return err
		}
	}
}

// command passes a command on. The database is the loader's to know.
func (s AOF) command(l *Loader, args [][]byte) error {
	if len(args) == 2 && strings.EqualFold(string(args[0]), "select") {
		db, err := strconv.Atoi(string(args[1]))
		if err != nil {
			return fmt.Errorf("SELECT %.20q: %w", args[1], err)
		}
		return l.Select(db)
	}
	if err := l.Do(fmt.Sprintf("%.20s of the file", args[0]), args...); err != nil {
		return err
	}
	return l.Item()
}

// readCommand reads one command: an array of strings. Lines that begin with # are remarks. io.EOF: there is none.
func readCommand(in *bufio.Reader) ([][]byte, error) {
	for {
		b, err := in.Peek(1)
		if err != nil {
			return nil, err
		}
		if b[0] != '#' {
			break
		}
		if _, err := in.ReadSlice('\n'); err != nil {
			return nil, errCut
		}
	}
	n, err := readNumber(in, '*', aofArgs)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("a command without a name")
	}
	args := make([][]byte, 0, min(n, 64))
	for range n {
		size, err := readNumber(in, '$', aofArgMax)
		if err != nil {
			return nil, err
		}
		var arg bytes.Buffer // grows as bytes come
		if _, err := io.CopyN(&arg, in, int64(size)+2); err != nil {
			return nil, errCut
		}
		args = append(args, arg.Bytes()[:size])
	}
	return args, nil
}

// readNumber reads a length with its form before it.
func readNumber(in *bufio.Reader, form byte, most int) (int, error) {
	line, err := in.ReadSlice('\n')
	if err == io.EOF {
		return 0, errCut
	}
	if err != nil {
		return 0, err
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	n, convErr := strconv.Atoi(strings.TrimPrefix(text, string(form)))
	if !ok || text == "" || text[0] != form || convErr != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%.40q where %q and a number must be", line, form)
	}
	return n, nil
}
