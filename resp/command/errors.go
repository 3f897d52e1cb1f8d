package command

import (
	"errors"
	"fmt"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// ErrPark asks the loop to park the session until what Ctx.Park says, and to run the command again.
var ErrPark = errors.New("internal: parked")

// Error is an error reply: code, space, text.
type Error string

func (e Error) Error() string { return string(e) }

// Texts that several commands share, as Redis words them.
const (
	errSyntax      = Error("ERR syntax error")
	errNotInteger  = Error("ERR value is not an integer or out of range")
	errDBRange     = Error("ERR DB index is out of range")
	errNoAuth      = Error("NOAUTH Authentication required.")
	errWrongPass   = Error("WRONGPASS invalid username-password pair or user is disabled.")
	errTimeoutNeg  = Error("ERR timeout is negative")
	errTimeoutInt  = Error("ERR timeout is not an integer or out of range")
	errClientNames = Error("ERR Client names cannot contain spaces, newlines or special characters.")
)

// Retry reports whether a command that returned err has changed nothing and is to be run again: after a fetch of the misses
// (miss), or after the volume's next progress (busy).
func Retry(err error) (miss, busy bool) {
	if err == nil {
		return false, false
	}
	return errors.Is(err, keyspace.ErrMiss), errors.Is(err, volume.ErrBusy)
}

// Text words an error as a reply, code first.
func Text(err error) string {
	var own Error
	switch {
	case errors.As(err, &own):
		return string(own)
	case errors.Is(err, volume.ErrFull):
		return "OOM command not allowed: the volume is full; delete keys or enlarge it"
	case errors.Is(err, volume.ErrTooLarge):
		return "ERR the values of this command are too large for this volume"
	case errors.Is(err, volume.ErrFenced):
		return "FENCED another server opened this store; this one no longer writes"
	case errors.Is(err, volume.ErrFailed):
		return "IOERR the device failed and writing has stopped; nothing was changed by this command"
	case errors.Is(err, volume.ErrCorrupt):
		return "CORRUPT " + err.Error()
	case errors.Is(err, volume.ErrClosed):
		return "ERR the volume is closed"
	case errors.Is(err, volume.ErrBusy):
		return "TRYAGAIN nothing was changed: the volume waits for its device or its trusted counter"
	}
	text := err.Error()
	if hasCode(text) {
		return text
	}
	return "ERR " + text
}

// Unreached words the error that replaces a reply whose level was not reached, because of the volume's error or, if that is
// nil, because the time was up (DESIGN.md 4.4, 4.5).
func Unreached(cause error, waited fmt.Stringer) string {
	switch {
	case cause == nil:
		return "UNCERTAIN outcome unknown: not durable and committed within " + waited.String() + "; a write may still take effect"
	case errors.Is(cause, volume.ErrFenced):
		return "FENCED another server opened this store; outcome unknown, a write was not committed here"
	default:
		return "IOERR the device failed and writing has stopped; outcome unknown, a write may be lost"
	}
}

// hasCode reports whether text begins with an upper-case word and a space.
func hasCode(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c == ' ':
			return i > 2
		case c < 'A' || c > 'Z':
			return false
		}
	}
	return false
}

func wrongArity(name string) Error {
	return Error("ERR wrong number of arguments for '" + name + "' command")
}

func invalidExpire(c *Ctx) Error {
	return Error("ERR invalid expire time in '" + c.Cmd.Full() + "' command")
}
