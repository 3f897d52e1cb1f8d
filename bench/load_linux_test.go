package bench

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answering serves commands of RESP arrays with one reply each, until the test ends, and counts them.
func answering(t *testing.T, reply string) (port int, commands *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	commands = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				r := bufio.NewReader(c)
				for {
					args, err := readCommand(r)
					if err != nil {
						return
					}
					if args[0] == "SET" && len(args[2]) != valueBytes || !strings.HasPrefix(args[1], "key:0000") {
						_, _ = io.WriteString(c, "-ERR not what a load sends\r\n")
						return
					}
					commands.Add(1)
					_, _ = io.WriteString(c, reply)
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, commands
}

func readCommand(r *bufio.Reader) ([]string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	args := make([]string, line[1]-'0')
	for i := range args {
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
		n := 0
		for _, d := range strings.TrimSpace(line[1:]) {
			n = n*10 + int(d-'0')
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:n])
	}
	return args, nil
}

func TestALoadSendsEachRequestOnce(t *testing.T) {
	value := "$1024\r\n" + strings.Repeat("v", valueBytes) + "\r\n"
	for _, l := range []load{
		{clients: 1, pipeline: 1, n: 50},
		{clients: 7, pipeline: 3, n: 100},
		{clients: 9, pipeline: 4, n: 5},
		{get: true, clients: 3, pipeline: 2, n: 31},
	} {
		reply := "+OK\r\n"
		if l.get {
			reply = value
		}
		port, commands := answering(t, reply)
		l.port = port
		s, err := generate(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		if commands.Load() != int64(l.n) || s.rate <= 0 || s.p99 <= 0 {
			t.Errorf("%+v: the server saw %d commands; sample %+v", l, commands.Load(), s)
		}
	}
}

func TestALoadReportsAnErrorReply(t *testing.T) {
	port, _ := answering(t, "-ERR no\r\n")
	if _, err := generate(context.Background(), load{port: port, clients: 2, pipeline: 1, n: 10}); err == nil || !strings.Contains(err.Error(), "-ERR no") {
		t.Errorf("error %v", err)
	}
}

func TestALoadStopsWhenItIsCancelled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = generate(ctx, load{port: l.Addr().(*net.TCPAddr).Port, clients: 1, pipeline: 1, n: 10})
	if err == nil {
		t.Error("a load that nobody answers ended well")
	}
}

func TestKeysOfALoad(t *testing.T) {
	for n, want := range map[int]string{0: "key:000000000000\r\n", 7: "key:000000000007\r\n", 49999: "key:000000049999\r\n"} {
		if got := appendKey([]byte("x"), n); !bytes.Equal(got, []byte("x"+want)) {
			t.Errorf("key %d: %q", n, got)
		}
	}
}
