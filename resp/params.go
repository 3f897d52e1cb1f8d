package resp

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// levels are the names of the durability levels (DESIGN.md 4.1).
var levels = []string{"fresh", "durable", "everysec"}

// params is the one table of parameters. Names and syntax are those of redis.conf where Redis has the parameter.
var params = slices.Concat(networkParams(), tlsParams(), servingParams(), observingParams(), redisParams(), collectionParams())

// networkParams are the parameters of listeners and clients.
func networkParams() []Param {
	return []Param{
		listParam("bind", "127.0.0.1", func(c *Config) *[]string { return &c.Bind },
			"Addresses to listen on. A leading '-' makes an unavailable address no error."),
		intParam("port", 6379, PortAny, 65535, true, func(c *Config) *int64 { return &c.Port }, "TCP port; 0: none."),
		stringParam("unixsocket", "", false, func(c *Config) *string { return &c.UnixSocket }, "Path of a Unix socket to listen on; empty: none."),
		octalParam("unixsocketperm", func(c *Config) *int64 { return &c.UnixPerm }, "Permissions of the Unix socket, octal; 0: as the umask has it."),
		intParam("tcp-backlog", 511, 1, 65535, false, func(c *Config) *int64 { return &c.TCPBacklog }, "Length of the listen queue."),
		intParam("tcp-keepalive", 300, 0, math.MaxInt32, true, func(c *Config) *int64 { return &c.TCPKeep },
			"Seconds between TCP keepalives; 0 turns them off."),
		intParam("timeout", 0, 0, math.MaxInt32, true, func(c *Config) *int64 { return &c.Timeout },
			"Seconds after which an idle client is closed; 0: never."),
		intParam("maxclients", 10000, 1, 1<<20, true, func(c *Config) *int64 { return &c.MaxClients }, "Clients served at one time."),
		intParam("databases", 16, 1, 1<<14, false, func(c *Config) *int64 { return &c.Databases }, "Number of databases."),
		secret(stringParam("requirepass", "", true, func(c *Config) *string { return &c.RequirePass },
			"Password that AUTH asks for; empty: none.")),
		boolParam("protected-mode", true, true, func(c *Config) *bool { return &c.Protected },
			"Without a password, refuse clients that are not on the loopback interface."),
	}
}

// servingParams are the parameters of what replies wait for, and of limits.
func servingParams() []Param {
	return []Param{
		durabilityParam(),
		appendFsyncParam(),
		intParam("reply-timeout", 5000, 1, math.MaxInt32, true, func(c *Config) *int64 { return &c.ReplyTimeout },
			"Milliseconds a reply waits for its level; then it becomes an error that says: outcome unknown."),
		intParam("loops", 0, 0, 256, false, func(c *Config) *int64 { return &c.Loops },
			"Event loops; 0: 1 up to 4 cores, then one for each 4 cores."),
		memoryParam("proto-max-bulk-len", "512mb", 1<<20, true, func(c *Config) *int64 { return &c.ProtoMaxBulk },
			"Largest argument of a command."),
		memoryParam("client-query-buffer-limit", "1gb", 1<<20, true, func(c *Config) *int64 { return &c.QueryBufLimit },
			"Unprocessed input of one client above which it is closed."),
		outputLimitParam(),
		memoryParam("maxmemory", "0", 0, true, func(c *Config) *int64 { return &c.MaxMemory },
			"Memory in use above which keys are evicted, or commands that need more refused; 0: four fifths of the machine's, and nothing is evicted."),
		enumParam("maxmemory-policy", "noeviction", policies, func(c *Config) *string { return &c.MemoryPolicy },
			"Which keys are evicted when memory runs out: of those with an expiry (volatile) or of all, those unused for longest (lru), used least (lfu), the next to expire (ttl), or any."),
		intParam("maxmemory-samples", 5, 1, 64, true, func(c *Config) *int64 { return &c.MemorySamples },
			"Keys that are compared for each one that is evicted."),
		intParam("lfu-log-factor", 10, 0, math.MaxInt32, true, func(c *Config) *int64 { return &c.LFULogFactor },
			"How slowly the counter of a key's uses grows: at 10 it is full after about a million."),
		intParam("lfu-decay-time", 1, 0, math.MaxInt32, true, func(c *Config) *int64 { return &c.LFUDecay },
			"Minutes after which the counter of an unused key falls by one; 0: never."),
		memoryParam("client-output-pause", "256kb", 1<<12, true, func(c *Config) *int64 { return &c.OutBufSoft },
			"Pending output of one client above which its next commands wait."),
		intParam("hz", 10, 1, 500, true, func(c *Config) *int64 { return &c.Hz },
			"Rounds of background work (expiry, timeouts) a second."),
		stringParam("dir", ".", false, func(c *Config) *string { return &c.Dir }, "Directory of the volume."),
	}
}

