package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// least is the number of assertions that every client makes in every variant.
const least = 30

func TestMain(m *testing.M) {
	if runtime.GOOS != "linux" {
		fmt.Println("the server runs on Linux: nothing to test here")
		return
	}
	if os.Getenv("CVMSTORE") == "" {
		program, err := script("build")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_ = os.Setenv("CVMSTORE", program)
	}
	os.Exit(m.Run())
}

// script runs server.sh and returns what it prints.
func script(args ...string) (string, error) {
	cmd := exec.Command("bash", append([]string{"server.sh"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("server.sh %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// server is a running program, started by server.sh.
type server struct {
	t         *testing.T
	dir, port string
	flags     []string
}

func start(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), port: "-1", flags: flags}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			t.Logf("log of the server:\n%s", log)
		}
	})
	s.start()
	return s
}

// start starts it, after a kill on the port of before.
func (s *server) start() {
	s.t.Helper()
	port, err := script(append([]string{"start", s.dir, s.port}, s.flags...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.port = port
}

func (s *server) kill() {
	s.t.Helper()
	if _, err := script("kill", s.dir); err != nil {
		s.t.Error(err)
	}
}

func (s *server) addr() string { return "127.0.0.1:" + s.port }

// variant is one way to connect.
type variant struct {
	name     string
	protocol int
	password string
	user     string
	database int
	client   string // name
}

func variants(protocols []int) []variant {
	var all []variant
	for _, protocol := range protocols {
		all = append(
			all,
			variant{name: fmt.Sprintf("resp%d", protocol), protocol: protocol},
			variant{name: fmt.Sprintf("resp%d/password", protocol), protocol: protocol, password: "sésame ouvre-toi"},
			variant{
				name: fmt.Sprintf("resp%d/user/database/name", protocol), protocol: protocol, password: "pw", user: "default",
				database: 5, client: "compat-test",
			},
		)
	}
	return all
}

func (v variant) flags() []string {
	if v.password == "" {
		return nil
	}
	return []string{"--requirepass=" + v.password}
}

// everyVariant runs a client's test in every variant of these protocols, each on a server of its own.
func everyVariant(t *testing.T, protocols []int, run func(*check, variant, *server)) {
	for _, v := range variants(protocols) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := &check{T: t}
			run(c, v, start(t, v.flags()...))
			if c.n < least && !t.Failed() {
				t.Errorf("only %d assertions", c.n)
			}
			t.Logf("%d assertions", c.n)
		})
	}
}

// check counts assertions.
type check struct {
	*testing.T
	n int
}

// ok asserts that err is nil.
func (c *check) ok(what string, err error) {
	c.Helper()
	c.n++
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// is asserts a reply; the two are compared as they print.
func (c *check) is(what string, got any, err error, want any) {
	c.Helper()
	c.n++
	if err != nil {
		c.Errorf("%s: %v, want %v", what, err, want)
	} else if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		c.Errorf("%s: %q, want %q", what, g, w)
	}
}

func (c *check) that(what string, holds bool, got any) {
	c.Helper()
	c.n++
	if !holds {
		c.Errorf("%s: got %.500v", what, got)
	}
}

// fails asserts an error that begins with these words.
func (c *check) fails(what string, err error, prefix string) {
	c.Helper()
	c.n++
	if err == nil || !strings.HasPrefix(err.Error(), prefix) {
		c.Errorf("%s: error %v, want one that begins with %q", what, err, prefix)
	}
}

// clientInfo asserts what CLIENT INFO says of this connection.
func (c *check) clientInfo(v variant, info string, err error) {
	c.Helper()
	c.ok("CLIENT INFO", err)
	info = " " + strings.TrimSpace(info) + " "
	for _, field := range []string{
		fmt.Sprintf(" db=%d ", v.database), fmt.Sprintf(" resp=%d ", v.protocol), " name=" + v.client + " ", " user=default ",
	} {
		c.that("CLIENT INFO has"+field, strings.Contains(info, field), info)
	}
}

const (
	batch = 50  // commands in a pipeline
	more  = 500 // writes that must come through after the restart

	killsMax = 5 // of one server, until one comes in the middle of a pipeline
)

// crash writes pipelines with do, kills the server in the middle of one, starts it again, and goes on until writes come through.
// do sets keys from..from+batch-1 to their own numbers; it returns how many of them, from the first, were acknowledged. Every
// acknowledged write must be there, and at least one pipeline must have been cut.
func (c *check) crash(s *server, do func(from int) (int, error), get func(i int) (string, error)) {
	c.Helper()
	acked := map[int]bool{}
	cut, from := 0, 0
	// A kill between two pipelines cuts none, where the client waits for a new connection by itself: once more then.
	for kills := 0; cut == 0 && kills < killsMax; kills++ {
		var n int
		n, from = c.crashOnce(s, do, from, acked)
		cut += n
	}
	c.that("a pipeline was cut by the restart", cut > 0, cut)
	wrong := 0
	for i := range acked {
		if got, err := get(i); err != nil || got != fmt.Sprint(i) {
			wrong++
			if wrong < 5 {
				c.Errorf("key %d was acknowledged and is now %q, %v", i, got, err)
			}
		}
	}
	c.that("every acknowledged write is there", wrong == 0, wrong)
	c.Logf("%d writes acknowledged, %d pipelines cut", len(acked), cut)
}

// crashOnce writes from key from on through one kill and restart. It returns how many pipelines that cut, and the next key.
func (c *check) crashOnce(s *server, do func(from int) (int, error), from int, acked map[int]bool) (cut, next int) {
	c.Helper()
	const before = 400
	reached, killed, restarted := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		<-reached
		time.Sleep(3 * time.Millisecond)
		s.kill()
		close(killed)
		time.Sleep(200 * time.Millisecond)
		s.start()
		close(restarted)
	}()
	written, after := 0, 0
	announced := false
	deadline := time.Now().Add(60 * time.Second)
	for ; after < more; from += batch {
		n, err := do(from)
		for i := range n {
			acked[from+i] = true
		}
		written += n
		if err != nil {
			cut++
			time.Sleep(20 * time.Millisecond)
		}
		select {
		case <-restarted:
			after += n
		default:
		}
		if written >= before && !announced {
			announced = true
			close(reached)
		}
		if time.Now().After(deadline) {
			c.Fatalf("the client does not get back to the server: %d writes acknowledged since, last error %v", after, err)
		}
	}
	<-killed
	return cut, from
}
