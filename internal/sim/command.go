package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cvmstore/keyspace"
	"cvmstore/kvs"
)

// verb is a kind of command.
type verb uint8

const (
	vSet verb = iota
	vSetNX
	vSetXX
	vSetGet
	vSetEx
	vSetKeepTTL
	vGet
	vGetDel
	vStrLen
	vIncrBy
	vAppend
	vMSet
	vMSetNX
	vMGet
	vDel
	vExists
	vExpire
	vPersist
	vTTL
	vMulti
	vDBSize
	vKeys
	vScan
	vFlushDB
	vFlushAll
	verbs
)

var verbNames = [verbs]string{
	"SET", "SET NX", "SET XX", "SET GET", "SET PX", "SET KEEPTTL", "GET", "GETDEL", "STRLEN", "INCRBY", "APPEND", "MSET", "MSETNX",
	"MGET", "DEL", "EXISTS", "PEXPIRE", "PERSIST", "PEXPIRETIME", "MULTI", "DBSIZE", "KEYS", "SCAN", "FLUSHDB", "FLUSHALL",
}

// command is one command of one client.
type command struct {
	verb  verb
	db    int
	keys  [][]byte
	vals  [][]byte
	delta int64
	ttl   int64 // ms from now
	call  int64 // sequence number of the event
	tx    *transaction
}

func (c *command) String() string {
	s := fmt.Sprintf("%s db%d %q", verbNames[c.verb], c.db, c.keys)
	for _, v := range c.vals {
		s += fmt.Sprintf(" %.12q(%d)", v, len(v))
	}
	if c.tx != nil {
		for _, p := range c.tx.parts {
			s += "; " + p.String()
		}
	}
	if c.verb == vIncrBy {
		s += fmt.Sprintf(" %d", c.delta)
	}
	if c.verb == vExpire || c.verb == vSetEx {
		s += fmt.Sprintf(" %d ms", c.ttl)
	}
	return s
}

// all says whether the command is on whole databases.
func (c *command) all() bool { return c.verb >= vDBSize }

// weights of the verbs, in a hundred or so.
var weights = [verbs]int{
	vSet: 26, vSetNX: 3, vSetXX: 3, vSetGet: 2, vSetEx: 5, vSetKeepTTL: 1, vGet: 24, vGetDel: 2, vStrLen: 1, vIncrBy: 7, vAppend: 5,
	vMSet: 6, vMSetNX: 2, vMGet: 3, vDel: 7, vExists: 2, vExpire: 4, vPersist: 1, vTTL: 1, vMulti: 8, vDBSize: 1, vKeys: 1, vScan: 1, vFlushDB: 1, vFlushAll: 0,
}

var weightSum = func() (n int) {
	for _, w := range weights {
		n += w
	}
	return n
}()

// newCommand draws a command.
func (w *world) newCommand(cl *client) *command {
	rng := w.rng
	c := &command{db: cl.db}
	for r := rng.IntN(weightSum); r >= weights[c.verb]; c.verb++ {
		r -= weights[c.verb]
	}
	if c.verb == vFlushDB && chance(rng, 20) {
		c.verb = vFlushAll
	}
	n := 1
	switch c.verb {
	case vMSet, vMGet, vDel, vExists, vMSetNX:
		n = 1 + rng.IntN(4)
	}
	big := w.p.bigBatches && (chance(rng, 5) || c.verb == vMSet && chance(rng, 40))
	if big {
		c.verb = vMSet
		n = 4 + rng.IntN(12)
	}
	if c.verb == vMulti {
		w.newTransaction(c)
		return c
	}
	if c.all() {
		return c
	}
	for range n {
		c.keys = append(c.keys, w.key(c.verb))
		switch c.verb {
		case vSet, vSetNX, vSetXX, vSetGet, vSetEx, vSetKeepTTL, vAppend, vMSet, vMSetNX:
			c.vals = append(c.vals, w.value(c.verb, big))
		}
	}
	c.delta = int64(rng.IntN(20) - 5)
	c.ttl = choose[int64](rng, -5, 1, 5, 20, 100, 1000, 20_000, 200_000)
	return c
}

func (w *world) key(v verb) []byte {
	kind := byte('k')
	if v == vIncrBy || chance(w.rng, 20) {
		kind = 'n' // mostly numbers
	}
	return strconv.AppendInt([]byte{kind}, int64(w.rng.IntN(w.p.keys)), 10)
}

