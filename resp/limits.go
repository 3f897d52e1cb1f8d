package resp

import (
	"math"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/streams"
)

// collectionParams are Redis' thresholds between compact and full encodings of collections. They decide what OBJECT ENCODING
// answers; how a collection is stored follows from its size alone.
func collectionParams() []Param {
	limit := func(name, old string, def int64, field func(*Config) *int64, help string) []Param {
		p := intParam(name, def, 0, math.MaxInt64, true, field, help)
		if old == "" {
			return []Param{p}
		}
		alias := intParam(old, def, 0, math.MaxInt64, true, field, "Redis' old name of "+name+".")
		return []Param{p, hidden(alias)}
	}
	var all []Param
	for _, group := range [][]Param{
		limit("hash-max-listpack-entries", "hash-max-ziplist-entries", 128, func(c *Config) *int64 { return &c.Limits.HashEntries },
			"Fields above which a hash counts as a hash table."),
		limit("hash-max-listpack-value", "hash-max-ziplist-value", 64, func(c *Config) *int64 { return &c.Limits.HashValue },
			"Length of a field or value above which a hash counts as a hash table."),
		limit("set-max-intset-entries", "", 512, func(c *Config) *int64 { return &c.Limits.SetIntset },
			"Members above which a set of integers no longer counts as an integer set."),
		limit("set-max-listpack-entries", "", 128, func(c *Config) *int64 { return &c.Limits.SetEntries },
			"Members above which a set counts as a hash table."),
		limit("set-max-listpack-value", "", 64, func(c *Config) *int64 { return &c.Limits.SetValue },
			"Length of a member above which a set counts as a hash table."),
		limit("zset-max-listpack-entries", "zset-max-ziplist-entries", 128, func(c *Config) *int64 { return &c.Limits.ZSetEntries },
			"Members above which a sorted set counts as a skip list."),
		limit("zset-max-listpack-value", "zset-max-ziplist-value", 64, func(c *Config) *int64 { return &c.Limits.ZSetValue },
			"Length of a member above which a sorted set counts as a skip list."),
	} {
		all = append(all, group...)
	}
	list := func(name string) Param {
		return intParam(name, -2, math.MinInt32, math.MaxInt32, true, func(c *Config) *int64 { return &c.Limits.ListSize },
			"Accepted and shown, without effect: every list counts as a quicklist.")
	}
	all = append(all, intParam("stream-node-max-entries", streams.LeafEntriesDefault, 0, math.MaxInt64, true, func(c *Config) *int64 { return &c.StreamNodeEntries },
		"Entries of a stream that approximate trimming drops at once, at most 256; 0: as many."),
		inertParam("stream-node-max-bytes", "4096", checkMemoryText, "Accepted and shown, without effect: entries are records of their own."))
	return append(all, list("list-max-listpack-size"), hidden(list("list-max-ziplist-size")),
		inertParam("list-compress-depth", "0", checkNothing, "Accepted and shown, without effect: nothing is compressed."))
}

// applyLimits hands the thresholds to the collections.
func applyLimits(space *keyspace.Space, c *Config) {
	if k := kvs.CollectionsOf(space); k != nil {
		k.SetLimits(c.Limits)
	}
	if y := streams.Of(space); y != nil {
		y.SetLeafEntries(c.StreamNodeEntries)
	}
}
