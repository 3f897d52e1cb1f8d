package command

import (
	"time"

	"cvmstore/epoch/wire"
	"cvmstore/files"
	"cvmstore/keyspace"
	"cvmstore/resp/pubsub"
	"cvmstore/streams"
	"cvmstore/volume"
)

// Ctx is one command in execution. A loop owns one and uses it again and again: nothing of it may be kept.
type Ctx struct {
	Args  [][]byte // the command's name and arguments: slices of the query buffer, valid during the call
	Cmd   *Command
	S     *Session
	Reply Reply
	Tx    *keyspace.Tx // begun with the command's keys when Cmd.Locks says so
	Space *keyspace.Space
	Srv   Server
	Now   int64 // monotonic nanoseconds at the start of the command
	// Depends is the newest counter that the reply depends on beyond what Tx has seen.
	Depends volume.Counter
	Loose   bool // the reply depends on nothing stored; handlers that lock for themselves may set it

	// Multi: the command is one of several that are executed as one batch. It must not park, nor lock anything itself.
	Multi bool
	// Rehearsal: and for now only to find out what it needs. What it replies is thrown away.
	Rehearsal bool
	// Script: a script or function has called the command.
	Script bool

	Pushes bool // what the command appends is no reply: CLIENT REPLY does not silence it

	// Resume says why a parked command runs again; Park is where a command that returns ErrPark says what it waits for.
	Resume Resume
	Park   Park
	Ready  []byte // with ResumeReady, of a wait for keys: the key that has changed

	// Body is the argument Cmd.Body where that is a large value: the argument itself is empty then. The reference is the loop's.
	Body *volume.Blob

	Planned *files.Plan // what Command.Plan has made for this run

	keys   [][]byte
	values valueScratch
}

// Session is a client's state as commands see it. Only the loop that serves the client touches it.
type Session struct {
	ID            uint64
	Addr, LocalAt string
	Near          bool // the client is on this machine
	Unix          bool // it came through the Unix socket
	DB            int
	Proto         int // 2 or 3
	Authenticated bool
	User          string
	Name          string
	LibName       string
	LibVer        string
	Level         volume.Level // 0: the server's default
	NoEvict       bool
	NoTouch       bool
	ReplyMode     ReplyMode
	CloseAfter    bool // close once all replies have left
	Created       int64
	LastUsed      int64 // monotonic nanoseconds
	LastCmd       *Command
	LastWrite     volume.Counter // newest counter of this session's own writes
	Commands      uint64
	BytesIn       uint64
	BytesOut      uint64
	QueryBytes    int // unprocessed input; set before a listing
	OutputBytes   int // pending output; set before a listing
	FD            int
	Monitor       bool              // it is sent every command
	Blocked       bool              // it waits in a command; set before a listing
	Subs          [pubsub.Kinds]int // how many of each kind it listens to
	Tracking      Tracking
	Queueing      bool   // between MULTI and EXEC
	Queued        int    // commands since MULTI
	Kill          bool   // set by a visit: close it
	Unblock       Resume // set by a visit: end its wait
}

// ReplyMode is what CLIENT REPLY chose.
type ReplyMode uint8

// The reply modes. Skipping means: this command's reply, and then on again.
const (
	ReplyOn ReplyMode = iota
	ReplyOff
	ReplySkipNext
	ReplySkipping
)

// Reset brings the session back to its first state, as RESET does.
func (s *Session) Reset(authenticated bool) {
	s.DB, s.Proto, s.Name, s.Level = 0, 2, "", 0
	s.NoEvict, s.NoTouch, s.Monitor, s.ReplyMode = false, false, false, ReplyOn
	s.Authenticated, s.User = authenticated, "default"
}

// Park is what a session waits for: the counter to reach the level, or the deadline, or another loop's answer.
type Park struct {
	Counter volume.Counter
	Level   volume.Level
	Until   int64 // monotonic nanoseconds; 0: no deadline
	Answer  bool  // Server.Gather resumes
	Paused  bool  // CLIENT UNPAUSE resumes

	Keys [][]byte        // a change of one of these resumes
	Type keyspace.TypeID // that they must have then

	Since []streams.ID // of XREAD: the IDs behind which it reads, as they were when it came
}

