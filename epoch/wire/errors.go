package wire

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"cvmstore/epoch"
)

// Errors travel as an HTTP status, and a line of text: a word, a colon, and what people read. The word counts, not the status.
var codes = []struct {
	word   string
	status int
	err    error
}{
	{"no-record", http.StatusNotFound, epoch.ErrNoRecord},
	{"exists", http.StatusConflict, epoch.ErrExists},
	{"fenced", http.StatusGone, epoch.ErrFenced},
	{"conflict", http.StatusPreconditionFailed, epoch.ErrConflict},
	{"frozen", http.StatusLocked, epoch.ErrFrozen},
	{"forbidden", http.StatusForbidden, epoch.ErrForbidden},
	{"order", http.StatusForbidden, ErrOrder},
	{"slow-down", http.StatusTooManyRequests, ErrSlowDown},
	{"malformed", http.StatusBadRequest, ErrMalformed},
}

// ErrSlowDown: this identity asks for more than its share. Nothing was changed.
var ErrSlowDown = errors.New("too many requests at once from this identity")

// ErrUnavailable: the service could not say; what was asked may have happened.
var ErrUnavailable = errors.New("the counter service could not answer")

// textMax bounds an error's text, at both ends.
const textMax = 500

// EncodeError returns the status and body for err.
func EncodeError(err error) (status int, body string) {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(text) > textMax {
		text = text[:textMax]
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.status, c.word + ": " + text + "\n"
		}
	}
	return http.StatusServiceUnavailable, "unavailable: the service could not answer\n"
}

// DecodeError is its inverse: an error that errors.Is tells apart like the service's own.
func DecodeError(status int, body []byte) error {
	word, text, _ := strings.Cut(printable(body), ": ")
	for _, c := range codes {
		if word == c.word {
			return fmt.Errorf("the service says: %s: %w", text, c.err)
		}
	}
	return fmt.Errorf("%w: status %d", ErrUnavailable, status)
}

// printable keeps what can be shown: the text may have been made by somebody who wants to write to a terminal.
func printable(b []byte) string {
	if len(b) > textMax {
		b = b[:textMax]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, string(b)))
}
