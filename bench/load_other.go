//go:build !linux

package bench

import (
	"context"
	"errors"
)

type load struct {
	port     int
	get      bool
	clients  int
	pipeline int
	n        int
	password string // empty: none is asked for
	fill     bool   // the keys come in turn rather than by chance
}

func generate(context.Context, load) (sample, error) {
	return sample{}, errors.New("the load generator needs Linux: unsupported")
}
