package command

import (
	"sort"
	"strings"
)

// Tracking is a session's client-side caching.
type Tracking struct {
	On        bool
	Broadcast bool // told of all keys with its prefixes, whether it has read them or not
	OptIn     bool // only keys read just after CLIENT CACHING YES
	OptOut    bool // all but those read just after CLIENT CACHING NO
	NoLoop    bool // not told of its own changes
	Caching   bool // CLIENT CACHING was said for the command that comes next
	Broken    bool // the session that it redirects to has gone
	Redirect  uint64
	Prefixes  []string
}

// Trackers is the part of Server that client-side caching needs.
type Trackers interface {
	Track(c *Ctx, o Tracking) error
	Untrack(*Session)
	TrackedTotals() (clients, keys, items, prefixes int)
}

func clientTracking(c *Ctx) error {
	o, err := trackingOptions(c.Args[3:])
	if err != nil {
		return err
	}
	switch {
	case equalFold(c.Args[2], "off"):
		c.Srv.Untrack(c.S)
	case equalFold(c.Args[2], "on"):
		if err := o.compatible(&c.S.Tracking); err != nil {
			return err
		}
		if o.Broadcast && len(o.Prefixes) == 0 {
			o.Prefixes = []string{""}
		}
		if err := c.Srv.Track(c, o); err != nil {
			return err
		}
	default:
		return errSyntax
	}
	c.Reply.OK()
	return nil
}

func trackingOptions(args [][]byte) (o Tracking, err error) {
	for i := 0; i < len(args); i++ {
		more := i+1 < len(args)
		switch a := args[i]; {
		case equalFold(a, "redirect") && more:
			i++
			if o.Redirect != 0 {
				return o, Error("ERR A client can only redirect to a single other client")
			}
			id, err := parseInt(args[i])
			if err != nil {
				return o, err
			}
			if id <= 0 {
				return o, Error("ERR The client ID you want redirect to does not exist")
			}
			o.Redirect = uint64(id)
		case equalFold(a, "prefix") && more:
			i++
			o.Prefixes = append(o.Prefixes, string(args[i]))
		case equalFold(a, "bcast"):
			o.Broadcast = true
		case equalFold(a, "optin"):
			o.OptIn = true
		case equalFold(a, "optout"):
			o.OptOut = true
		case equalFold(a, "noloop"):
			o.NoLoop = true
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

// compatible says what stands against options, with each other and with what the session does already.
func (o *Tracking) compatible(now *Tracking) error {
	switch {
	case !o.Broadcast && len(o.Prefixes) > 0:
		return Error("ERR PREFIX option requires BCAST mode to be enabled")
	case now.On && now.Broadcast != o.Broadcast:
		return Error("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.")
	case o.Broadcast && (o.OptIn || o.OptOut):
		return Error("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case o.OptIn && o.OptOut:
		return Error("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case o.OptIn && now.OptOut, o.OptOut && now.OptIn:
		return Error("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	}
	overlap := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	for i, p := range o.Prefixes {
		for _, q := range now.Prefixes {
			if overlap(p, q) {
				return Error("ERR Prefix '" + p + "' overlaps with an existing prefix '" + q + "'. Prefixes for a single client must not overlap.")
			}
		}
		for _, q := range o.Prefixes[i+1:] {
			if overlap(p, q) {
				return Error("ERR Prefix '" + p + "' overlaps with another provided prefix '" + q + "'. Prefixes for a single client must not overlap.")
			}
		}
	}
	return nil
}

func clientCaching(c *Ctx) error {
	t := &c.S.Tracking
	switch {
	case !t.On:
		return Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case equalFold(c.Args[2], "yes"):
		if !t.OptIn {
			return Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
		}
	case equalFold(c.Args[2], "no"):
		if !t.OptOut {
			return Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
		}
	default:
		return errSyntax
	}
	t.Caching = true
	c.Reply.OK()
	return nil
}

// redirection is what CLIENT GETREDIR answers: -1 without tracking, 0 without redirection.
func (t *Tracking) redirection() int64 {
	if !t.On {
		return -1
	}
	return int64(t.Redirect)
}

func clientGetRedir(c *Ctx) error {
	c.Reply.Int(c.S.Tracking.redirection())
	return nil
}

func clientTrackingInfo(c *Ctx) error {
	t := &c.S.Tracking
	flags := []string{"off"}
	if t.On {
		flags[0] = "on"
	}
	for _, f := range []struct {
		on   bool
		name string
	}{
		{t.Broadcast, "bcast"},
		{t.OptIn, "optin"},
		{t.OptIn && t.Caching, "caching-yes"},
		{t.OptOut, "optout"},
		{t.OptOut && t.Caching, "caching-no"},
		{t.NoLoop, "noloop"},
		{t.Broken, "broken_redirect"},
	} {
		if f.on {
			flags = append(flags, f.name)
		}
	}
	c.Reply.Map(3)
	c.Reply.String("flags")
	c.Reply.Set(len(flags))
	for _, f := range flags {
		c.Reply.String(f)
	}
	c.Reply.String("redirect")
	c.Reply.Int(t.redirection())
	c.Reply.String("prefixes")
	sort.Strings(t.Prefixes)
	c.Reply.Array(len(t.Prefixes))
	for _, p := range t.Prefixes {
		c.Reply.String(p)
	}
	return nil
}
