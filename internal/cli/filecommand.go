package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"time"
)

// fileCommand is `cvmstore file`: files of a server, over its RESP port.
type fileCommand struct {
	fileServer

	Put    filePut    `cmd:"" help:"Store local files, or directories with all that is in them."`
	Get    fileGet    `cmd:"" help:"Fetch files."`
	Ls     fileLs     `cmd:"" help:"List files."`
	Rm     fileRm     `cmd:"" help:"Delete files."`
	Stat   fileStat   `cmd:"" help:"Show what is known of files."`
	Verify fileVerify `cmd:"" help:"Have the server read files from its device and check them."`
}

// fileSession is one run of a command.
type fileSession struct {
	ctx    context.Context
	server *fileServer
	conn   *respConn
	out    *streams
}

func (s *fileServer) session(out *streams) (*fileSession, func(), error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	conn, err := s.dial(ctx)
	if err != nil {
		stop()
		return nil, nil, err
	}
	after := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &fileSession{ctx: ctx, server: s, conn: conn, out: out}, func() {
		after()
		_ = conn.Close()
		stop()
	}, nil
}

// names returns the names of files that match a pattern, in order.
func (s *fileSession) names(pattern string) (list []string, err error) {
	seen := map[string]bool{}
	for cursor := "0"; ; {
		x, err := s.conn.do("FSCAN", cursor, "MATCH", pattern, "COUNT", "1000")
		if err != nil {
			return nil, err
		}
		pair, _ := x.([]any)
		if len(pair) != 2 {
			return nil, errors.New("FSCAN: an odd reply")
		}
		found, _ := pair[1].([]any)
		for _, n := range found {
			if !seen[str(n)] {
				seen[str(n)] = true
				list = append(list, str(n))
			}
		}
		if cursor = str(pair[0]); cursor == "0" {
			sort.Strings(list)
			return list, nil
		}
	}
}

// below returns the names of files in a directory of names.
func (s *fileSession) below(dir string) ([]string, error) {
	if dir != "" && !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	return s.names(globEscape(dir) + "*")
}

// globEscape makes a name a pattern that matches it alone.
func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}

// rootOf returns a file's root and size; found is false if there is none.
func (s *fileSession) rootOf(name string) (root string, size int64, found bool, err error) {
	x, err := s.conn.do("FROOT", name)
	list, _ := x.([]any)
	if err != nil || len(list) != 2 {
		return "", 0, false, err
	}
	return str(list[0]), num(list[1]), true, nil
}

// shown is a name as it is printed: nothing that a terminal would obey.
func shown(name string) string {
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return fmt.Sprintf("%q", name)
		}
	}
	return name
}

type fileLs struct {
	Pattern string `arg:"" optional:"" default:"*" help:"Which names: * and ? and [] as in a shell, / is nothing special."`
	Long    bool   `short:"l" help:"Sizes and times, too."`
}

// Run lists files.
func (c *fileLs) Run(out *streams, f *fileCommand) error {
	s, end, err := f.session(out)
	if err != nil {
		return err
	}
	defer end()
	list, err := s.names(c.Pattern)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, name := range list {
		if !c.Long {
			fmt.Fprintln(out.out, shown(name))
			continue
		}
		x, err := s.conn.do("FSTAT", name)
		if err != nil {
			return err
		}
		if x == nil {
			continue // gone since
		}
		i := fields(x)
		total += num(i["size"])
		fmt.Fprintf(out.out, "%12d  %s  %s\n", num(i["size"]), timeText(num(i["committed"])), shown(name))
	}
	if c.Long {
		fmt.Fprintf(out.out, "%d files, %s\n", len(list), bytesText(total))
	}
	return nil
}

func timeText(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05")
}

type fileRm struct {
	Names     []string `arg:"" help:"Names of files."`
	Recursive bool     `short:"r" help:"Also what is below these names."`
}

// Run deletes files.
func (c *fileRm) Run(out *streams, f *fileCommand) error {
	s, end, err := f.session(out)
	if err != nil {
		return err
	}
	defer end()
	deleted, missing := int64(0), 0
	for _, name := range c.Names {
		list := []string{name}
		if c.Recursive {
			more, err := s.below(name)
			if err != nil {
				return err
			}
			list = append(list, more...)
		}
		n := int64(0)
		for from := 0; from < len(list); from += 1000 {
			x, err := s.conn.do(append([]string{"FDEL"}, list[from:min(from+1000, len(list))]...)...)
			if err != nil {
				return err
			}
			n += num(x)
		}
		if deleted += n; n == 0 {
			missing++
			fmt.Fprintf(out.err, "%s: no such file\n", shown(name))
		}
	}
	fmt.Fprintf(out.out, "%d files deleted\n", deleted)
	if missing > 0 {
		return fmt.Errorf("%d of %d names: %w", missing, len(c.Names), errGone)
	}
	return nil
}

type fileStat struct {
	Names []string `arg:"" help:"Names of files."`
}

// Run tells of files.
func (c *fileStat) Run(out *streams, f *fileCommand) error {
	s, end, err := f.session(out)
	if err != nil {
		return err
	}
	defer end()
	for _, name := range c.Names {
		x, err := s.conn.do("FSTAT", name)
		if err != nil {
			return err
		}
		root, _, found, err := s.rootOf(name)
		if err != nil {
			return err
		}
		if x == nil || !found {
			return fmt.Errorf("%s: %w", shown(name), errGone)
		}
		i := fields(x)
		fmt.Fprintf(out.out, "name       %s\nsize       %d (%s)\nbegun      %s\ncommitted  %s\nchunk      %s\nparts      %d\nroot       %s\n",
			shown(name), num(i["size"]), bytesText(num(i["size"])), timeText(num(i["begun"])), timeText(num(i["committed"])), chunkText(num(i["chunk"])), num(i["parts"]), root)
		meta, _ := i["meta"].([]any)
		for j := 0; j+1 < len(meta); j += 2 {
			fmt.Fprintf(out.out, "meta       %s = %s\n", shown(str(meta[j])), shown(str(meta[j+1])))
		}
	}
	return nil
}

func chunkText(n int64) string {
	if n == 0 {
		return "one record"
	}
	return bytesText(n)
}

type fileVerify struct {
	Names     []string `arg:"" help:"Names of files."`
	Recursive bool     `short:"r" help:"Also what is below these names."`
}

// Run has files verified.
func (c *fileVerify) Run(out *streams, f *fileCommand) error {
	s, end, err := f.session(out)
	if err != nil {
		return err
	}
	defer end()
	s.conn.timeout = 24 * time.Hour // it reads all of a file before it answers
	bad, good, bytes := 0, 0, int64(0)
	for _, name := range c.Names {
		list := []string{name}
		if c.Recursive {
			if list, err = s.below(name); err != nil {
				return err
			}
		}
		for _, n := range list {
			x, err := s.conn.do("FVERIFY", n)
			var refused replyError
			switch {
			case errors.As(err, &refused):
				bad++
				fmt.Fprintf(out.err, "%s: %s\n", shown(n), refused)
			case err != nil:
				return err
			default:
				good++
				bytes += num(x)
			}
		}
	}
	fmt.Fprintf(out.out, "%d files of %s verified, %d refused\n", good, bytesText(bytes), bad)
	if bad > 0 {
		return fmt.Errorf("%d of %d files do not verify", bad, bad+good)
	}
	return nil
}