// observingParams are the parameters of what is noted about commands.
func observingParams() []Param {
	return []Param{
		intParam("slowlog-log-slower-than", 10000, -1, math.MaxInt64, true, func(c *Config) *int64 { return &c.SlowlogUsec },
			"Microseconds above which a command is noted in SLOWLOG; 0: all, -1: none."),
		intParam("slowlog-max-len", 128, 0, 1<<20, true, func(c *Config) *int64 { return &c.SlowlogLen }, "Commands that SLOWLOG keeps."),
		intParam("latency-monitor-threshold", 0, 0, math.MaxInt64, true, func(c *Config) *int64 { return &c.LatencyMillis },
			"Milliseconds from which LATENCY notes an event; 0: none."),
		notifyParam(),
		intParam("acllog-max-len", 128, 0, 1<<16, true, func(c *Config) *int64 { return &c.ACLLogLen }, "Denials that ACL LOG keeps."),
		intParam("lua-time-limit", 5000, 0, math.MaxInt64/int64(time.Millisecond), true, func(c *Config) *int64 { return &c.LuaTimeLimit },
			"Milliseconds after which other clients are told that a script runs, and may end it; 0: never."),
		intParam("busy-reply-threshold", 5000, 0, math.MaxInt64/int64(time.Millisecond), true, func(c *Config) *int64 { return &c.LuaTimeLimit },
			"The same as lua-time-limit, by Redis 7's name."),
		memoryParam("lua-memory-limit", "256mb", 1<<20, true, func(c *Config) *int64 { return &c.LuaMemory },
			"Bytes that a script may hold while it runs."),
		intParam("tracking-table-max-keys", 1000000, 0, math.MaxInt64, true, func(c *Config) *int64 { return &c.TrackingKeys },
			"Keys that are remembered for client-side caching; beyond, clients are told to forget some. 0: no limit."),
		memoryParam("hll-sparse-max-bytes", "3000", 0, true, func(c *Config) *int64 { return &c.HLLSparse },
			"Size above which a HyperLogLog takes its dense form."),
		immutable(enumParam("enable-debug-command", "no", []string{"no", "yes", "local"}, func(c *Config) *string { return &c.DebugCommand },
			"Whether DEBUG is allowed: no, yes, or to clients on this machine only.")),
	}
}

// keepable reports whether CONFIG SET accepts the value that an immutable parameter has: Redis can change these.
func (p *Param) keepable() bool {
	switch p.Name {
	case "bind", "port", "tls-port", "loops":
		return true
	}
	return false
}

func immutable(p Param) Param { p.Mutable = false; return p }

// redisParams are Redis' parameters that have one value here.
func redisParams() []Param {
	return []Param{
		inertParam("save", "", checkSave, "Accepted and shown, without effect: every acknowledged write is on the volume already."),
		inertParam("repl-backlog-size", "1048576", checkMemoryText, "Accepted and shown, without effect: there are no replicas."),
		hidden(inertParam("repl-ping-replica-period", "10", checkNothing, "Accepted, without effect: there are no replicas.")),
		inertParam("maxmemory-clients", "0", checkPercent, "Accepted and shown, without effect: each client's memory is bounded by its own limits."),
		inertParam("aof-use-rdb-preamble", "yes", checkYesNo, "Accepted and shown, without effect: the volume has its own format."),
		secret(inertParam("masterauth", "", checkNothing, "Accepted, without effect: there is no master.")),
		immutable(fixedParam("daemonize", "no", "The server stays in the foreground.")),
		immutable(fixedParam("replicaof", "", "There are no replicas.")),
		immutable(fixedParam("slaveof", "", "Redis' old name of replicaof.")),
		hidden(inertParam("key-load-delay", "0", checkNothing, "Accepted, without effect: one of Redis' own tests reads it.")),
		fixedParam("appendonly", "yes", "The volume is a journal: always on."),
	}
}

func secret(p Param) Param { p.Secret = true; return p }

func durabilityParam() Param {
	return Param{
		Name: "durability", Kind: KindEnum, Default: "fresh", Mutable: true, Values: levels,
		Help: "Level that a reply waits for unless its connection chose another: fresh (durable and committed to the trusted counter), durable, everysec.",
		get:  func(c *Config) string { return c.Durability },
		set: func(c *Config, s string) error {
			s = strings.ToLower(s)
			if !slices.Contains(levels, s) {
				return fmt.Errorf("argument must be one of the following: %s", strings.Join(levels, ", "))
			}
			c.Durability = s
			return nil
		},
	}
}

// appendFsyncParam maps Redis' name onto durability: always is fresh, everysec is everysec.
func appendFsyncParam() Param {
	return Param{
		Name: "appendfsync", Kind: KindEnum, Mutable: true, Values: []string{"always", "everysec"},
		Help: "Redis' name for durability: always means fresh.",
		get: func(c *Config) string {
			if c.Durability == "everysec" {
				return "everysec"
			}
			return "always"
		},
		set: func(c *Config, s string) error {
			switch strings.ToLower(s) {
			case "always":
				c.Durability = "fresh"
			case "everysec":
				c.Durability = "everysec"
			default:
				return fmt.Errorf("argument must be one of the following: always, everysec")
			}
			return nil
		},
	}
}

// fixedParam answers CONFIG GET for a parameter of Redis' that has one value here. Setting it to that value is accepted.
func fixedParam(name, value, help string) Param {
	return Param{
		Name: name, Kind: KindString, Default: value, Mutable: true, Help: help,
		get: func(*Config) string { return value },
		set: func(_ *Config, s string) error {
			if s != value {
				return fmt.Errorf("this server supports only '%s'", value)
			}
			return nil
		},
	}
}