// value makes a value that nobody wrote before, but for appends and numbers.
func (w *world) value(v verb, big bool) []byte {
	w.values++
	if chance(w.rng, 10) {
		return strconv.AppendInt(nil, int64(w.rng.IntN(1000)), 10)
	}
	n := w.rng.IntN(w.p.valueMax)
	switch {
	case v == vAppend:
		n = w.rng.IntN(100)
	case big:
		n = 500 + w.rng.IntN(min(w.srv.v.MaxRecord()-600, 10_000))
	case chance(w.rng, 5):
		n = w.rng.IntN(4000)
	}
	b := fmt.Appendf(nil, "v%d.", w.values)
	for len(b) < n {
		b = append(b, byte('a'+len(b)%26))
	}
	return b
}

// run executes a command once, as resp does, and words its reply. keyspace.ErrMiss, volume.ErrBusy and so on are the caller's.
func (c *command) run(s *keyspace.Space, t *keyspace.Tx) (string, error) {
	key := func() []byte { return c.keys[0] }
	switch c.verb {
	case vSet, vSetNX, vSetXX, vSetGet, vSetEx, vSetKeepTTL:
		o := kvs.SetOptions{NX: c.verb == vSetNX, XX: c.verb == vSetXX, Get: c.verb == vSetGet, KeepTTL: c.verb == vSetKeepTTL}
		if c.verb == vSetEx {
			o.Expiry = t.Now() + max(c.ttl, 1)
		}
		res, err := kvs.Set(t, key(), c.vals[0], o)
		switch {
		case c.verb == vSetGet:
			return bulk(res.Old, res.OldOK), err
		case res.Set:
			return "OK", err
		}
		return bulk(nil, false), err
	case vGet:
		val, ok, err := kvs.Get(t, key())
		return bulk(val, ok), err
	case vGetDel:
		val, ok, err := kvs.GetDel(t, key())
		return bulk(val, ok), err
	case vStrLen:
		n, err := kvs.StrLen(t, key())
		return integer(n), err
	case vIncrBy:
		n, err := kvs.IncrBy(t, key(), c.delta)
		return integer(n), err
	case vAppend:
		n, err := kvs.Append(t, key(), c.vals[0])
		return integer(n), err
	case vMSet:
		return "OK", kvs.MSet(t, c.pairs())
	case vMSetNX:
		set, err := kvs.MSetNX(t, c.pairs())
		return boolean(set), err
	}
	return c.runOther(s, t)
}

func (c *command) runOther(s *keyspace.Space, t *keyspace.Tx) (string, error) {
	switch c.verb {
	case vMulti:
		return c.runMulti(s, t)
	case vMGet:
		out := make([]kvs.Value, len(c.keys))
		err := kvs.MGet(t, c.keys, out)
		var list []string
		for _, v := range out {
			val := v.Bytes
			if v.Blob != nil && (err == nil || errors.Is(err, keyspace.ErrMiss)) { // ask for all of them
				var lerr error
				if val, lerr = t.LoadRange(nil, v.Blob, v.From, v.To); lerr != nil {
					err = lerr
				}
			}
			list = append(list, bulk(val, v.OK))
		}
		return strings.Join(list, " "), err
	case vDel:
		n, err := t.Del(c.keys)
		return integer(n), err
	case vExists:
		n, err := t.Exists(c.keys)
		return integer(n), err
	case vExpire:
		set, err := t.Expire(c.keys[0], t.Now()+c.ttl, 0)
		return boolean(set), err
	case vPersist:
		done, err := t.Persist(c.keys[0])
		return boolean(done), err
	case vTTL:
		at, found, err := t.Expiry(c.keys[0])
		return fmt.Sprint(at, found), err
	case vDBSize:
		return integer(t.DBSize()), nil
	case vKeys:
		var list []string
		err := t.Keys(nil, func(k []byte) { list = append(list, string(k)) })
		return sorted(list), err
	case vScan:
		return c.scan(s, t)
	case vFlushDB:
		return "OK", t.FlushDB()
	case vFlushAll:
		return "OK", t.FlushAll()
	}
	panic("unknown verb")
}

// scan goes round once.
func (c *command) scan(s *keyspace.Space, t *keyspace.Tx) (string, error) {
	var list []string
	for cursor := uint64(0); ; {
		var err error
		if cursor, err = s.Scan(t, c.db, cursor, keyspace.ScanOptions{Count: 7}, func(k []byte) { list = append(list, string(k)) }); err != nil || cursor == 0 {
			return sorted(list), err
		}
	}
}

func (c *command) pairs() (p [][]byte) {
	for i := range c.keys {
		p = append(p, c.keys[i], c.vals[i])
	}
	return p
}
