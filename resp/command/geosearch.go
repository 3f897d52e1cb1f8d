package command

import (
	"strings"

	"cvmstore/kvs"
	"cvmstore/kvs/geo"
)

// Searches for places: GEOSEARCH, and GEORADIUS, which is older.

// geoQuery is what such a command asks for.
type geoQuery struct {
	area   geo.Area
	source []byte
	exists bool // the source

	distance, hash, coordinates bool // what is told of each member
	order                       kvs.GeoOrder
	count                       int64 // 0: all
	any                         bool  // the first ones that are found
	dest                        []byte
	scoreDistance               bool // store distances as scores

	centre, shape bool // GEOSEARCH: they were given
	byPoint       bool
}

// geoRadiusKeys returns the keys of GEORADIUS, whose options begin at from: the source, and the last STORE or STOREDIST.
func geoRadiusKeys(from int) func(args [][]byte) [][]byte {
	return func(args [][]byte) [][]byte {
		if len(args) < 2 {
			return nil
		}
		keys := args[1:2:2]
		for i := from; i+1 < len(args); i++ {
			if equalFold(args[i], "store") || equalFold(args[i], "storedist") {
				keys = append(keys[:1:1], args[i+1])
				i++
			}
		}
		return keys
	}
}

func cmdGeoRadius(c *Ctx) error {
	q := geoQuery{source: c.Args[1]}
	if err := q.open(c); err != nil {
		return err
	}
	var err error
	byMember := strings.HasPrefix(c.Cmd.Name, "georadiusbymember")
	rest := c.Args[4:]
	if byMember {
		rest = c.Args[3:]
	}
	switch {
	case !byMember:
		q.area.Centre, err = parsePoint(c.Args[2:])
	case q.exists:
		err = q.fromMember(c, c.Args[2])
	}
	if err == nil && (q.exists || !byMember) {
		err = q.byRadius(rest)
	}
	if err != nil {
		return err
	}
	stores := !strings.HasSuffix(c.Cmd.Name, "_ro")
	for rest = rest[2:]; len(rest) > 0; {
		n, err := q.option(rest)
		switch {
		case err != nil:
			return err
		case n > 0:
		case stores && len(rest) > 1 && (equalFold(rest[0], "store") || equalFold(rest[0], "storedist")):
			q.dest, q.scoreDistance = rest[1], len(rest[0]) > len("store")
			n = 2
		default:
			return errSyntax
		}
		rest = rest[n:]
	}
	return q.run(c, "STORE option in GEORADIUS", "georadiusstore")
}

func cmdGeoSearch(c *Ctx) error {
	q := geoQuery{source: c.Args[1]}
	rest := c.Args[2:]
	stores := c.Cmd.Name == "geosearchstore"
	if stores {
		q.dest, q.source, rest = c.Args[1], c.Args[2], c.Args[3:]
	}
	if err := q.open(c); err != nil {
		return err
	}
	for len(rest) > 0 {
		n, err := q.option(rest)
		if n == 0 && err == nil {
			n, err = q.place(c, rest)
		}
		switch {
		case err != nil:
			return err
		case n > 0:
		case stores && equalFold(rest[0], "storedist"):
			q.scoreDistance = true
			n = 1
		default:
			return errSyntax
		}
		rest = rest[n:]
	}
	return q.run(c, "GEOSEARCHSTORE", "geosearchstore")
}

// open looks at the source, which has to be a sorted set or absent: that comes before all that is wrong with arguments.
func (q *geoQuery) open(c *Ctx) error {
	n, err := kvs.ZCard(c.Tx, q.source)
	q.exists = n > 0
	return err
}

func (q *geoQuery) fromMember(c *Ctx, member []byte) error {
	found := false
	err := kvs.ZScore(c.Tx, q.source, [][]byte{member}, func(score float64, ok bool) {
		q.area.Centre, found = geo.Place(score), ok
	})
	if err == nil && !found {
		err = Error("ERR could not decode requested zset member")
	}
	return err
}

// byRadius parses a radius and its unit.
func (q *geoQuery) byRadius(args [][]byte) error {
	var ok bool
	if q.area.Radius, ok = kvs.ParseDouble(args[0]); !ok {
		return Error("ERR need numeric radius")
	}
	if q.area.Radius < 0 {
		return Error("ERR radius cannot be negative")
	}
	var err error
	q.area.Unit, err = parseUnit(args[1])
	return err
}

