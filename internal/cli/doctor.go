package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"
)

// doctorCommand looks at what the machine offers.
type doctorCommand struct {
	Counter string `name:"counter" placeholder:"URL" help:"The trusted counter service, to see whether it can be reached."`
}

// finding is one thing that was looked at.
type finding struct {
	what string
	ok   bool
	seen string
	todo string // if it is not ok
}

// dialTimeout bounds the look at the counter service.
const dialTimeout = 5 * time.Second

// Run prints a line for each thing, and what to do for each that is missing. What is missing is no error: much of it is optional.
func (d *doctorCommand) Run(s *streams) error {
	missing := 0
	for _, f := range append(machine(), d.counter()...) {
		mark := "ok     "
		if !f.ok {
			mark, missing = "missing", missing+1
		}
		if _, err := fmt.Fprintf(s.out, "%s  %-16s %s\n", mark, f.what, f.seen); err != nil {
			return err
		}
		if !f.ok {
			fmt.Fprintf(s.out, "         %-16s %s\n", "", f.todo)
		}
	}
	_, err := fmt.Fprintf(s.out, "%d missing\n", missing)
	return err
}

func (d *doctorCommand) counter() []finding {
	if d.Counter == "" {
		return nil
	}
	f := finding{what: "counter", todo: "Look at the address, the service, and the firewall between."}
	u, err := url.Parse(d.Counter)
	if err != nil || u.Host == "" {
		f.seen = "not an address: " + d.Counter
		return []finding{f}
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	start := time.Now()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		f.seen = err.Error()
		return []finding{f}
	}
	_ = c.Close()
	f.ok, f.seen = true, fmt.Sprintf("%s answers within %v", u.Host, time.Since(start).Round(time.Microsecond))
	return []finding{f}
}
