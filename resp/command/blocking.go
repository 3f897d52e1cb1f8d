package command

import (
	"errors"
	"math"
	"strconv"
	"time"

	"cvmstore/keyspace"
)

// Wait is how a blocking command waits for its keys. It is the same for every type.
type Wait struct {
	Keys    [][]byte
	Type    keyspace.TypeID // that the keys must have
	Timeout time.Duration   // 0: for ever
	// Try looks for what the command wants under one key, and takes it. It replies only if it returns true.
	Try func(key []byte) (bool, error)
	// None replies that the time was up.
	None func()
}

// Block is a blocking command: it tries its keys in order, and if none has anything it waits for one that has. Within MULTI it
// does not wait. While it waits, a key of another type is as good as absent.
func (c *Ctx) Block(w Wait) error {
	keys := w.Keys
	switch {
	case c.Multi:
	case c.Resume == ResumeTimeout:
		for _, k := range keys { // that nothing was there depends on what there was
			_, _ = c.Tx.Peek(k)
		}
		w.None()
		return nil
	case c.Resume == ResumeReady:
		keys = [][]byte{c.Ready}
	}
	behind := false
	for _, k := range keys {
		if c.Resume == ResumeNone && !c.Multi && c.Srv.Ahead(c, k) {
			behind = true
			continue
		}
		done, err := w.Try(k)
		if c.Resume == ResumeReady && errors.Is(err, keyspace.ErrWrongType) {
			done, err = false, nil
		}
		if done || err != nil {
			return err
		}
	}
	if c.Multi && !behind {
		w.None()
		return nil
	}
	until := c.Park.Until
	if until == 0 && w.Timeout > 0 && c.Resume == ResumeNone {
		if until = c.Now + int64(w.Timeout); until < 0 {
			until = math.MaxInt64
		}
	}
	c.Park = Park{Until: until, Keys: w.Keys, Type: w.Type}
	return ErrPark
}

// Waits is the part of Server that blocking commands need.
type Waits interface {
	// Ahead reports whether somebody who waits for a key is being served just now, so that whoever comes waits behind.
	Ahead(c *Ctx, key []byte) bool
}

// blockTimeout parses the timeout of a blocking command, in seconds.
func blockTimeout(arg []byte) (time.Duration, error) {
	f, err := strconv.ParseFloat(string(arg), 64)
	switch {
	case err != nil || math.IsNaN(f) || math.IsInf(f, 0):
		return 0, Error("ERR timeout is not a float or out of range")
	case f < 0:
		return 0, errTimeoutNeg
	case f*1000 > math.MaxInt64-1e13:
		return 0, Error("ERR timeout is out of range")
	case f > math.MaxInt64/4/1e9:
		return math.MaxInt64 / 4, nil
	}
	return time.Duration(math.Ceil(f*1000)) * time.Millisecond, nil
}
