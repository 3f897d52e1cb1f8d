package etcdstore

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdPath builds etcd's server from the module in tools/etcd. Go's cache makes that half a minute once.
func etcdPath(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs an etcd cluster")
	}
	path := filepath.Join(t.TempDir(), "etcd")
	build := exec.Command("go", "build", "-o", path, "go.etcd.io/etcd/server/v3")
	build.Dir = "../../tools/etcd"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build etcd: %v\n%s", err, out)
	}
	return path
}

// cluster is three real members on loopback.
type cluster struct {
	t       *testing.T
	program string
	dir     string
	client  []string // addresses
	peer    []string
	running []*exec.Cmd
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, program: etcdPath(t), dir: t.TempDir(), running: make([]*exec.Cmd, 3)}
	var held []net.Listener
	for i := range 6 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, ln)
		if i < 3 {
			c.client = append(c.client, ln.Addr().String())
		} else {
			c.peer = append(c.peer, ln.Addr().String())
		}
	}
	for _, ln := range held {
		_ = ln.Close()
	}
	for i := range 3 {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range 3 {
			c.kill(i)
		}
	})
	c.leader()
	return c
}

// start starts a member, on its old data if it has some.
func (c *cluster) start(i int) {
	c.t.Helper()
	var members []string
	for j, p := range c.peer {
		members = append(members, fmt.Sprintf("m%d=http://%s", j, p))
	}
	name := fmt.Sprintf("m%d", i)
	cmd := exec.Command(c.program, "--name", name, "--data-dir", filepath.Join(c.dir, name),
		"--listen-client-urls", "http://"+c.client[i], "--advertise-client-urls", "http://"+c.client[i],
		"--listen-peer-urls", "http://"+c.peer[i], "--initial-advertise-peer-urls", "http://"+c.peer[i],
		"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new", "--log-level", "error",
		"--heartbeat-interval", "50", "--election-timeout", "500")
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the child has it
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.running[i] = cmd
}

// kill is kill -9.
func (c *cluster) kill(i int) {
	if cmd := c.running[i]; cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c.running[i] = nil
	}
}

func (c *cluster) pause(i int)  { _ = c.running[i].Process.Signal(syscall.SIGSTOP) }
func (c *cluster) resume(i int) { _ = c.running[i].Process.Signal(syscall.SIGCONT) }

// leader waits until the members that run have one, and returns its number.
func (c *cluster) leader() int {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		for i, cmd := range c.running {
			if cmd == nil {
				continue
			}
			if s, err := c.status(i); err == nil && s.Leader == s.Header.MemberId {
				return i
			}
		}
	}
	c.t.Fatal("the cluster has no leader after a minute")
	return -1
}

func (c *cluster) status(i int) (*clientv3.StatusResponse, error) {
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{c.client[i]}, DialTimeout: time.Second})
	if err != nil {
		return nil, err
	}
	defer cl.Close() //nolint:errcheck // only asked
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return cl.Status(ctx, c.client[i])
}

// moveLeader has the leader hand over to another member.
func (c *cluster) moveLeader(from, to int) {
	c.t.Helper()
	s, err := c.status(to)
	if err != nil {
		c.t.Fatal(err)
	}
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{c.client[from]}, DialTimeout: 5 * time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close() //nolint:errcheck // only asked
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := cl.MoveLeader(ctx, s.Header.MemberId); err != nil {
		c.t.Fatal(err)
	}
}
