package resp

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"cvmstore/keyspace"
	"cvmstore/resp/command"
	"cvmstore/volume"
)

// What the keyspace tells of its keys. It tells under the key's lock, so the events are only written down there; when the
// command has ended and nothing is locked, some loop settles them: it sends notifications and invalidations, and serves who
// waits for a key. What is told of a change carries the change's counter and waits for it like a reply.

// keyEvent is a keyspace.Event that is kept.
type keyEvent struct {
	db      int
	key     []byte
	name    string
	counter volume.Counter
	number  uint64 // of the event, in the order in which they happened
	origin  uint64 // the session that caused it; 0: none
	whole   bool   // of the whole database
	change  bool
}

// events are those that nobody has settled yet.
type events struct {
	sync.Mutex
	list     []keyEvent
	some     atomic.Bool
	number   atomic.Uint64
	settling sync.Mutex
}

// onEvent is the keyspace's observer.
func (srv *Server) onEvent(e keyspace.Event) {
	if e.Change && srv.waited(&e) {
		srv.events.some.Store(true)
	}
	if !srv.interested(&e) {
		return
	}
	srv.events.Lock()
	key, whole := keptKey(e.Key)
	srv.events.list = append(srv.events.list, keyEvent{e.DB, key, e.Name, e.Counter, srv.events.number.Add(1), originOf(e.Name, e.Origin), whole, e.Change})
	srv.events.Unlock()
	srv.events.some.Store(true)
}

// waited reports whether an event is what a client waits for.
func (srv *Server) waited(e *keyspace.Event) bool {
	if e.Key == nil {
		return (e.Name == "swapdb" || e.Name == "flushdb") && srv.waits.changedAll(e.DB)
	}
	return srv.waits.changed(e.DB, e.Key)
}

// interested reports whether anybody has use for an event.
func (srv *Server) interested(e *keyspace.Event) bool {
	return srv.tracking.some.Load() > 0 || e.Key != nil && srv.config.Load().Notify.wants(e.Name)
}

// settle passes on what has happened to keys. No transaction of this loop is under way.
func (l *loop) settle() {
	if l.settling || !l.srv.events.some.Load() {
		return
	}
	l.settling = true
	for l.srv.events.some.Load() { // serving makes more
		l.settleEvents()
		l.serveReady()
	}
	l.settling = false
}

func (l *loop) settleEvents() {
	srv := l.srv
	srv.events.settling.Lock() // one at a time, so that events stay in order
	srv.events.Lock()
	list := srv.events.list
	srv.events.list = nil
	srv.events.some.Store(false)
	srv.events.Unlock()
	for i := range list {
		if e := &list[i]; !e.whole {
			l.notifyEvent(e)
		}
	}
	l.invalidate(list)
	srv.events.settling.Unlock()
}

// notifyEvent publishes an event on the channels that Redis has for it.
func (l *loop) notifyEvent(e *keyEvent) {
	n := l.srv.config.Load().Notify
	if !n.wants(e.name) {
		return
	}
	db := strconv.Itoa(e.db)
	if n&notifyKeyspace != 0 {
		l.publish(&message{channel: append([]byte("__keyspace@"+db+"__:"), e.key...), payload: []byte(e.name), seen: e.counter})
	}
	if n&notifyKeyevent != 0 {
		l.publish(&message{channel: []byte("__keyevent@" + db + "__:" + e.name), payload: e.key, seen: e.counter})
	}
}

// keymiss tells of keys that a reading command has looked for in vain.
func (l *loop) keymiss(c *command.Ctx, seen volume.Counter) {
	for _, k := range c.Tx.Absent() {
		l.notifyEvent(&keyEvent{db: c.S.DB, key: bytes.Clone(k), name: "keymiss", counter: seen})
	}
}

// noteMisses keeps, of one command of EXEC, what keymiss will tell.
func (m *transaction) noteMisses(c *command.Ctx) {
	for _, k := range c.Tx.Absent() {
		m.missed = append(m.missed, keyEvent{db: c.S.DB, key: bytes.Clone(k), name: "keymiss"})
	}
}

