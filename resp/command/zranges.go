package command

import (
	"bytes"

	"cvmstore/kvs"
)

// parseRange parses the two ends of a range, lowest first, or highest first with r.Reverse (but for ranks).
func parseRange(r *kvs.ZRange, start, stop []byte) (err error) {
	if r.By == kvs.ByRank {
		r.Start, r.Stop, err = twoInts([][]byte{start, stop})
		return err
	}
	if r.Reverse {
		start, stop = stop, start
	}
	if r.By == kvs.ByLex {
		if r.LexLow, err = lexBound(start); err == nil {
			r.LexTop, err = lexBound(stop)
		}
		return err
	}
	if r.Low, err = scoreBound(start); err == nil {
		r.High, err = scoreBound(stop)
	}
	return err
}

func scoreBound(arg []byte) (b kvs.ScoreBound, err error) {
	arg, b.Open = bytes.CutPrefix(arg, []byte("("))
	// As in Redis, the number ends at a zero byte, may have blanks before it, and is 0 where there is none.
	arg, _, _ = bytes.Cut(arg, []byte{0})
	arg = bytes.TrimLeft(arg, " \t\n\v\f\r")
	if len(arg) == 0 {
		return b, nil
	}
	score, ok := kvs.ParseDouble(arg)
	if !ok {
		return b, Error("ERR min or max is not a float")
	}
	b.Score = score
	return b, nil
}

func lexBound(arg []byte) (b kvs.LexBound, err error) {
	switch {
	case string(arg) == "-":
		b.Infinite = -1
	case string(arg) == "+":
		b.Infinite = 1
	case len(arg) > 0 && arg[0] == '(':
		b.Open, b.Member = true, arg[1:]
	case len(arg) > 0 && arg[0] == '[':
		b.Member = arg[1:]
	default:
		return b, Error("ERR min or max not valid string range item")
	}
	return b, nil
}

// zrangeForm is what a command's name says of its range.
type zrangeForm struct {
	by       kvs.ZBy
	reverse  bool
	flexible bool // BYSCORE, BYLEX and REV may follow
}

var zrangeForms = map[string]zrangeForm{
	"zrange": {flexible: true}, "zrangestore": {flexible: true}, "zrevrange": {reverse: true},
	"zrangebyscore": {by: kvs.ByScore}, "zrevrangebyscore": {by: kvs.ByScore, reverse: true},
	"zrangebylex": {by: kvs.ByLex}, "zrevrangebylex": {by: kvs.ByLex, reverse: true},
}

