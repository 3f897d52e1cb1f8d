package sim

import (
	"time"

	"github.com/anishathalye/porcupine"

	"cvmstore/volume"
)

// histories are what clients saw of single keys, for porcupine. What a crash was allowed to take back is taken back here
// too, by the recovered counter: then every operation that is left must fit into one order.
type histories struct {
	keys map[historyKey][]*operation
	now  *int64 // the world's count of events
}

type historyKey struct {
	db  int
	key string
}

// operation is one command's part on one key.
type operation struct {
	client    int
	verb      verb
	val       string
	delta     int64
	out       string
	known     bool           // out was delivered
	call, ret int64          // ret 0: no reply
	depends   volume.Counter // gone if recovery ends before it
}

func newHistories(now *int64) *histories {
	return &histories{keys: map[historyKey][]*operation{}, now: now}
}

func (h *histories) add(db int, key string, o *operation) {
	k := historyKey{db, key}
	h.keys[k] = append(h.keys[k], o)
}

// returned takes a command whose reply has left.
func (h *histories) returned(cl *client, r *reply, now int64) { h.record(cl, r, now) }

// lost takes a command whose reply never came. It matters if it wrote.
func (h *histories) lost(cl *client, r *reply) {
	if r.wrote != 0 {
		h.record(cl, r, 0)
	}
}

func (h *histories) record(cl *client, r *reply, now int64) {
	c := r.cmd
	if c.verb == vMulti {
		h.recordMulti(cl, r, now)
		return
	}
	if c.verb == vExists || c.verb == vTTL || c.verb == vPersist || c.verb == vStrLen || c.all() {
		return
	}
	for i, k := range c.keys {
		o := &operation{client: cl.id, verb: c.verb, delta: c.delta, call: c.call, ret: now, depends: max(r.need, r.wrote)}
		if i < len(c.vals) {
			o.val = string(c.vals[i])
		}
		if o.known = now != 0 && len(c.keys) == 1; o.known {
			o.out = r.text
		}
		if len(c.keys) > 1 && r.wrote == 0 {
			continue // reads and failed conditions over several keys: the model compared them
		}
		if c.verb == vExpire {
			if o.verb = vDel; c.ttl > 0 || r.text == "0" {
				continue
			}
			o.known = false
		}
		h.add(c.db, string(k), o)
	}
}

// internal is an expiry: a delete that nobody asked for, somewhere around now.
func (h *histories) internal(db int, key string, c volume.Counter) {
	*h.now++
	h.add(db, key, &operation{client: -1, verb: vDel, depends: c, call: *h.now, ret: *h.now})
}

// flushed is a flush, a delete of each key that was there, at one moment.
func (h *histories) flushed(m *model, changes []change, counters []volume.Counter) {
	for i, ch := range changes {
		for k := range m.dbs[ch.db] {
			h.internal(ch.db, k, counters[i])
		}
	}
}

// cut drops what recovery did not find again, and ends what it did.
func (h *histories) cut(c volume.Counter, now int64) {
	for k, list := range h.keys {
		kept := list[:0]
		for _, o := range list {
			if o.depends > c {
				continue
			}
			if o.ret == 0 {
				o.ret = now
			}
			kept = append(kept, o)
		}
		h.keys[k] = kept
	}
}

// checkTimeout bounds the search in one key's history; it has never been needed.
const checkTimeout = 10 * time.Second

// check looks for an order of each key's operations.
func (h *histories) check() {
	for k, list := range h.keys {
		ops := make([]porcupine.Operation, 0, len(list))
		for _, o := range list {
			ret := o.ret
			if ret == 0 {
				ret = 1 << 62
			}
			ops = append(ops, porcupine.Operation{ClientId: o.client + 1, Input: o, Output: nil, Call: o.call, Return: ret})
		}
		if porcupine.CheckOperationsTimeout(register, ops, checkTimeout) == porcupine.Illegal {
			failf("the history of key %q in database %d is not linearizable (%d operations)", k.key, k.db, len(ops))
		}
	}
}

// absent is the state of a key that is not there; no value begins with a zero byte.
const absent = "\x00"

// register is one key as a sequential object.
var register = porcupine.Model{
	Init: func() any { return absent },
	Step: func(state, input, _ any) (bool, any) {
		o, s := input.(*operation), state.(string)
		out, next := o.step(s)
		return !o.known || out == o.out, next
	},
}

// step is what an operation replies and leaves in state s.
func (o *operation) step(s string) (out, next string) {
	exists := s != absent
	if o.out == errTooLarge {
		return o.out, s
	}
	switch o.verb {
	case vSet, vSetEx, vSetKeepTTL, vMSet, vSetGet, vSetNX, vSetXX:
		switch {
		case o.verb == vSetNX && exists, o.verb == vSetXX && !exists:
			return "(nil)", s
		case o.verb == vSetGet:
			return bulk([]byte(s), exists), o.val
		}
		return "OK", o.val
	case vMSetNX:
		if exists {
			return "0", s
		}
		return "1", o.val
	case vGet, vMGet:
		return bulk([]byte(s), exists), s
	case vGetDel:
		return bulk([]byte(s), exists), absent
	case vDel:
		return boolean(exists), absent
	case vIncrBy, vAppend:
		old := s
		if !exists {
			old = ""
		}
		if o.verb == vAppend {
			return integer(len(old + o.val)), old + o.val
		}
		n, number := parse(old)
		if exists && !number {
			return "ERR value is not an integer or out of range", s
		}
		return integer(n + o.delta), integer(n + o.delta)
	}
	panic("unknown operation")
}
