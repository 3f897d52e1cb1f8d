package resp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

// quiet checks that no reply comes for a moment. It can only miss a fault, never see one that is not there.
func (c *client) quiet() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if b, err := c.r.Peek(1); err == nil {
		c.t.Errorf("a reply came early: %q", b)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
}

// TestLevels holds the counter's answers back: durable and everysec replies leave, fresh ones wait, on every connection that sees
// what is not committed (DESIGN.md 4.1, 4.3).
func TestLevels(t *testing.T) {
	r := newRig(t, rigOptions{counter: epochtest.Options{Async: true}})
	fresh, durable, second := r.dial(), r.dial(), r.dial()
	durable.want("+OK\r\n", "CVM.DURABILITY", "durable")
	second.want("+OK\r\n", "CVM.DURABILITY", "everysec")
	fresh.want("$-1\r\n", "GET", "none") // nothing uncommitted was seen
	durable.want("+OK\r\n", "SET", "a", "1")
	second.want(bulk("1"), "GET", "a")
	fresh.send(wire("GET", "a"))
	fresh.quiet()
	fresh.send(wire("PING")) // stays behind the reply before it
	fresh.quiet()
	durable.want(":0\r\n", "WAIT", "1", "20")
	durable.want("*2\r\n:1\r\n:0\r\n", "WAITAOF", "1", "0", "0")
	durable.send(wire("WAIT", "1", "0"))
	durable.quiet()
	r.deliver()
	for _, want := range []string{bulk("1"), "+PONG\r\n"} {
		if got := fresh.reply(); got != want {
			t.Errorf("after the commit: got %q, want %q", got, want)
		}
	}
	if got := durable.reply(); got != ":1\r\n" {
		t.Errorf("WAIT: %q", got)
	}
}

// TestUncertain: the counter never answers. Waiting replies become errors of their own; what is committed is still read.
func TestUncertain(t *testing.T) {
	r := newRig(t, rigOptions{counter: epochtest.Options{Async: true}, config: func(c *Config) { c.ReplyTimeout = 300 }})
	c := r.dial()
	c.send(wire("SET", "a", "1") + wire("PING") + wire("SET", "b", "1") + wire("GET", "none"))
	for i, want := range []string{"-UNCERTAIN outcome unknown", "+PONG", "-UNCERTAIN outcome unknown", "$-1"} {
		if got := c.reply(); !strings.HasPrefix(got, want) {
			t.Errorf("reply %d: %q", i, got)
		}
	}
	c.want("$-1\r\n", "GET", "none")
}

// TestFailStop: after a failed write, replies that wait become errors, writes are refused, durable keys are read (DESIGN.md 4.5).
func TestFailStop(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	c.want("+OK\r\n", "SET", "good", "1")
	broken := errors.New("injected")
	r.dev.SetFault(func(q memdev.Request) memdev.Fault {
		if q.Op == device.OpWrite || q.Op == device.OpFlush {
			return memdev.Fault{Err: broken}
		}
		return memdev.Fault{}
	})
	for _, cmd := range [][]string{{"SET", "bad", "1"}, {"SET", "bad2", "1"}, {"GET", "bad"}, {"INCR", "good"}} {
		if got := c.do(cmd...); !strings.HasPrefix(got, "-IOERR ") {
			t.Errorf("%v: %q", cmd, got)
		}
	}
	c.want(bulk("1"), "GET", "good")
	if got := c.do("INFO"); !strings.Contains(got, "aof_last_write_status:err") {
		t.Errorf("INFO: %q", got)
	}
	if got := c.do("CVM.STATUS"); !strings.Contains(got, "injected") {
		t.Errorf("CVM.STATUS: %q", got)
	}
}

// TestReadsFromTheDevice keeps no values in memory, so every GET misses, is fetched and runs again.
func TestReadsFromTheDevice(t *testing.T) {
	r := newRig(t, rigOptions{cacheBytes: -1})
	c := r.dial()
	value := func(i int) string { return strings.Repeat(fmt.Sprint(i), 1000) }
	const n = 300
	for i := range n {
		c.want("+OK\r\n", "SET", fmt.Sprint("k", i), value(i))
	}
	var raw strings.Builder
	for i := range n {
		raw.WriteString(wire("GET", fmt.Sprint("k", i)))
	}
	c.send(raw.String() + wire("MGET", "k1", "none", "k299", "k1") + wire("APPEND", "k5", "x") + wire("PING"))
	for i := range n {
		if got := c.reply(); got != bulk(value(i)) {
			t.Fatalf("k%d: %.60q", i, got)
		}
	}
	if got := c.reply(); got != "*4\r\n"+bulk(value(1))+"$-1\r\n"+bulk(value(299))+bulk(value(1)) {
		t.Errorf("MGET: %.60q", got)
	}
	for _, want := range []string{fmt.Sprintf(":%d\r\n", len(value(5))+1), "+PONG\r\n"} {
		if got := c.reply(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestShutdownDrains: what is acknowledged at shutdown has reached its level, and the client gets it.
func TestShutdownDrains(t *testing.T) {
	r := newRig(t, rigOptions{counter: epochtest.Options{Async: true}})
	c := r.dial()
	c.send(wire("SET", "a", "1"))
	c.quiet()
	ended := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ended <- r.srv.Shutdown(ctx)
	}()
	c.quiet()
	defer r.delivering()()
	if got := c.reply(); got != "+OK\r\n" {
		t.Errorf("got %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	c.closed()
	r.srv = nil
}

func TestShutdownCommand(t *testing.T) {
	asked := make(chan struct{})
	r := newRig(t, rigOptions{onShutdown: func() { close(asked) }})
	r.dial().send(wire("SHUTDOWN", "NOSAVE"))
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Fatal("SHUTDOWN asked for nothing")
	}
}

func TestReplyModes(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.send(wire("CLIENT", "REPLY", "SKIP") + wire("SET", "a", "1") + wire("GET", "a"))
	if got := c.reply(); got != bulk("1") {
		t.Errorf("after SKIP: %q", got)
	}
	c.send(wire("CLIENT", "REPLY", "OFF") + wire("SET", "a", "2") + wire("CLIENT", "REPLY", "ON"))
	if got := c.reply(); got != "+OK\r\n" {
		t.Errorf("after ON: %q", got)
	}
	c.want(bulk("2"), "GET", "a")
}