// Resume says why a parked command runs again.
type Resume uint8

// Reasons to run a command again.
const (
	ResumeNone      Resume = iota // it runs for the first time, or again after a miss or a busy volume
	ResumeReady                   // what it waited for has happened
	ResumeTimeout                 // its deadline has passed
	ResumeUnblocked               // CLIENT UNBLOCK ERROR: it is answered with an error without running
)

// Server is what commands need of the server around them. All methods are called on the session's loop.
type Server interface {
	Transactions
	Scripts
	Messages
	Attestations
	Waits
	Trackers
	// ConfigGet calls emit for each parameter whose name matches one of the patterns.
	ConfigGet(patterns [][]byte, emit func(name, value string))
	// ConfigSet sets name, value, name, value ... all or none.
	ConfigSet(pairs [][]byte) error
	// DefaultFree reports whether the default user needs no password.
	DefaultFree() bool
	Users() Users
	// DefaultLevel is the level of sessions that chose none.
	DefaultLevel() volume.Level
	// Volume is nil for a server without one (tests).
	Volume() Volume
	// Gather runs visit for every session of every loop, each on its own loop, and returns what visit appended. ok is false
	// when other loops have yet to answer: the command returns ErrPark with Park.Answer and asks again when resumed.
	Gather(c *Ctx, visit func(s *Session, now int64, out []byte) []byte) (out []byte, ok bool)
	// Receipt asks for the receipt of a claim, after which the command returns ErrPark with Park.Answer; without a claim, resumed, it
	// returns what came of it.
	Receipt(c *Ctx, claim *wire.Claim) (receipt []byte, asked bool, err error)
	// ReplyTimeout bounds how long a command waits for the trusted counter.
	ReplyTimeout() time.Duration
	Stats() *Stats
	ResetStats()
	// Latencies calls emit for each command that was executed, with its histogram.
	Latencies(emit func(cmd *Command, buckets *[Buckets]uint64))
	Observed() *Observed
	// ConfigRewrite writes the parameters in force into the configuration file.
	ConfigRewrite() error
	// Pause holds back all commands, or those that may write, until then (monotonic nanoseconds).
	Pause(until int64, all bool)
	Unpause()
	// Monitoring counts the sessions that are sent every command.
	Monitoring(change int64)
	DebugAllowed(*Session) bool
	SetActiveExpire(on bool)
	LogLine(text string)
	MaxMemory() int64
	// UsedMemory is what maxmemory is compared with.
	UsedMemory() int64
	// HLLSparseMax is the size above which a HyperLogLog becomes dense.
	HLLSparseMax() int
	// Reload closes the volume and recovers it in place. It parks the command, which asks again when resumed.
	Reload(c *Ctx) error
	// Shutdown begins an orderly stop.
	Shutdown()
}

// Volume is what commands ask the volume directly.
type Volume interface {
	Reached(volume.Counter, volume.Level) bool
	Watermarks() (applied, durable, fresh volume.Counter)
	Status() volume.Status
	// Lapsed: nothing may be called fresh now, until the counter has confirmed this server again.
	Lapsed() bool
	Err() error
	Now() int64
	Hold(time.Duration) uint64
	Unhold()
}

// Stats is a snapshot of what INFO shows of the server.
type Stats struct {
	Version, RunID, ConfigFile string
	TLSPort                    int
	Monitors                   int64
	TLSFailed                  uint64 // handshakes
	PerError                   func(emit func(code string, n uint64))
	Port, Loops                int
	Started                    time.Time
	Connected, MaxClients      int64
	Blocked                    int64
	Connections, Rejected      uint64
	Commands                   uint64
	NetIn, NetOut              uint64
	OutputLimitClosed          uint64
	QueryLimitClosed           uint64
	ErrorReplies               uint64
	OpsPerSec                  uint64
	KBIn, KBOut                float64 // a second
	Uncertain                  uint64  // replies that became errors because their level was not reached
	ActiveExpired              uint64
	PerCommand                 func(emit func(cmd *Command, calls, failed, rejected uint64, busy time.Duration))
	Extra                      []Field // what the command line adds: device name, AEGIS implementation ...
}

// Field is a line of INFO.
type Field struct{ Name, Value string }
