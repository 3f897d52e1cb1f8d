package command

import (
	"sort"

	"cvmstore/resp/pubsub"
)

func pubsubCommands() []Command {
	const g = "pubsub"
	const f = NoScript | Loading | Stale | NoLevel | PubSub
	const say = Loading | Stale | Fast | NoLevel | PubSub
	const ask = Loading | Stale | NoLevel | PubSub
	return []Command{
		{Name: "subscribe", Arity: -2, Flags: f, Group: g, Since: "2.0.0", Summary: "Listens to channels.", Handler: subscribe(pubsub.Channel)},
		{Name: "unsubscribe", Arity: -1, Flags: f, Group: g, Since: "2.0.0", Summary: "Stops listening to channels, or to all.", Handler: unsubscribe(pubsub.Channel)},
		{Name: "psubscribe", Arity: -2, Flags: f, Group: g, Since: "2.0.0", Summary: "Listens to all channels that match patterns.", Handler: subscribe(pubsub.Pattern)},
		{Name: "punsubscribe", Arity: -1, Flags: f, Group: g, Since: "2.0.0", Summary: "Stops listening to patterns, or to all.", Handler: unsubscribe(pubsub.Pattern)},
		{Name: "ssubscribe", Arity: -2, Flags: f, Group: g, Since: "7.0.0", Summary: "Listens to shard channels.", Handler: subscribe(pubsub.Shard)},
		{Name: "sunsubscribe", Arity: -1, Flags: f, Group: g, Since: "7.0.0", Summary: "Stops listening to shard channels, or to all.", Handler: unsubscribe(pubsub.Shard)},
		{Name: "publish", Arity: 3, Flags: say, Group: g, Since: "2.0.0", Summary: "Sends a message to a channel, and returns how many get it.", Handler: publish(pubsub.Channel)},
		{Name: "spublish", Arity: 3, Flags: say, Group: g, Since: "7.0.0", Summary: "Sends a message to a shard channel, and returns how many get it.", Handler: publish(pubsub.Shard)},
		{Name: "pubsub", Arity: -2, Group: g, Since: "2.8.0", Summary: "Tells who listens to what.", Subs: []Command{
			{Name: "channels", Arity: -2, Flags: ask, Group: g, Since: "2.8.0", Summary: "Lists the channels that somebody listens to.", Handler: channelNames(pubsub.Channel)},
			{Name: "numsub", Arity: -2, Flags: ask, Group: g, Since: "2.8.0", Summary: "Counts who listens to channels, not counting patterns.", Handler: channelCounts(pubsub.Channel)},
			{Name: "numpat", Arity: 2, Flags: ask, Group: g, Since: "2.8.0", Summary: "Counts the patterns that somebody listens to.", Handler: patternCount},
			{Name: "shardchannels", Arity: -2, Flags: ask, Group: g, Since: "7.0.0", Summary: "Lists the shard channels that somebody listens to.", Handler: channelNames(pubsub.Shard)},
			{Name: "shardnumsub", Arity: -2, Flags: ask, Group: g, Since: "7.0.0", Summary: "Counts who listens to shard channels.", Handler: channelCounts(pubsub.Shard)},
		}},
	}
}

// Registry is what PUBSUB asks.
type Registry interface {
	Names(k pubsub.Kind, pattern []byte) []string
	Subscribers(k pubsub.Kind, name string) int
	Count(k pubsub.Kind) int
}

// Messages is the part of Server that publishing and subscribing need.
type Messages interface {
	Subscribe(s *Session, k pubsub.Kind, name []byte)
	Unsubscribe(s *Session, k pubsub.Kind, name []byte)
	UnsubscribeAll(s *Session)
	// Subscribed returns the session's subscriptions in the order in which they were made.
	Subscribed(s *Session, k pubsub.Kind) []string
	// Publish returns how many get the message.
	Publish(c *Ctx, k pubsub.Kind, channel, payload []byte) int
	Registry() Registry
}

// Subscriptions counts all that a session listens to.
func (s *Session) Subscriptions() int {
	return s.Subs[pubsub.Channel] + s.Subs[pubsub.Pattern] + s.Subs[pubsub.Shard]
}

var subscribeWords = [...][2]string{
	pubsub.Channel: {"subscribe", "unsubscribe"}, pubsub.Pattern: {"psubscribe", "punsubscribe"}, pubsub.Shard: {"ssubscribe", "sunsubscribe"},
}

// confirm tells of a subscription that has begun or ended, and how many there are now.
func confirm(c *Ctx, k pubsub.Kind, word int, name []byte, named bool) {
	c.Reply.Push(3)
	c.Reply.String(subscribeWords[k][word])
	c.Reply.BulkOrNull(name, named)
	n := c.S.Subs[pubsub.Channel] + c.S.Subs[pubsub.Pattern]
	if k == pubsub.Shard {
		n = c.S.Subs[k]
	}
	c.Reply.Int(int64(n))
	c.Pushes = true
}

func subscribe(k pubsub.Kind) func(*Ctx) error {
	return func(c *Ctx) error {
		if c.Multi && k == pubsub.Shard {
			return Error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
		}
		for _, name := range c.Args[1:] {
			c.Srv.Subscribe(c.S, k, name)
			confirm(c, k, 0, name, true)
		}
		return nil
	}
}

func unsubscribe(k pubsub.Kind) func(*Ctx) error {
	return func(c *Ctx) error {
		names := c.Args[1:]
		if len(names) == 0 {
			for _, n := range c.Srv.Subscribed(c.S, k) {
				names = append(names, []byte(n))
			}
			if len(names) == 0 {
				confirm(c, k, 1, nil, false)
			}
		}
		for _, name := range names {
			c.Srv.Unsubscribe(c.S, k, name)
			confirm(c, k, 1, name, true)
		}
		return nil
	}
}

func publish(k pubsub.Kind) func(*Ctx) error {
	return func(c *Ctx) error {
		c.Reply.Int(int64(c.Srv.Publish(c, k, c.Args[1], c.Args[2])))
		return nil
	}
}

func channelNames(k pubsub.Kind) func(*Ctx) error {
	return func(c *Ctx) error {
		var pattern []byte
		switch len(c.Args) {
		case 2:
		case 3:
			pattern = c.Args[2]
		default:
			return unknownSubcommand(c)
		}
		names := c.Srv.Registry().Names(k, pattern)
		sort.Strings(names)
		c.Reply.Array(len(names))
		for _, n := range names {
			c.Reply.String(n)
		}
		return nil
	}
}

func unknownSubcommand(c *Ctx) Error {
	return Error("ERR unknown subcommand or wrong number of arguments for '" + clip(c.Args[1], 128) + "'. Try PUBSUB HELP.")
}

func channelCounts(k pubsub.Kind) func(*Ctx) error {
	return func(c *Ctx) error {
		names := c.Args[2:]
		c.Reply.Array(2 * len(names))
		for _, n := range names {
			c.Reply.Bulk(n)
			c.Reply.Int(int64(c.Srv.Registry().Subscribers(k, string(n))))
		}
		return nil
	}
}

func patternCount(c *Ctx) error {
	c.Reply.Int(int64(c.Srv.Registry().Count(pubsub.Pattern)))
	return nil
}
