package command

import "cvmstore/kvs"

func rangeCommands() []Command {
	const g = "string"
	const write = Write | DenyOOM
	return []Command{
		{Name: "setrange", Body: 3, Arity: 4, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Since: "2.2.0", Summary: "Writes over a part of a string value.", Handler: cmdSetRange},
		{Name: "incrbyfloat", Arity: 3, Flags: write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "2.6.0", Summary: "Adds a floating-point number to a number.", Handler: cmdIncrByFloat},
		{Name: "lcs", Arity: -3, Flags: ReadOnly, Group: g, First: 1, Last: 2, Step: 1, Since: "7.0.0", Summary: "Finds the longest common subsequence of two string values.", Handler: cmdLcs},
	}
}

func cmdSetRange(c *Ctx) error {
	offset, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	if offset < 0 {
		return Error("ERR offset is out of range")
	}
	if c.Body != nil {
		n, err := kvs.SetRangeBody(c.Tx, c.Args[1], offset, c.Body)
		return intReply(c, int64(n), err)
	}
	n, err := kvs.SetRange(c.Tx, c.Args[1], offset, c.Args[3])
	return intReply(c, int64(n), err)
}

func cmdIncrByFloat(c *Ctx) error {
	sum, err := kvs.IncrByFloat(c.Tx, c.Args[1], c.Args[2])
	if err != nil {
		return err
	}
	c.Reply.Bulk(sum)
	return nil
}

// lcsOptions are what LCS shows.
type lcsOptions struct {
	length, runs, runLengths bool
	runMin                   int64
}

func parseLcs(args [][]byte) (o lcsOptions, err error) {
	for i := 0; i < len(args); i++ {
		switch {
		case equalFold(args[i], "idx"):
			o.runs = true
		case equalFold(args[i], "len"):
			o.length = true
		case equalFold(args[i], "withmatchlen"):
			o.runLengths = true
		case equalFold(args[i], "minmatchlen") && i+1 < len(args):
			i++
			if o.runMin, err = parseInt(args[i]); err != nil {
				return o, err
			}
		default:
			return o, errSyntax
		}
	}
	if o.length && o.runs {
		return o, Error("ERR If you want both the length and indexes, please just use IDX.")
	}
	return o, nil
}

func cmdLcs(c *Ctx) error {
	o, err := parseLcs(c.Args[3:])
	if err != nil {
		return err
	}
	res, err := kvs.Lcs(c.Tx, c.Args[1], c.Args[2], o.length)
	if err != nil {
		return err
	}
	switch {
	case o.length:
		c.Reply.Int(int64(res.Length))
	case o.runs:
		lcsRuns(&c.Reply, res, o)
	default:
		c.Reply.Bulk(res.Text)
	}
	return nil
}

func lcsRuns(r *Reply, res kvs.LcsResult, o lcsOptions) {
	runs := res.Matches[:0]
	for _, m := range res.Matches {
		if int64(m.Len()) >= o.runMin {
			runs = append(runs, m)
		}
	}
	r.Map(2)
	r.String("matches")
	r.Array(len(runs))
	for _, m := range runs {
		if o.runLengths {
			r.Array(3)
		} else {
			r.Array(2)
		}
		for _, ends := range [2][2]int{{m.AStart, m.AEnd}, {m.BStart, m.BEnd}} {
			r.Array(2)
			r.Int(int64(ends[0]))
			r.Int(int64(ends[1]))
		}
		if o.runLengths {
			r.Int(int64(m.Len()))
		}
	}
	r.String("len")
	r.Int(int64(res.Length))
}
