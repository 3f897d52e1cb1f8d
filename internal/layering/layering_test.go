package layering

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "cvmstore"

func find(pkg string) *room {
	var best *room
	for i := range rooms {
		r := &rooms[i]
		if pkg == r.path || r.path != "" && strings.HasPrefix(pkg, r.path+"/") {
			if best == nil || len(r.path) > len(best.path) {
				best = r
			}
		}
	}
	return best
}

// allowed reports whether a room may import another directly.
func allowed(from, to *room) bool {
	if testOnly[to.path] && !drivers[from.path] {
		return false
	}
	if slices.Contains(from.may, to.path) {
		return true
	}
	return slices.Contains(from.may, "...") && index(to) < index(from)
}

func index(r *room) int {
	return slices.IndexFunc(rooms, func(x room) bool { return x.path == r.path })
}

// above reports whether high may reach low.
func above(high, low *room) bool {
	if allowed(high, low) {
		return true
	}
	for i := range rooms {
		if r := &rooms[i]; r != high && r != low && index(r) < index(high) && allowed(high, r) && above(r, low) {
			return true
		}
	}
	return false
}

// rightRoom names the lowest rooms that may import both.
func rightRoom(a, b *room) string {
	var names []string
	for i := range rooms {
		r := &rooms[i]
		if len(names) < 3 && (r == a || allowed(r, a)) && (r == b || allowed(r, b)) {
			names = append(names, name(r))
		}
	}
	if len(names) == 0 {
		return "no room may know both " + name(a) + " and " + name(b) + ": declare a small interface in the lower one"
	}
	return "code that needs both " + name(a) + " and " + name(b) + " belongs into " + strings.Join(names, " or ")
}

func name(r *room) string {
	if r.path == "" {
		return "main"
	}
	return r.path
}

// checkImport returns what is wrong with an import, or "".
func checkImport(file, pkg, imported string) string {
	isTest := strings.HasSuffix(file, "_test.go")
	from := find(pkg)
	if from == nil || from.path == "" && pkg != "" {
		return fmt.Sprintf("%s: package %s is in no room of DESIGN.md section 2: move it into one, or add the room to internal/layering", file, pkg)
	}
	ours, isOurs := strings.CutPrefix(imported, module+"/")
	if !isOurs {
		for _, l := range libraries {
			matches := imported == l.path || strings.HasPrefix(imported, l.path+"/") && l.path != "net"
			if matches && !isTest && !slices.ContainsFunc(l.rooms, func(r string) bool { return pkg == r || strings.HasPrefix(pkg, r+"/") }) {
				return fmt.Sprintf("%s: %s may not import %s: %s", file, name(from), imported, l.why)
			}
		}
		return ""
	}
	to := find(ours)
	switch {
	case to == nil || to.path == "":
		return fmt.Sprintf("%s: imports %s, which is in no room of DESIGN.md section 2", file, imported)
	case ours == pkg || from == to && slices.Contains(from.may, from.path):
		return ""
	case isTest && !above(to, from):
		return ""
	case !isTest && from != to && allowed(from, to):
		return ""
	case testOnly[to.path] && !isTest:
		return fmt.Sprintf("%s: %s may not import %s outside of tests: it is there for tests", file, name(from), imported)
	}
	return fmt.Sprintf("%s: %s may not import %s: %s. %s", file, name(from), imported, from.why, rightRoom(from, to))
}

func TestDependenciesPointDown(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			_, nested := os.Stat(filepath.Join(p, "go.mod"))
			if p != root && (strings.HasPrefix(base, ".") || base == "testdata" || nested == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		files++
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		pkg := path.Dir(rel)
		if pkg == "." {
			pkg = ""
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if wrong := checkImport(rel, pkg, imported); wrong != "" {
				t.Error(wrong)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Fatalf("only %d Go files found", files)
	}
}

// The check itself: what must be refused, and what the message must name.
func TestLayeringRefuses(t *testing.T) {
	cases := []struct{ file, imported, want string }{
		{"volume/x.go", "cvmstore/keyspace", "belongs into keyspace or kvs"},
		{"volume/x.go", "cvmstore/seal", "small interface"},
		{"volume/x.go", "cvmstore/ioengine/filedev", "internal/cli"},
		{"volume/x.go", "cvmstore/ioengine/memdev", "there for tests"},
		{"seal/x.go", "cvmstore/epoch", "plain types"},
		{"seal/x_test.go", "cvmstore/internal/cli", "seal may not import"},
		{"kvs/x.go", "cvmstore/streams", "resp"},
		{"kvs/x.go", "cvmstore/resp", "know nothing of RESP"},
		{"ioengine/x.go", "cvmstore/volume", "no key names"},
		{"ioengine/filedev/x.go", "cvmstore/ioengine", "knows blocks"},
		{"nvme/x.go", "cvmstore/ioengine/aegis", "knows blocks"},
		{"epoch/x.go", "cvmstore/epoch/epochtest", "there for tests"},
		{"epoch/bolt/x.go", "cvmstore/volume", "nothing of ours"},
		{"volume/x_test.go", "cvmstore/keyspace", "volume may not import"},
		{"main.go", "cvmstore/volume", "main may not import"},
		{"helpers/x.go", "fmt", "in no room"},
		{"volume/x.go", "github.com/tidwall/redcon", "written in resp"},
		{"keyspace/x.go", "net", "sockets"},
	}
	for _, c := range cases {
		pkg := strings.TrimSuffix(path.Dir(c.file), ".")
		if got := checkImport(c.file, pkg, c.imported); !strings.Contains(got, c.want) {
			t.Errorf("%s imports %s: %q, want %q", c.file, c.imported, got, c.want)
		}
	}
	for _, c := range []struct{ file, imported string }{
		{"volume/x.go", "cvmstore/epoch"},
		{"volume/x_test.go", "cvmstore/ioengine/memdev"},
		{"volume/x_test.go", "cvmstore/epoch/epochtest"},
		{"volume/x_test.go", "cvmstore/seal"},
		{"resp/command/x.go", "cvmstore/kvs"},
		{"resp/x.go", "cvmstore/resp/command"},
		{"internal/sim/x.go", "cvmstore/ioengine/memdev"},
		{"internal/cli/x.go", "cvmstore/ioengine/filedev"},
		{"bench/latency/x.go", "cvmstore/seal"},
		{"epoch/epochtest/x_test.go", "cvmstore/epoch/epochtest"},
		{"nvme/pci/x.go", "cvmstore/nvme/dma"},
		{"main.go", "cvmstore/internal/cli"},
	} {
		pkg := strings.TrimSuffix(path.Dir(c.file), ".")
		if wrong := checkImport(c.file, pkg, c.imported); wrong != "" {
			t.Errorf("wrongly refused: %s", wrong)
		}
	}
}
