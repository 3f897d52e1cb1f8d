package resp

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cvmstore/resp/command"
)

// outputLimit is one class of client-output-buffer-limit: a client is closed when its pending output is above hard, or has been
// above soft for so many seconds. 0: never.
type outputLimit struct{ hard, soft, seconds int64 }

// The classes of clients. Replicas do not exist here; their limits are kept and shown.
const (
	outNormal = iota
	outReplica
	outPubSub
	outClasses
)

var outClassNames = [outClasses]string{"normal", "slave", "pubsub"}

// exceeded reports whether a client with n bytes pending is to be closed. since is when it was first seen above the soft limit;
// the caller keeps it.
func (o *outputLimit) exceeded(n, now int64, since *int64) bool {
	if o.hard > 0 && n > o.hard {
		return true
	}
	if o.soft == 0 || n <= o.soft {
		*since = 0
		return false
	}
	if *since == 0 {
		*since = now
	}
	return now-*since > o.seconds*int64(time.Second)
}

// outputLimitParam takes Redis' syntax, "class hard soft seconds" repeated; classes that are not named stay as they are.
func outputLimitParam() Param {
	return Param{
		Name: "client-output-buffer-limit", Kind: KindString, Mutable: true,
		Default: "normal 1073741824 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
		Help:    "Class, hard limit, soft limit and seconds, as in redis.conf: a client whose pending output is above the hard limit, or for so long above the soft one, is closed.",
		get: func(c *Config) string {
			var b strings.Builder
			for i, o := range c.OutBuf {
				if i > 0 {
					b.WriteByte(' ')
				}
				fmt.Fprintf(&b, "%s %d %d %d", outClassNames[i], o.hard, o.soft, o.seconds)
			}
			return b.String()
		},
		set: func(c *Config, s string) error {
			f := strings.Fields(s)
			if len(f) == 0 || len(f)%4 != 0 {
				return command.Error("Wrong number of arguments in buffer limit configuration.")
			}
			next := c.OutBuf
			for i := 0; i < len(f); i += 4 {
				class := outClass(f[i])
				if class < 0 {
					return command.Error("Invalid client class specified in buffer limit configuration.")
				}
				hard, err1 := ParseMemory(f[i+1])
				soft, err2 := ParseMemory(f[i+2])
				seconds, err3 := strconv.ParseInt(f[i+3], 10, 32)
				if err1 != nil || err2 != nil || err3 != nil || seconds < 0 {
					return command.Error("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
				}
				next[class] = outputLimit{hard, soft, seconds}
			}
			c.OutBuf = next
			return nil
		},
	}
}

func outClass(name string) int {
	switch strings.ToLower(name) {
	case "normal":
		return outNormal
	case "slave", "replica":
		return outReplica
	case "pubsub":
		return outPubSub
	}
	return -1
}

// bound stops a session whose client does not take its replies.
func (l *loop) bound(s *session) {
	n := int64(s.pending())
	if l.config.OutBuf[s.class()].exceeded(n, l.now, &s.softSince) {
		l.overflow(s, n)
		return
	}
	if s.phase == phaseRun && (n > l.config.OutBufSoft || len(s.marks) >= marksMax || len(s.parts) >= partsMax) {
		s.phase = phaseSlow
	}
}

// overflow closes a session whose client leaves n bytes of replies lying.
func (l *loop) overflow(s *session, n int64) {
	bump(&l.stats.outputClosed, 1)
	l.srv.log.Warn().Uint64("client", s.ID).Int64("bytes", n).Msg("closed: pending output above client-output-buffer-limit")
	l.close(s)
}

// marksMax bounds the replies of one client that wait for their levels.
const marksMax = 16 << 10
