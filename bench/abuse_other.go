//go:build !linux

package bench

import (
	"context"
	"errors"
	"io"
	"time"
)

// AbuseOptions say how badly to treat a server.
type AbuseOptions struct {
	Dir, Server  string
	Idle, Rounds int
	Slice        time.Duration
	Out          io.Writer
}

// Abuse needs Linux.
func Abuse(context.Context, AbuseOptions) error {
	return errors.New("the abuse of a server needs Linux: unsupported")
}
