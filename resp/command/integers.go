package command

import (
	"math"

	"cvmstore/kvs"
)

func cmdIncr(c *Ctx) error { return addTo(c, 1) }
func cmdDecr(c *Ctx) error { return addTo(c, -1) }

func cmdIncrBy(c *Ctx) error {
	n, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	return addTo(c, n)
}

func cmdDecrBy(c *Ctx) error {
	n, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	if n == math.MinInt64 {
		return Error("ERR decrement would overflow")
	}
	return addTo(c, -n)
}

func addTo(c *Ctx, delta int64) error {
	n, err := kvs.IncrBy(c.Tx, c.Args[1], delta)
	if err != nil {
		return err
	}
	c.Reply.Int(n)
	return nil
}
