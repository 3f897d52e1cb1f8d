package resp

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cvmstore/kvs"
)

// Config holds every parameter of the front end. The zero value is not usable: start from DefaultConfig. A running server
// holds an immutable copy; CONFIG SET replaces it as a whole.
type Config struct {
	Bind        []string // addresses to listen on; a leading "-" means: not an error if unavailable
	Port        int64    // PortAny: any free port (Go callers only)
	UnixSocket  string   // path; empty: none
	UnixPerm    int64    // mode bits; 0: as the umask has it
	TCPBacklog  int64
	TCPKeep     int64 // seconds; 0: off
	Timeout     int64 // seconds an idle client may stay; 0: for ever
	MaxClients  int64
	Databases   int64
	RequirePass string
	Protected   bool

	TLSPort        int64 // 0: none; PortAny: any free port
	TLSCert        string
	TLSKey         string
	TLSCACert      string
	TLSAuthClients string // yes, no, optional
	TLSProtocols   string

	Durability   string // default level of a connection: fresh, durable, everysec
	ReplyTimeout int64  // milliseconds a reply waits for its level before it becomes an error
	Loops        int64  // event loops; 0: chosen from the number of cores

	ProtoMaxBulk  int64 // bytes of one argument
	QueryBufLimit int64 // bytes of one client's unprocessed input
	OutBufSoft    int64 // bytes of pending output above which a client's commands wait
	OutBuf        [outClasses]outputLimit
	MaxMemory     int64 // bytes; 0: no limit
	MemoryPolicy  string
	MemorySamples int64
	LFULogFactor  int64
	LFUDecay      int64 // minutes
	TrackingKeys  int64 // keys that are remembered for client-side caching; 0: no limit
	Notify        notifyFlags
	HLLSparse     int64 // bytes above which a HyperLogLog becomes dense

	SlowlogUsec   int64 // commands that take longer are noted; negative: none
	SlowlogLen    int64
	LatencyMillis int64  // events that take at least so long are noted; 0: none
	DebugCommand  string // no, yes, local
	ACLLogLen     int64
	LuaTimeLimit  int64 // milliseconds; 0: none
	LuaMemory     int64 // bytes

	Limits kvs.Limits // encodings of collections
	// StreamNodeEntries is how many entries of a stream approximate trimming drops at once.
	StreamNodeEntries int64

	inert map[string]string // values of parameters that have no effect here; never changed in place

	Hz  int64
	Dir string // shown by CONFIG GET dir; the command line gives it its meaning
}

// PortAny as Config.Port listens on a free port; Server.Addr tells which.
const PortAny = -1

// Param describes one parameter: the command line builds flags and the TOML file's keys from it, CONFIG answers from it.
type Param struct {
	Name    string // as in redis.conf where Redis has it
	Kind    ParamKind
	Default string // in the syntax of redis.conf
	Mutable bool   // CONFIG SET may change it while the server runs
	Secret  bool   // never logged
	Hidden  bool   // CONFIG GET shows it only when it is named in full
	Values  []string
	Help    string

	get func(*Config) string
	set func(*Config, string) error
}

// ParamKind says which syntax a parameter's value has.
type ParamKind uint8

// Kinds of parameters. Memory takes units as in redis.conf (1k, 1kb, 1m, 1mb, 1g, 1gb).
const (
	KindInt ParamKind = iota
	KindBool
	KindString
	KindMemory
	KindEnum
	KindList
)

// DefaultConfig returns the configuration that results from no flags and no file.
func DefaultConfig() Config {
	var c Config
	for i := range params {
		if params[i].Default == "" && params[i].Kind != KindList {
			continue
		}
		if err := params[i].set(&c, params[i].Default); err != nil {
			panic("internal error: default of " + params[i].Name + ": " + err.Error())
		}
	}
	return c
}

// Params returns the table of parameters, in the order in which they should be shown.
func Params() []Param { return params }

// Set parses value as redis.conf would and stores it under name. The error says what was expected.
func (c *Config) Set(name, value string) error {
	p := param(name)
	if p == nil {
		return fmt.Errorf("unknown parameter %q", name)
	}
	return p.set(c, value)
}

// Get returns the value of a parameter in the syntax of redis.conf.
func (c *Config) Get(name string) (value string, ok bool) {
	p := param(name)
	if p == nil {
		return "", false
	}
	return p.get(c), true
}

// ReplyTimeoutDuration returns how long a reply waits for its level.
func (c *Config) ReplyTimeoutDuration() time.Duration {
	return time.Duration(c.ReplyTimeout) * time.Millisecond
}

func param(name string) *Param {
	name = strings.ToLower(name)
	for i := range params {
		if params[i].Name == name {
			return &params[i]
		}
	}
	return nil
}

// ParseMemory parses a number of bytes with the units of redis.conf: k, kb, m, mb, g, gb, b (kb = 1024, k = 1000).
func ParseMemory(s string) (int64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	end := len(t)
	for end > 0 && (t[end-1] < '0' || t[end-1] > '9') {
		end--
	}
	units := map[string]int64{"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000000, "mb": 1 << 20, "g": 1000000000, "gb": 1 << 30}
	unit, ok := units[t[end:]]
	n, err := strconv.ParseInt(t[:end], 10, 64)
	if !ok || err != nil || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("argument must be a memory value")
	}
	return n * unit, nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