// tellsOfMisses reports whether a command's misses are told: not those of commands that ask about a key.
func (l *loop) tellsOfMisses(cmd *command.Command) bool {
	if l.config.Notify&notifyMiss == 0 || cmd.Flags&command.ReadOnly == 0 || cmd.Locks != command.LockKeys {
		return false
	}
	return cmd.Group != "server" && !strings.HasPrefix(cmd.Full(), "object|")
}

// notifyFlags are the classes of notify-keyspace-events.
type notifyFlags uint32

const (
	notifyKeyspace notifyFlags = 1 << iota
	notifyKeyevent
	notifyGeneric
	notifyString
	notifyList
	notifySet
	notifyHash
	notifyZSet
	notifyExpired
	notifyEvicted
	notifyStream
	notifyModule
	notifyNew
	notifyMiss

	// notifyAll is "A": all but new keys and misses.
	notifyAll = notifyGeneric | notifyString | notifyList | notifySet | notifyHash | notifyZSet | notifyExpired | notifyEvicted | notifyStream | notifyModule
)

// notifyLetters in the order in which Redis writes them.
var notifyLetters = []struct {
	letter byte
	flag   notifyFlags
}{
	{'g', notifyGeneric},
	{'$', notifyString},
	{'l', notifyList},
	{'s', notifySet},
	{'h', notifyHash},
	{'z', notifyZSet},
	{'x', notifyExpired},
	{'e', notifyEvicted},
	{'t', notifyStream},
	{'d', notifyModule},
	{'n', notifyNew},
	{'K', notifyKeyspace},
	{'E', notifyKeyevent},
	{'m', notifyMiss},
}

func parseNotify(s string) (f notifyFlags, err error) {
next:
	for i := range len(s) {
		if s[i] == 'A' {
			f |= notifyAll
			continue
		}
		for _, x := range notifyLetters {
			if x.letter == s[i] {
				f |= x.flag
				continue next
			}
		}
		return 0, command.Error("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
	}
	return f, nil
}

func (f notifyFlags) String() string {
	var b []byte
	all := f&notifyAll == notifyAll
	if all {
		b = append(b, 'A')
	}
	for _, x := range notifyLetters {
		if f&x.flag != 0 && !(all && (notifyAll|notifyNew)&x.flag != 0) {
			b = append(b, x.letter)
		}
	}
	return string(b)
}

// wants reports whether anything is published about an event.
func (f notifyFlags) wants(event string) bool {
	return f&(notifyKeyspace|notifyKeyevent) != 0 && f&classOf(event) != 0
}

// classOf returns the class of an event: what does not belong to a type is generic.
func classOf(event string) notifyFlags {
	switch event {
	case "set", "setrange", "append", "incrby", "incrbyfloat", "setbit", "pfadd":
		return notifyString
	case "expired":
		return notifyExpired
	case "evicted":
		return notifyEvicted
	case "new":
		return notifyNew
	case "keymiss":
		return notifyMiss
	case "sortstore", "linsert", "lset", "lrem", "ltrim", "lpush", "rpush", "lpop", "rpop":
		return notifyList
	case "spop", "sadd", "srem", "sinterstore", "sunionstore", "sdiffstore":
		return notifySet
	case "georadiusstore", "geosearchstore":
		return notifyZSet
	}
	switch first := (event + " ")[0]; first {
	case ' ': // a change that nobody is told of
		return 0
	case 'h':
		return notifyHash
	case 'z':
		return notifyZSet
	case 'x':
		return notifyStream
	}
	return notifyGeneric
}

func notifyParam() Param {
	return Param{
		Name: "notify-keyspace-events", Kind: KindString, Mutable: true,
		Help: "Classes of events that are published about keys, as in redis.conf (K, E, g, $, l, s, h, z, x, e, t, d, n, m, A); empty: none.",
		get:  func(c *Config) string { return c.Notify.String() },
		set: func(c *Config, s string) (err error) {
			c.Notify, err = parseNotify(s)
			return err
		},
	}
}
