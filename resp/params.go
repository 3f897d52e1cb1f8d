package resp

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// levels are the names of the durability levels (DESIGN.md 4.1).
var levels = []string{"fresh", "durable", "everysec"}

// params is the one table of parameters. Names and syntax are those of redis.conf where Redis has the parameter.
var params = []Param{
	listParam("bind", "127.0.0.1", func(c *Config) *[]string { return &c.Bind },
		"Addresses to listen on. A leading '-' makes an unavailable address no error."),
	intParam("port", 6379, PortAny, 65535, false, func(c *Config) *int64 { return &c.Port }, "TCP port."),
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
	memoryParam("client-output-pause", "1mb", 1<<12, true, func(c *Config) *int64 { return &c.OutBufSoft },
		"Pending output of one client above which its next commands wait."),
	intParam("hz", 10, 1, 500, true, func(c *Config) *int64 { return &c.Hz },
		"Rounds of background work (expiry, timeouts) a second."),
	stringParam("dir", ".", false, func(c *Config) *string { return &c.Dir }, "Directory of the volume."),
	fixedParam("save", "", "Every acknowledged write is on the volume already: no snapshots."),
	fixedParam("appendonly", "yes", "The volume is a journal: always on."),
	fixedParam("maxmemory", "0", "No limit of its own yet."),
	fixedParam("maxmemory-policy", "noeviction", "Nothing is evicted from the volume."),
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

// outputLimitParam takes Redis' syntax, "class hard soft seconds" repeated; the hard limit of class normal counts.
func outputLimitParam() Param {
	return Param{
		Name: "client-output-buffer-limit", Kind: KindString, Default: "normal 1073741824 0 0", Mutable: true,
		Help: "As in redis.conf; the hard limit of class normal closes a client whose pending output is above it.",
		get:  func(c *Config) string { return "normal " + strconv.FormatInt(c.OutBufHard, 10) + " 0 0" },
		set: func(c *Config, s string) error {
			f := strings.Fields(s)
			if len(f) == 0 || len(f)%4 != 0 {
				return fmt.Errorf("wrong number of arguments in buffer limit configuration")
			}
			for i := 0; i < len(f); i += 4 {
				hard, err := ParseMemory(f[i+1])
				if err != nil {
					return fmt.Errorf("error in hard, soft or soft_seconds setting in buffer limit configuration")
				}
				switch strings.ToLower(f[i]) {
				case "normal":
					c.OutBufHard = hard
				case "slave", "replica", "pubsub":
				default:
					return fmt.Errorf("invalid client class specified in buffer limit configuration")
				}
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