// byBox parses width, height and their unit.
func (q *geoQuery) byBox(args [][]byte) error {
	var ok bool
	if q.area.Width, ok = kvs.ParseDouble(args[0]); !ok {
		return Error("ERR need numeric width")
	}
	if q.area.Height, ok = kvs.ParseDouble(args[1]); !ok {
		return Error("ERR need numeric height")
	}
	if q.area.Width < 0 || q.area.Height < 0 {
		return Error("ERR height or width cannot be negative")
	}
	q.area.Box = true
	var err error
	q.area.Unit, err = parseUnit(args[2])
	return err
}

// option parses an option that all these commands have, and says how many arguments it takes; 0: it is none.
func (q *geoQuery) option(args [][]byte) (n int, err error) {
	switch {
	case equalFold(args[0], "withdist"):
		q.distance = true
	case equalFold(args[0], "withhash"):
		q.hash = true
	case equalFold(args[0], "withcoord"):
		q.coordinates = true
	case equalFold(args[0], "any"):
		q.any = true
	case equalFold(args[0], "asc"):
		q.order = kvs.GeoNearest
	case equalFold(args[0], "desc"):
		q.order = kvs.GeoFarthest
	case equalFold(args[0], "count") && len(args) > 1:
		if q.count, err = parseInt(args[1]); err == nil && q.count <= 0 {
			err = Error("ERR COUNT must be > 0")
		}
		return 2, err
	default:
		return 0, nil
	}
	return 1, nil
}

// place parses what GEOSEARCH has for the area.
func (q *geoQuery) place(c *Ctx, args [][]byte) (n int, err error) {
	switch {
	case equalFold(args[0], "frommember") && len(args) > 1 && !q.byPoint:
		q.centre = true
		if q.exists {
			err = q.fromMember(c, args[1])
		}
		return 2, err
	case equalFold(args[0], "fromlonlat") && len(args) > 2 && (q.byPoint || !q.centre):
		q.centre, q.byPoint = true, true
		q.area.Centre, err = parsePoint(args[1:])
		return 3, err
	case equalFold(args[0], "byradius") && len(args) > 2 && !q.area.Box:
		q.shape = true
		return 3, q.byRadius(args[1:])
	case equalFold(args[0], "bybox") && len(args) > 3 && (q.area.Box || !q.shape):
		q.shape = true
		return 4, q.byBox(args[1:])
	}
	return 0, nil
}

// run checks what goes together, searches, and replies or stores.
func (q *geoQuery) run(c *Ctx, storing, event string) error {
	search := strings.HasPrefix(c.Cmd.Name, "geosearch")
	switch {
	case q.dest != nil && (q.distance || q.hash || q.coordinates):
		return Error("ERR " + storing + " is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
	case search && !q.centre:
		return Error("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for " + clip(c.Args[0], 128))
	case search && !q.shape:
		return Error("ERR exactly one of BYRADIUS and BYBOX can be specified for " + clip(c.Args[0], 128))
	case q.any && q.count == 0:
		return Error("ERR the ANY argument requires COUNT argument")
	}
	if q.count > 0 && q.order == kvs.GeoUnordered && !q.any {
		q.order = kvs.GeoNearest
	}
	limit := int64(0)
	if q.any {
		limit = q.count
	}
	var found []kvs.Located
	if q.exists {
		var err error
		if found, err = kvs.GeoSearch(c.Tx, q.source, &q.area, q.order, limit); err != nil {
			return err
		}
	}
	if q.count > 0 && int64(len(found)) > q.count {
		found = found[:q.count]
	}
	if q.dest != nil {
		return q.store(c, found, event)
	}
	q.write(c, found)
	return nil
}

func (q *geoQuery) store(c *Ctx, found []kvs.Located, event string) error {
	out := make([]kvs.Scored, len(found))
	for i := range found {
		f := &found[i]
		out[i] = kvs.Scored{Member: append([]byte{}, f.Member...), Score: f.Score}
		if q.scoreDistance {
			out[i].Score = f.Distance / q.area.Unit
		}
	}
	err := kvs.ZStore(c.Tx, q.dest, out, event)
	return intReply(c, int64(len(out)), err)
}

func (q *geoQuery) write(c *Ctx, found []kvs.Located) {
	parts := 1
	for _, with := range [...]bool{q.distance, q.hash, q.coordinates} {
		if with {
			parts++
		}
	}
	c.Reply.Array(len(found))
	for i := range found {
		f := &found[i]
		if parts > 1 {
			c.Reply.Array(parts)
		}
		c.Reply.Bulk(f.Member)
		if q.distance {
			writeDistance(c, f.Distance/q.area.Unit)
		}
		if q.hash {
			c.Reply.Int(geo.Number(f.Score))
		}
		if q.coordinates {
			writePoint(c, f.At)
		}
	}
}
