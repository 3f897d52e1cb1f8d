package resp

import (
	"strings"
	"testing"

	"cvmstore/epoch/epochtest"
)

func TestMonitorShowsCommandsButNoPasswords(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = 2 }})
	m, c := r.dial(), r.dial()
	m.want("+OK\r\n", "MONITOR")
	if got := r.dial().do("INFO", "clients"); !strings.Contains(got, "monitoring_clients:1") {
		t.Errorf("INFO clients: %q", got)
	}
	c.do("SET", "k\x00\"", "v\n")
	c.do("AUTH", "default", "secret")
	c.do("HELLO", "2", "AUTH", "default", "secret")
	c.do("CONFIG", "GET", "port")
	c.do("GET", "k")
	for _, want := range []string{`"INFO" "clients"`, `"SET" "k\x00\"" "v\n"`, `"AUTH" "(redacted)" "(redacted)"`, `"HELLO" "2" "AUTH" "(redacted)" "(redacted)"`, `"GET" "k"`} {
		got := m.reply()
		if !strings.HasSuffix(got, "] "+want+"\r\n") || !strings.Contains(got, " [0 127.0.0.1:") {
			t.Errorf("shown: %q, want %q", got, want)
		}
	}
	m.want("+RESET\r\n", "RESET")
}

// What MONITOR shows waits for its level: a write that is not committed may never have been.
func TestMonitorWaitsForItsLevel(t *testing.T) {
	r := newRig(t, rigOptions{counter: epochtest.Options{Async: true}})
	m, c, d := r.dial(), r.dial(), r.dial()
	m.want("+OK\r\n", "MONITOR")
	d.want("+OK\r\n", "CVM.DURABILITY", "durable")
	if got := m.reply(); !strings.Contains(got, "CVM.DURABILITY") {
		t.Fatalf("shown: %q", got)
	}
	c.send(wire("SET", "a", "1"))
	for d.do("GET", "a") != bulk("1") { // durable readers see it
	}
	if !strings.Contains(d.do("CLIENT", "LIST"), "flags=O") {
		t.Error("the monitor has no flag")
	}
	r.srv.loops[0].post(func(l *loop) {
		for _, s := range l.sessions {
			if s.Monitor && len(s.marks) == 0 {
				t.Error("the write is shown before it is committed")
			}
		}
	})
	d.want("+PONG\r\n", "PING")
	go r.deliver()
	if got := c.reply(); got != "+OK\r\n" {
		t.Errorf("SET: %q", got)
	}
	if got := m.reply(); !strings.Contains(got, `"SET" "a" "1"`) && !strings.Contains(got, `"GET" "a"`) {
		t.Errorf("shown: %q", got)
	}
}

func TestSlowlogAndLatency(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.DebugCommand = "local" }})
	c := r.dial()
	c.steps([]step{
		{"SLOWLOG LEN", ":0\r\n"},
		{"CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2 latency-monitor-threshold 20", "+OK\r\n"},
		{"SLOWLOG RESET", "+OK\r\n"},
		{"PING", "+PONG\r\n"},
		{"AUTH default secret", "+OK\r\n"},
		{"CONFIG SET slowlog-log-slower-than -1", "+OK\r\n"},
		{"SLOWLOG LEN", ":2\r\n"},
		{"SLOWLOG GET -2", "-ERR count should be greater than or equal to -1\r\n"},
		{"SLOWLOG GET 0", "*0\r\n"},
	})
	got := c.do("SLOWLOG", "GET", "-1")
	if !strings.HasPrefix(got, "*2\r\n*6\r\n") || !strings.Contains(got, "*3\r\n"+bulk("AUTH")+bulk("(redacted)")+bulk("(redacted)")) || strings.Contains(got, "secret") {
		t.Errorf("SLOWLOG GET: %q", got)
	}
	c.want("+OK\r\n", "DEBUG", "SLEEP", "0.03")
	if got := c.do("LATENCY", "LATEST"); !strings.HasPrefix(got, "*1\r\n*4\r\n"+bulk("command")+":") {
		t.Errorf("LATENCY LATEST: %q", got)
	}
	if got := c.do("LATENCY", "HISTORY", "command"); !strings.HasPrefix(got, "*1\r\n*2\r\n:") {
		t.Errorf("LATENCY HISTORY: %q", got)
	}
	if got := c.do("LATENCY", "GRAPH", "command"); !strings.Contains(got, "command - high") {
		t.Errorf("LATENCY GRAPH: %q", got)
	}
	if got := c.do("LATENCY", "DOCTOR"); !strings.Contains(got, "worst") {
		t.Errorf("LATENCY DOCTOR: %q", got)
	}
	c.want("-ERR No samples available for event 'x'\r\n", "LATENCY", "GRAPH", "x")
	if got := c.do("LATENCY", "HISTOGRAM", "ping", "nosuch"); !strings.HasPrefix(got, "*2\r\n"+bulk("ping")+"*4\r\n"+bulk("calls")+":1\r\n"+bulk("histogram_usec")) {
		t.Errorf("LATENCY HISTOGRAM: %q", got)
	}
	c.want(":1\r\n", "LATENCY", "RESET")
	c.want("*0\r\n", "LATENCY", "LATEST")
}
