package command

import (
	"fmt"
	"slices"
	"strings"
)

// eventNames lists the events. The lock is held.
func (o *Observed) eventNames() []string {
	names := make([]string, 0, len(o.events))
	for name := range o.events {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func latencyLatest(c *Ctx) error {
	o := c.Srv.Observed()
	o.mu.Lock()
	defer o.mu.Unlock()
	names := o.eventNames()
	c.Reply.Array(len(names))
	for _, name := range names {
		e := o.events[name]
		last := e.samples[len(e.samples)-1]
		c.Reply.Array(4)
		c.Reply.String(name)
		c.Reply.Int(last.at)
		c.Reply.Int(last.ms)
		c.Reply.Int(e.max)
	}
	return nil
}

func latencyHistory(c *Ctx) error {
	o := c.Srv.Observed()
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.events[string(c.Args[2])]
	if e == nil {
		c.Reply.Array(0)
		return nil
	}
	c.Reply.Array(len(e.samples))
	for _, s := range e.samples {
		c.Reply.Array(2)
		c.Reply.Int(s.at)
		c.Reply.Int(s.ms)
	}
	return nil
}

func latencyReset(c *Ctx) error {
	o := c.Srv.Observed()
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	if len(c.Args) == 2 {
		n = len(o.events)
		o.events = nil
	}
	for _, name := range c.Args[2:] {
		if o.events[string(name)] != nil {
			delete(o.events, string(name))
			n++
		}
	}
	c.Reply.Int(int64(n))
	return nil
}

func latencyGraph(c *Ctx) error {
	o := c.Srv.Observed()
	o.mu.Lock()
	defer o.mu.Unlock()
	name := string(c.Args[2])
	e := o.events[name]
	if e == nil {
		return Error("ERR No samples available for event '" + clip(c.Args[2], 128) + "'")
	}
	high, low := int64(0), e.samples[0].ms
	for _, s := range e.samples {
		high, low = max(high, s.ms), min(low, s.ms)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n%s\n", name, high, low, e.max, strings.Repeat("-", 80))
	marks := []rune(" _-`")
	for row := 3; row >= 0; row-- {
		for _, s := range e.samples {
			level := int64(0)
			if high > low {
				level = (s.ms - low) * 15 / (high - low)
			}
			switch level -= int64(row) * 4; {
			case level < 0:
				b.WriteByte(' ')
			case level > 3:
				b.WriteByte('|')
			default:
				b.WriteRune(marks[level])
			}
		}
		b.WriteByte('\n')
	}
	c.Reply.Verbatim("txt", b.String())
	return nil
}

func latencyDoctor(c *Ctx) error {
	o := c.Srv.Observed()
	o.mu.Lock()
	defer o.mu.Unlock()
	threshold := "0"
	c.Srv.ConfigGet([][]byte{[]byte("latency-monitor-threshold")}, func(_, v string) { threshold = v })
	var b strings.Builder
	switch {
	case len(o.events) == 0 && threshold == "0":
		b.WriteString("Latency monitoring is disabled. Turn it on with CONFIG SET latency-monitor-threshold <milliseconds>.\n")
	case len(o.events) == 0:
		b.WriteString("No event took as long as latency-monitor-threshold: nothing to report.\n")
	}
	for i, name := range o.eventNames() {
		e := o.events[name]
		fmt.Fprintf(&b, "%d. %s: %d samples, worst %d ms.\n", i+1, name, len(e.samples), e.max)
	}
	if len(o.events) > 0 {
		b.WriteString("SLOWLOG GET tells which commands were slow. What waits for the device or the counter is not counted here: see INFO cvm.\n")
	}
	c.Reply.Verbatim("txt", b.String())
	return nil
}

func latencyHistogram(c *Ctx) error {
	wanted := map[*Command]bool{}
	for _, name := range c.Args[2:] {
		cmd := byFullName(name)
		if cmd == nil {
			continue
		}
		wanted[cmd] = true
		for i := range cmd.Subs {
			wanted[&cmd.Subs[i]] = true
		}
	}
	type row struct {
		name  string
		calls uint64
		upTo  []int64 // microseconds, calls
	}
	var rows []row
	c.Srv.Latencies(func(cmd *Command, buckets *[Buckets]uint64) {
		if len(c.Args) > 2 && !wanted[cmd] {
			return
		}
		r := row{name: cmd.Full()}
		for i, n := range buckets {
			if n > 0 {
				r.calls += n
				r.upTo = append(r.upTo, 1<<i, int64(r.calls))
			}
		}
		rows = append(rows, r)
	})
	c.Reply.Map(len(rows))
	for _, r := range rows {
		c.Reply.String(r.name)
		c.Reply.Map(2)
		c.Reply.String("calls")
		c.Reply.Int(int64(r.calls))
		c.Reply.String("histogram_usec")
		c.Reply.Map(len(r.upTo) / 2)
		for _, n := range r.upTo {
			c.Reply.Int(n)
		}
	}
	return nil
}
