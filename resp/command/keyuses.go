package command

import "strings"

// The uses of keys of collection commands, in groups that have the same.
func init() {
	for use, names := range map[string]string{
		"RW access delete,RW insert": "blmove brpoplpush lmove rpoplpush smove",
		"RW access delete":           "blmpop blpop brpop bzmpop bzpopmin bzpopmax lmpop lpop rpop spop zmpop zpopmin zpopmax",
		"RW delete":                  "hdel lrem ltrim srem zrem zremrangebyrank zremrangebyscore zremrangebylex xdel xtrim",
		"RW update":                  "hset hmset lset zadd xadd geoadd",
		"RO access,OW update":        "sort georadius georadiusbymember",
		"RW insert":                  "hsetnx linsert lpush lpushx rpush rpushx pfadd sadd",
		"RO":                         "llen hlen hstrlen hexists scard sismember zcard xlen watch",
		"OW insert":                  "msetnx",
		"RW access":                  "pfcount",
		"RW access insert,RO access": "pfmerge",
		"OW update,RO access":        "sdiffstore sunionstore zdiffstore zinterstore zunionstore zrangestore georadiusstore geosearchstore",
		"RW update,RO access":        "sinterstore",
	} {
		for _, name := range strings.Fields(names) {
			keyUses[name] = use
		}
	}
}
