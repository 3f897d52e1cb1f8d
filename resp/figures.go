package resp

import (
	"time"

	"cvmstore/keyspace"
	"cvmstore/resp/acl"
	"cvmstore/resp/command"
	"cvmstore/volume"
)

// Figures is a snapshot for metrics and the status page. Taking it costs the loops nothing: they count for themselves, without
// locks, and it adds up what they have counted.
type Figures struct {
	Stats      *command.Stats
	Volume     volume.Status
	Space      keyspace.Stats
	Commands   []CommandFigures
	Waits      []WaitFigures
	UsedMemory int64
	MaxMemory  int64
	// Denied by ACLs.
	DeniedLogins, DeniedCommands, DeniedKeys, DeniedChannels uint64
	Scripts, Libraries, Functions                            int
	Errors                                                   map[string]uint64
	Stopping                                                 bool
}

// CommandFigures are one command's. Bucket i counts executions of up to 1<<i microseconds; the last one all others.
type CommandFigures struct {
	Name                    string
	Calls, Failed, Rejected uint64
	Busy                    time.Duration
	Buckets                 [command.Buckets]uint64
}

// WaitFigures say how long replies of a level waited to be reached.
type WaitFigures struct {
	Level   string
	Buckets [command.Buckets]uint64
	Sum     time.Duration
}

// Figures may be called from any goroutine.
func (s *Server) Figures() Figures {
	v := &view{s: s}
	f := Figures{
		Stats: v.Stats(), Space: s.space.Stats(), UsedMemory: s.usedMemory(), MaxMemory: s.config.Load().MaxMemory,
		Errors: map[string]uint64{}, Stopping: s.stopping.Load(),
	}
	if s.opts.Volume != nil && !s.isReloading.Load() {
		f.Volume = s.opts.Volume.Status()
	}
	f.DeniedLogins, f.DeniedCommands, f.DeniedKeys, f.DeniedChannels = s.users.Denied()
	f.Scripts, f.Libraries, f.Functions, _ = v.ScriptFigures()
	s.errors.each(func(code string, n uint64) { f.Errors[code] = n })
	byName := map[string]int{}
	v.perCommand(func(cmd *command.Command, calls, failed, rejected uint64, busy time.Duration) {
		byName[cmd.Full()] = len(f.Commands)
		f.Commands = append(f.Commands, CommandFigures{Name: cmd.Full(), Calls: calls, Failed: failed, Rejected: rejected, Busy: busy})
	})
	v.Latencies(func(cmd *command.Command, buckets *[command.Buckets]uint64) {
		if i, ok := byName[cmd.Full()]; ok {
			f.Commands[i].Buckets = *buckets
		}
	})
	for level, name := range map[volume.Level]string{volume.LevelDurable: "durable", volume.LevelFresh: "fresh"} {
		w := WaitFigures{Level: name}
		for _, l := range s.loops {
			for b := range w.Buckets {
				w.Buckets[b] += l.stats.waits[level].buckets[b].Load()
			}
			w.Sum += time.Duration(l.stats.waits[level].nanos.Load())
		}
		f.Waits = append(f.Waits, w)
	}
	return f
}

// MayWatch reports whether a user, with this password, may see the server's figures: whoever may run INFO. The rate of failed
// logins is that of clients.
func (s *Server) MayWatch(remote, name, password string) bool {
	c := &command.Ctx{S: &command.Session{Addr: remote}, Args: [][]byte{[]byte("http")}}
	if s.users.Login(c, []byte(name), []byte(password)) != nil {
		return false
	}
	args := [][]byte{[]byte("info")}
	cmd, err := command.Lookup(args)
	if err != nil {
		return false
	}
	d, _ := command.Permitted(s.users.Get(name), cmd, args)
	return d == acl.Allowed
}

// noteWaits counts how long the replies that may leave now have waited for their level.
func (l *loop) noteWaits(s *session, now int64) {
	for i := range s.marks {
		m := &s.marks[i]
		if m.counter == 0 || m.deadline == 0 {
			continue
		}
		if !l.vol.Reached(m.counter, m.level) {
			return
		}
		took := time.Duration(now - m.deadline + int64(l.config.ReplyTimeoutDuration()))
		w := &l.stats.waits[m.level]
		bump(&w.buckets[command.Bucket(took)], 1)
		bump(&w.nanos, uint64(max(took, 0)))
	}
}