// cmdZRange is all commands that return, or store, a range.
func cmdZRange(c *Ctx) error {
	form := zrangeForms[c.Cmd.Name]
	store := c.Cmd.Name == "zrangestore"
	args := c.Args[1:]
	if store {
		args = args[1:]
	}
	r := kvs.ZRange{By: form.by, Reverse: form.reverse}
	scores := false
	for rest := args[3:]; len(rest) > 0; rest = rest[1:] {
		switch {
		case !store && equalFold(rest[0], "withscores"):
			scores = true
		case equalFold(rest[0], "limit") && len(rest) > 2:
			var err error
			if r.Offset, r.Count, err = twoInts(rest[1:]); err != nil {
				return err
			}
			r.Limited = true
			rest = rest[2:]
		case form.flexible && !r.Reverse && equalFold(rest[0], "rev"):
			r.Reverse = true
		case form.flexible && r.By == kvs.ByRank && equalFold(rest[0], "byscore"):
			r.By = kvs.ByScore
		case form.flexible && r.By == kvs.ByRank && equalFold(rest[0], "bylex"):
			r.By = kvs.ByLex
		default:
			return errSyntax
		}
	}
	if r.Limited && r.By == kvs.ByRank && r.Count != -1 {
		return Error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	}
	if r.By == kvs.ByRank {
		r.Limited = false
	}
	if scores && r.By == kvs.ByLex {
		return Error("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
	}
	if err := parseRange(&r, args[1], args[2]); err != nil {
		return err
	}
	if store {
		n, err := kvs.ZRangeStore(c.Tx, c.Args[1], c.Args[2], r)
		return intReply(c, int64(n), err)
	}
	return kvs.ZRangeOf(c.Tx, args[0], r, func(n int) { beginPairs(c, n, scores) }, func(member []byte, score float64) {
		writePair(c, member, score, scores)
	})
}

// zoperation is what follows the number of keys in ZUNION and its kin.
type zoperation struct {
	keys    [][]byte
	weights []float64
	agg     kvs.Aggregate
	scores  bool
}

func parseZOperation(c *Ctx, at int, store bool) (o zoperation, err error) {
	n, err := parseInt(c.Args[at])
	if err != nil {
		return o, err
	}
	if n < 1 {
		return o, errNoInput(c)
	}
	if n > int64(len(c.Args)-at-1) {
		return o, errSyntax
	}
	o.keys = c.Args[at+1 : at+1+int(n)]
	if err := kvs.CheckSources(c.Tx, o.keys); err != nil { // before what is wrong with the rest
		return o, err
	}
	diff := setOp(c.Cmd.Name) == kvs.SetDiff
	for rest := c.Args[at+1+int(n):]; len(rest) > 0; rest = rest[1:] {
		switch {
		case !diff && equalFold(rest[0], "weights") && len(rest) > int(n):
			o.weights = nil
			for _, a := range rest[1 : 1+n] {
				w, ok := kvs.ParseDouble(a)
				if !ok {
					return o, Error("ERR weight value is not a float")
				}
				o.weights = append(o.weights, w)
			}
			rest = rest[n:]
		case !diff && equalFold(rest[0], "aggregate") && len(rest) > 1:
			switch {
			case equalFold(rest[1], "sum"):
				o.agg = kvs.AggregateSum
			case equalFold(rest[1], "min"):
				o.agg = kvs.AggregateMin
			case equalFold(rest[1], "max"):
				o.agg = kvs.AggregateMax
			default:
				return o, errSyntax
			}
			rest = rest[1:]
		case !store && equalFold(rest[0], "withscores"):
			o.scores = true
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

func errNoInput(c *Ctx) error {
	return Error("ERR at least 1 input key is needed for '" + c.Cmd.Full() + "' command")
}

func cmdZOperation(c *Ctx) error {
	o, err := parseZOperation(c, 1, false)
	if err != nil {
		return err
	}
	out, err := kvs.ZOperation(c.Tx, setOp(c.Cmd.Name), o.keys, o.weights, o.agg, 0)
	if err != nil {
		return err
	}
	writeScored(c, out, o.scores)
	return nil
}

func cmdZStoreOperation(c *Ctx) error {
	o, err := parseZOperation(c, 2, true)
	if err != nil {
		return err
	}
	out, err := kvs.ZOperation(c.Tx, setOp(c.Cmd.Name), o.keys, o.weights, o.agg, 0)
	if err != nil {
		return err
	}
	err = kvs.ZStore(c.Tx, c.Args[1], out, c.Cmd.Name)
	return intReply(c, int64(len(out)), err)
}

func cmdZInterCard(c *Ctx) error {
	n, err := parseInt(c.Args[1])
	switch {
	case err != nil:
		return err
	case n < 1:
		return errNoInput(c)
	case n > int64(len(c.Args)-2):
		return errSyntax
	}
	keys := c.Args[2 : 2+n]
	if err := kvs.CheckSources(c.Tx, keys); err != nil {
		return err
	}
	limit, err := limitOption(c.Args[2+n:])
	if err != nil {
		return err
	}
	out, err := kvs.ZOperation(c.Tx, kvs.SetInter, keys, nil, kvs.AggregateSum, int(limit))
	return intReply(c, int64(len(out)), err)
}
