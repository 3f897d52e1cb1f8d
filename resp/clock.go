package resp

import "time"

var clockStart = time.Now()

// nanos is the monotonic clock of the loops, in nanoseconds since the process began plus one second, so that 0 can mean never.
func nanos() int64 { return int64(time.Since(clockStart)) + int64(time.Second) }
