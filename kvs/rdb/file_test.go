package rdb

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// redisFile has redis-server 7.0 write a file of these commands.
func redisFile(t testing.TB, flags []string, commands [][]string) []byte {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server")
	}
	dir := t.TempDir()
	sock := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", append([]string{"--port", "0", "--unixsocket", sock, "--dir", dir, "--save", ""}, flags...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var c net.Conn
	var err error
	for range 500 {
		if c, err = net.Dial("unix", sock); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // ends with the test
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	in := bufio.NewReader(c)
	for _, args := range append(commands, []string{"SAVE"}) {
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
		_, _ = io.WriteString(c, b.String())
		if line, err := in.ReadString('\n'); err != nil || line[0] == '-' {
			t.Fatalf("%.60v: %q, %v", args, line, err)
		}
	}
	file, err := os.ReadFile(filepath.Join(dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// sample are commands, and what a file of them must hold: key → its items, sorted where order means nothing.
func sample() (commands [][]string, want map[string]string) {
	want = map[string]string{}
	add := func(key string, kind Kind, args []string, items ...string) {
		commands = append(commands, append([]string{args[0], key}, args[1:]...))
		want["0/"+key] = fmt.Sprint(kind, items)
	}
	random := rand.New(rand.NewPCG(1, 2))
	long := make([]byte, 3000)
	for i := range long {
		long[i] = byte(random.Uint32())
	}
	add("number", KindString, []string{"SET", "-12345"}, "-12345")
	add("text", KindString, []string{"SET", "hello"}, "hello")
	add("packed", KindString, []string{"SET", strings.Repeat("abc", 1000)}, strings.Repeat("abc", 1000))
	add("random", KindString, []string{"SET", string(long)}, string(long))
	add("small list", KindList, []string{"RPUSH", "1", "x", "-7"}, "1", "x", "-7")
	add("small set", KindSet, []string{"SADD", "1", "2", "3"}, "1", "2", "3")
	add("small hash", KindHash, []string{"HSET", "f", "v"}, "f", "v")
	add("small zset", KindZSet, []string{"ZADD", "1.5", "a"}, "a=1.5")
	var members, pairs, scored []string
	var setItems, hashItems, zsetItems []string
	for i := range 3000 {
		m := fmt.Sprintf("member-%05d-%s", i, strings.Repeat("y", i%90))
		members = append(members, m)
		pairs, hashItems = append(pairs, m, strconv.Itoa(i)), append(hashItems, m, strconv.Itoa(i))
		score := strconv.FormatFloat(float64(i)/3, 'g', -1, 64)
		scored, zsetItems = append(scored, score, m), append(zsetItems, m+"="+score)
	}
	scored, zsetItems = append(scored, "inf", "end"), append(zsetItems, "end=+Inf")
	setItems = slices.Clone(members)
	add("list", KindList, append([]string{"RPUSH"}, members...), members...)
	add("set", KindSet, append([]string{"SADD"}, members...), setItems...)
	add("hash", KindHash, append([]string{"HSET"}, pairs...), hashItems...)
	add("zset", KindZSet, append([]string{"ZADD"}, scored...), zsetItems...)
	commands = append(commands, []string{"PEXPIREAT", "text", "99999999999999"}, []string{"SELECT", "3"}, []string{"SET", "text", "other"})
	want["0/text"] += " 99999999999999"
	want["3/text"] = fmt.Sprint(KindString, []string{"other"})
	return commands, want
}

func readAll(file []byte) (map[string]string, error) {
	f, err := NewFile(bufio.NewReader(bytes.NewReader(file)))
	if err != nil {
		return nil, err
	}
	got := map[string]string{}
	var items []string
	for {
		p, err := f.Next()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		if p.First {
			items = nil
		}
		for i, item := range p.Items {
			text := string(item)
			if p.Kind == KindZSet {
				text += "=" + strconv.FormatFloat(p.Scores[i], 'g', -1, 64)
			}
			items = append(items, text)
		}
		if !p.Last {
			continue
		}
		switch p.Kind {
		case KindHash:
			var pairs []string
			for i := 0; i < len(items); i += 2 {
				pairs = append(pairs, items[i]+"\x00"+items[i+1])
			}
			slices.Sort(pairs)
			items = strings.Split(strings.Join(pairs, "\x00"), "\x00")
		case KindSet, KindZSet:
			slices.Sort(items)
		}
		name := fmt.Sprintf("%d/%s", p.DB, p.Key)
		got[name] = fmt.Sprint(p.Kind, items)
		if p.Expiry != 0 {
			got[name] += fmt.Sprint(" ", p.Expiry)
		}
	}
}

func TestAFileOfRedisIsRead(t *testing.T) {
	commands, want := sample()
	for name := range want { // in the order that readAll puts them
		for _, kind := range []Kind{KindSet, KindZSet} {
			if items, ok := strings.CutPrefix(want[name], fmt.Sprint(kind)+" ["); ok {
				list := strings.Split(strings.TrimSuffix(items, "]"), " ")
				slices.Sort(list)
				want[name] = fmt.Sprint(kind, list)
			}
		}
	}
	for _, flags := range [][]string{nil, {"--rdbcompression", "no"}, {"--rdbchecksum", "no"}, {"--list-compress-depth", "1", "--hash-max-listpack-entries", "0"}} {
		got, err := readAll(redisFile(t, flags, commands))
		if err != nil {
			t.Fatal(err)
		}
		for name := range maps.Keys(want) {
			if got[name] != want[name] {
				t.Errorf("%v: %s: %.80q, want %.80q", flags, name, got[name], want[name])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d keys, want %d", len(got), len(want))
		}
	}
}

func TestADamagedFileIsRefused(t *testing.T) {
	commands, _ := sample()
	file := redisFile(t, nil, commands[:10])
	for i := 0; i < len(file); i += 1 + i/50 {
		bad := bytes.Clone(file)
		bad[i] ^= 0x10
		if _, err := readAll(bad); err == nil {
			t.Errorf("byte %d of %d changed: accepted", i, len(file))
		}
		if _, err := readAll(file[:i]); !errors.Is(err, ErrFormat) {
			t.Errorf("cut off at %d: %v", i, err)
		}
	}
	stream := redisFile(t, nil, [][]string{{"XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"}})
	if _, err := readAll(stream); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a stream: %v", err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("REDIS0010\xfa\x01a\x01b\xfe\x00\xfb\x01\x00\x00\x01k\x01v\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("REDIS0010\x01\x01k\x02\x01a\x01b\x04\x01h\x01\x01f\x01v\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("REDIS0010\x05\x01z\x01\x01m\x00\x00\x00\x00\x00\x00\xf0\x3f\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readAll(b)
		if err == nil && !bytes.HasPrefix(b, []byte(magic)) {
			t.Fatalf("%d keys of no RDB file", len(got))
		}
	})
}
