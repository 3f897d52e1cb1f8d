package service_test

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/boltstore"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/service"
)

// childDir, in the environment, makes this test binary a service on the database there.
const childDir = "CVMSTORE_COUNTER_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Println("child:", serveChild(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveChild serves with the keys that the parent left, until it is killed.
func serveChild(dir string) error {
	seed, err := os.ReadFile(filepath.Join(dir, "seeds"))
	if err != nil {
		return err
	}
	port, err := partyFrom(seed[:32])
	if err != nil {
		return err
	}
	client, err := partyFrom(seed[64:])
	if err != nil {
		return err
	}
	db, err := boltstore.Open(filepath.Join(dir, "counter.db"))
	if err != nil {
		return err
	}
	s, err := service.New(ctx, service.Options{Store: db, Sign: ed25519.NewKeyFromSeed(seed[32:64]), Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	if err := s.Enrol(ctx, client.id, "test", service.RoleClient); err != nil {
		return err
	}
	server, err := service.Listen(s, "127.0.0.1:0", port.cert, service.Limits{}, zerolog.Nop())
	if err != nil {
		return err
	}
	fmt.Println(server.Addr())
	return server.Serve()
}

// child is a service in a process of its own.
type child struct {
	cmd  *exec.Cmd
	addr string
}

func startChild(t *testing.T, dir string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	line := bufio.NewScanner(out)
	if !line.Scan() {
		t.Fatal("the service did not start")
	}
	c.addr = line.Text()
	if _, _, err := net.SplitHostPort(c.addr); err != nil {
		t.Fatal(c.addr)
	}
	return c
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// kill -9 at any moment: what was answered is there afterwards, and nothing that was not asked for; a commit that was under way
// is carried on by the same request.
func TestKillNeverGoesBackwards(t *testing.T) {
	const stores, rounds = 4, 12
	dir := t.TempDir()
	seeds := make([]byte, 96)
	if _, err := rand.Read(seeds); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "seeds"), seeds, 0o600); err != nil {
		t.Fatal(err)
	}
	port, client := must[*party](t)(partyFrom(seeds[:32])), must[*party](t)(partyFrom(seeds[64:]))
	r := &rig{t: t, port: port}
	type state struct {
		rec     epoch.Record
		pending *epoch.CommitRequest
		answers int
	}
	var states [stores]state
	for round := range rounds {
		c := startChild(t, dir)
		dial := func() *remote.Client {
			return r.dialWith(client, func(o *remote.Options) {
				o.URLs, o.Attempts = []string{"https://" + c.addr}, 1
				o.Key = ed25519.NewKeyFromSeed(seeds[32:64]).Public().(ed25519.PublicKey)
			})
		}
		var all sync.WaitGroup
		for i := range states {
			s, id, conn := &states[i], epoch.StoreID{byte(i + 1)}, dial()
			if round == 0 {
				if err := conn.Create(ctx, id); err != nil {
					t.Fatal(err)
				}
				s.rec = must[epoch.OpenReply](t)(conn.Open(ctx, id)).Record
			}
			got := must[epoch.ReadReply](t)(conn.Read(ctx, id)).Record
			if got != s.rec {
				after, err := s.rec.Apply(*s.pending)
				if err != nil || got != after {
					t.Fatalf("round %d, store %d: %+v was answered, %+v found (pending %+v)", round, i, s.rec, got, s.pending)
				}
			}
			all.Go(func() {
				for {
					req := next(s.rec)
					if s.pending != nil {
						req = *s.pending
					}
					s.pending = &req
					if _, err := commit(conn, req); err != nil {
						return
					}
					s.rec, _ = s.rec.Apply(req)
					s.pending = nil
					s.answers++
				}
			})
		}
		time.AfterFunc(time.Duration(5+mathrand.IntN(60))*time.Millisecond, func() { _ = c.cmd.Process.Kill() })
		all.Wait()
		c.kill()
	}
	for i := range states {
		if states[i].answers < rounds {
			t.Errorf("store %d got only %d answers", i, states[i].answers)
		}
	}
	t.Logf("%d kills; answers %d %d %d %d", rounds, states[0].answers, states[1].answers, states[2].answers, states[3].answers)
}
