package archive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cvmstore/kvs/rdb"
)

// recorder is a server that writes down what it is sent and answers OK to everything, or an error to one command.
type recorder struct {
	conn net.Conn
	got  []string
	done chan struct{}
	fail string
}

func newRecorder(fail string) (*recorder, *Loader) {
	a, b := net.Pipe()
	r := &recorder{conn: b, done: make(chan struct{}), fail: fail}
	go func() {
		defer close(r.done)
		in := bufio.NewReader(b)
		out := make(chan string, 10_000) // replies do not wait for each other
		go func() {
			for s := range out {
				if _, err := io.WriteString(b, s); err != nil {
					return
				}
			}
		}()
		defer close(out)
		for {
			args, err := readCommand(in)
			if err != nil {
				return
			}
			line := string(bytes.Join(args, []byte(" ")))
			if strings.HasPrefix(line, "CVM.EPOCH") {
				out <- "+OK\r\n"
				continue
			}
			r.got = append(r.got, line)
			if strings.HasPrefix(line, "FBEGIN") {
				out <- "$2\r\nid\r\n"
				continue
			}
			if fail != "" && strings.HasPrefix(line, fail) {
				out <- "-ERR no\r\n"
			} else {
				out <- "*2\r\n$2\r\nOK\r\n%1\r\n+a\r\n:1\r\n"
			}
		}
	}()
	return r, NewLoader(a)
}

// load returns what a source sends.
func load(s Source, change func(*Loader)) ([]string, error) {
	r, l := newRecorder("")
	if change != nil {
		change(l)
	}
	err := s.Load(l)
	if err == nil {
		err = l.Close()
	}
	l.Abort()
	<-r.done
	return r.got, err
}

func lines(text string) Source { return JSONLines{bufio.NewReader(strings.NewReader(text))} }

func TestJSONLines(t *testing.T) {
	got, err := load(lines(`{"key": "k", "type": "string", "value": "v", "db": 2, "expiry": 99}
{"key": "bA==", "type": "list", "value": ["AAE="], "base64": true}
{"key": "h", "type": "hash", "value": ["f", "v"]}

{"key": "h", "type": "hash", "more": true, "value": ["g", "w"]}
{"key": "d/f", "type": "file", "value": "content", "meta": ["a", "b"]}
{"key": "z", "type": "zset", "value": ["a", "b"], "scores": [1.5, -1e999]}`), nil)
	want := []string{
		"SELECT 2", "SET k v", "PEXPIREAT k 99", "SELECT 0", "DEL l", "RPUSH l \x00\x01", "DEL h", "HSET h f v", "HSET h g w", "FPUT d/f content META a b", "DEL z", "ZADD z 1.5 a -Inf b",
	}
	if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%q, %v\nwant %q", got, err, want)
	}
	for name, text := range map[string]string{
		"no JSON": `x`, "two values": `{"key":"k","type":"string","value":"v"} {}`, "an unknown field": `{"key":"k","type":"string","value":"v","ttl":1}`,
		"an unknown type": `{"key":"k","type":"stream","value":[]}`, "another command": `{"key":"k","type":"command","value":["FLUSHALL","k"]}`,
		"a command for another key": `{"key":"k","type":"command","value":["XADD","l","*","f","v"]}`, "a list as a string": `{"key":"k","type":"string","value":["v"]}`,
		"an empty list": `{"key":"k","type":"list","value":[]}`, "half a pair": `{"key":"k","type":"hash","value":["f"]}`,
		"a score too few": `{"key":"k","type":"zset","value":["a"]}`, "scores of a set": `{"key":"k","type":"set","value":["a"],"scores":[1]}`,
		"no score": `{"key":"k","type":"zset","value":["a"],"scores":["x"]}`, "no base64": `{"key":"*","type":"string","value":"v","base64":true}`,
		"a string in parts": `{"key":"k","type":"string","value":"v","more":true}`, "a file in a database": `{"key":"k","type":"file","value":"v","db":1}`, "half of meta": `{"key":"k","type":"file","value":"v","meta":["a"]}`,
		"meta of a string": `{"key":"k","type":"string","value":"v","meta":["a","b"]}`, "a negative database": `{"key":"k","type":"string","value":"v","db":-1}`,
	} {
		if got, err := load(lines(text), nil); err == nil || !strings.Contains(err.Error(), "line 1") || len(got) > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestAnInterruptedLoadSkipsWhatIsThere(t *testing.T) {
	file := "REDIS0010\x00\x01a\x011\x01\x01l\x02\x01x\x01y\x00\x01b\x012\xff\x00\x00\x00\x00\x00\x00\x00\x00"
	rdbOf := func() Source { return RDB{bufio.NewReader(strings.NewReader(file))} }
	got, err := load(rdbOf(), nil)
	if want := `["SET a 1" "RPUSH l x y" "SET b 2"]`; err != nil || fmt.Sprintf("%q", got) != want {
		t.Errorf("%q, %v", got, err)
	}
	got, err = load(rdbOf(), func(l *Loader) { l.Skip = 1 })
	if want := `["DEL l" "RPUSH l x y" "SET b 2"]`; err != nil || fmt.Sprintf("%q", got) != want {
		t.Errorf("resumed: %q, %v", got, err)
	}
	saved := []int64{}
	got, err = load(rdbOf(), func(l *Loader) {
		l.saved = l.saved.Add(-2 * checkpointEvery)
		l.Checkpoint = func(n int64) error { saved = append(saved, n); return nil }
	})
	if err != nil || len(saved) != 1 || saved[0] != 1 || len(got) != 3 {
		t.Errorf("checkpoints %v, %q, %v", saved, got, err)
	}
}

func TestADirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b/long": "0123456789abc", "a": "12345", "c": ""} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	warned := ""
	got, err := load(Dir{Path: dir, piece: 5, Warn: func(m string) { warned = m }}, nil)
	want := `["FPUT a 12345" "FBEGIN b/long SIZE 13" "FWRITE id 0 01234" "FWRITE id 5 56789" "FWRITE id 10 abc" "FCOMMIT id" "FPUT c "]`
	if err != nil || fmt.Sprintf("%q", got) != want || !strings.HasPrefix(warned, "1 links") {
		t.Errorf("%q, %v, %q", got, err, warned)
	}
	got, err = load(Dir{Path: dir, Strings: true}, func(l *Loader) { l.Skip = 1 })
	if want := `["SET b/long 0123456789abc" "SET c "]`; err != nil || fmt.Sprintf("%q", got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

func TestARefusedCommandEndsTheLoad(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "{\"key\": \"k%d\", \"type\": \"string\", \"value\": \"v\"}\n", i)
	}
	r, l := newRecorder("SET k77 ")
	err := lines(text.String()).Load(l)
	if err == nil {
		err = l.Close()
	}
	l.Abort()
	<-r.done
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `"k77"`) {
		t.Errorf("%v", err)
	}
	for _, reply := range []string{"", "x\r\n", "$5\r\nab", "*1\r\n" + strings.Repeat("*1\r\n", 100), "*2\r\n+OK\r\n-ERR\r\n", "$x\r\n", "+OK\n"} {
		if skipReply(bufio.NewReader(strings.NewReader(reply)), replyDepth) == nil {
			t.Errorf("%q is accepted", reply)
		}
	}
}

func TestAppendOnlyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	set := "#TS:1\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
	write("a.2.incr.aof", set)
	cut := write("a.10.incr.aof", set+"*2\r\n$4\r\nINCR\r\n$1")
	write("a.1.base.rdb", "REDIS0010\x00\x01a\x011\xff\x00\x00\x00\x00\x00\x00\x00\x00")
	manifest := write("a.manifest", "file a.10.incr.aof seq 10 type i\nfile a.1.base.rdb seq 1 type b\nfile a.2.incr.aof seq 2 type i\nfile old.aof seq 1 type h\n")
	warned := ""
	for _, path := range []string{dir, manifest} {
		got, err := load(AOF{Path: path, Warn: func(m string) { warned = m }}, nil)
		if want := `["SET a 1" "SELECT 3" "SET k v" "SELECT 0" "SELECT 3" "SET k v"]`; err != nil || fmt.Sprintf("%q", got) != want {
			t.Errorf("%q, %v", got, err)
		}
		if !strings.Contains(warned, "cut off") {
			t.Errorf("the cut was not told of: %q", warned)
		}
	}
	if _, err := load(AOF{Path: cut}, nil); err == nil {
		t.Error("a cut file is accepted where nobody is told")
	}
	for name, text := range map[string]string{
		"no file": "", "two bases": "file a seq 1 type b\nfile b seq 2 type b\n", "a way out": "file ../a seq 1 type b\n",
		"an unknown type": "file a seq 1 type x\n", "no number": "file a seq x type b\n", "something else": "x\n",
	} {
		if files, err := parseManifest(text, "."); err == nil {
			t.Errorf("%s: %v", name, files)
		}
	}
	for _, text := range []string{"x", "*x\r\n", "*0\r\n", "*1\r\nx\r\n", "*1\r\n$-1\r\n", "*99999999\r\n", "*1\r\n$1\r\n", "*1\r\n$3\r\nGE"} {
		if _, err := readCommand(bufio.NewReader(strings.NewReader(text))); err == nil || err == io.EOF {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Keys are names that anybody may have chosen: none leads out of the directory.
func TestFilesStayBelowTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	s, err := NewFiles(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(db int, key, value string) error {
		return s.String(&rdb.Part{DB: db, Key: []byte(key)}, strings.NewReader(value), int64(len(value)))
	}
	for _, key := range []string{"a", "b/c/d", "with space", "ünicode"} {
		if err := errors.Join(put(0, key, key), put(0, key, key)); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "out", key)); string(b) != key {
			t.Errorf("%s: %q, %v", key, b, err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(dir, "out", "link")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"../x", "/x", "", ".", "a/../../x", "b/./c", "link", "link/x", "b", "a/x"} {
		if err := put(0, key, "x"); err == nil {
			t.Errorf("key %q became a file", key)
		}
	}
	for _, err := range []error{put(1, "x", "x"), put(0, "a", "b"), s.Part(&rdb.Part{})} {
		if err == nil {
			t.Error("another database, other content, or a collection became a file")
		}
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*")); len(found) != 1 {
		t.Errorf("outside of the directory: %v", found)
	}
}

func FuzzSources(f *testing.F) {
	f.Add([]byte(`{"key": "k", "type": "string", "value": "v"}`))
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, file, err := parseLine(b); err == nil && file == nil {
			var out bytes.Buffer
			s := Lines{bufio.NewWriter(&out)}
			if err := errors.Join(s.Part(p), s.Close()); err != nil {
				t.Fatal(err)
			}
			q, _, err := parseLine(out.Bytes())
			if err != nil || fmt.Sprintf("%q", fill(q)) != fmt.Sprintf("%q", fill(p)) {
				t.Fatalf("%s: %q became %q, %v", out.Bytes(), fill(p), fill(q), err)
			}
		}
		_, _ = readCommand(bufio.NewReader(bytes.NewReader(b)))
		_, _ = parseManifest(string(b), ".")
	})
}
