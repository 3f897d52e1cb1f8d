package command

import (
	"math"
	"strconv"

	"cvmstore/kvs"
	"cvmstore/kvs/geo"
)

// Places in sorted sets.

func geoCommands() []Command {
	const g = "geo"
	const read, write = ReadOnly, Write | DenyOOM
	return []Command{
		{Name: "geoadd", Arity: -5, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Since: "3.2.0", Summary: "Adds members with their places.", Handler: cmdGeoAdd},
		{Name: "geodist", Arity: -4, Flags: read, Group: g, First: 1, Last: 1, Step: 1, Since: "3.2.0", Summary: "Returns the distance of two members.", Handler: cmdGeoDist},
		{Name: "geohash", Arity: -2, Flags: read, Group: g, First: 1, Last: 1, Step: 1, Since: "3.2.0", Summary: "Returns members' places as geohash strings.", Handler: cmdGeoHash},
		{Name: "geopos", Arity: -2, Flags: read, Group: g, First: 1, Last: 1, Step: 1, Since: "3.2.0", Summary: "Returns members' places as longitude and latitude.", Handler: cmdGeoPos},
		{Name: "georadius", Arity: -6, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Movable: geoRadiusKeys(6), Since: "3.2.0", Summary: "Returns, or stores, the members within a distance of a place.", Handler: cmdGeoRadius},
		{Name: "georadius_ro", Arity: -6, Flags: read, Group: g, First: 1, Last: 1, Step: 1, Since: "3.2.10", Summary: "Returns the members within a distance of a place.", Handler: cmdGeoRadius},
		{Name: "georadiusbymember", Arity: -5, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Movable: geoRadiusKeys(5), Since: "3.2.0", Summary: "Returns, or stores, the members within a distance of another one.", Handler: cmdGeoRadius},
		{Name: "georadiusbymember_ro", Arity: -5, Flags: read, Group: g, First: 1, Last: 1, Step: 1, Since: "3.2.10", Summary: "Returns the members within a distance of another one.", Handler: cmdGeoRadius},
		{Name: "geosearch", Arity: -7, Flags: read, Group: g, First: 1, Last: 1, Step: 1, Since: "6.2.0", Summary: "Returns the members within a circle or a box.", Handler: cmdGeoSearch},
		{Name: "geosearchstore", Arity: -8, Flags: write, Group: g, First: 1, Last: 2, Step: 1, Since: "6.2.0", Summary: "Stores the members within a circle or a box.", Handler: cmdGeoSearch},
	}
}

// parsePoint parses longitude and latitude.
func parsePoint(args [][]byte) (p geo.Point, err error) {
	if p.Lon, err = parseScore(args[0]); err != nil {
		return p, err
	}
	if p.Lat, err = parseScore(args[1]); err != nil {
		return p, err
	}
	if !p.Valid() {
		return p, Error("ERR invalid longitude,latitude pair " + sixDigits(p.Lon) + "," + sixDigits(p.Lat))
	}
	return p, nil
}

func sixDigits(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return strconv.FormatFloat(f, 'f', 6, 64)
}

// parseUnit returns a unit of length in metres.
func parseUnit(arg []byte) (float64, error) {
	switch {
	case equalFold(arg, "m"):
		return 1, nil
	case equalFold(arg, "km"):
		return 1000, nil
	case equalFold(arg, "ft"):
		return 0.3048, nil
	case equalFold(arg, "mi"):
		return 1609.34, nil
	}
	return 0, Error("ERR unsupported unit provided. please use M, KM, FT, MI")
}

func cmdGeoAdd(c *Ctx) error {
	var o kvs.ZAddOptions
	changed := false
	args := c.Args[2:]
options:
	for ; len(args) > 0; args = args[1:] {
		switch {
		case equalFold(args[0], "nx"):
			o.NX = true
		case equalFold(args[0], "xx"):
			o.XX = true
		case equalFold(args[0], "ch"):
			changed = true
		default:
			break options
		}
	}
	if len(args) == 0 || len(args)%3 != 0 || o.NX && o.XX {
		return errSyntax
	}
	pairs := make([]kvs.Scored, 0, len(args)/3)
	for ; len(args) > 0; args = args[3:] {
		p, err := parsePoint(args)
		if err != nil {
			return err
		}
		pairs = append(pairs, kvs.Scored{Member: args[2], Score: float64(geo.Score(p))})
	}
	res, err := kvs.ZAdd(c.Tx, c.Args[1], pairs, o)
	if err == nil && changed {
		res.Added += res.Changed
	}
	return intReply(c, int64(res.Added), err)
}

func cmdGeoDist(c *Ctx) error {
	if len(c.Args) > 5 {
		return errSyntax
	}
	unit := 1.0
	if len(c.Args) == 5 {
		var err error
		if unit, err = parseUnit(c.Args[4]); err != nil {
			return err
		}
	}
	var at []geo.Point
	err := kvs.ZScore(c.Tx, c.Args[1], c.Args[2:4], func(score float64, ok bool) {
		if ok {
			at = append(at, geo.Place(score))
		}
	})
	switch {
	case err != nil:
		return err
	case len(at) < 2:
		c.Reply.Null()
	default:
		writeDistance(c, geo.Distance(at[0], at[1])/unit)
	}
	return nil
}

// writeDistance appends a distance with four digits behind the point.
func writeDistance(c *Ctx, d float64) {
	const scale = 1e4
	d = math.RoundToEven(d*scale) / scale
	c.Reply.String(strconv.FormatFloat(d, 'f', 4, 64))
}

func cmdGeoHash(c *Ctx) error {
	return eachPlace(c, func(at geo.Point, ok bool) {
		if ok {
			c.Reply.String(geo.Text(at))
		} else {
			c.Reply.Null()
		}
	})
}

func cmdGeoPos(c *Ctx) error {
	return eachPlace(c, func(at geo.Point, ok bool) {
		if ok {
			writePoint(c, at)
		} else {
			c.Reply.NullArray()
		}
	})
}

func eachPlace(c *Ctx, f func(at geo.Point, ok bool)) error {
	start := len(c.Reply.Buf)
	c.Reply.Array(len(c.Args) - 2)
	err := kvs.ZScore(c.Tx, c.Args[1], c.Args[2:], func(score float64, ok bool) { f(geo.Place(score), ok) })
	if err != nil {
		c.Reply.Buf = c.Reply.Buf[:start]
	}
	return err
}

func writePoint(c *Ctx, p geo.Point) {
	c.Reply.Array(2)
	c.Reply.Decimal(p.Lon)
	c.Reply.Decimal(p.Lat)
}
