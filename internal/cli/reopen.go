package cli

import (
	"context"
	"sync/atomic"

	"cvmstore/keyspace"
	"cvmstore/resp"
	"cvmstore/volume"
)

// opened is the volume in force: DEBUG RELOAD puts another one in its place.
type opened struct {
	atomic.Pointer[volume.Volume]
	space *keyspace.Space
	open  func(context.Context) (*volume.Volume, error) // the same volume once more; nil: that is not offered
}

func newOpened(v *volume.Volume, space *keyspace.Space, open func(context.Context) (*volume.Volume, error)) *opened {
	o := &opened{space: space, open: open}
	o.Store(v)
	return o
}

// reload is what resp calls for DEBUG RELOAD; nil if it is not offered.
func (o *opened) reload() func() (resp.Volume, error) {
	if o.open == nil {
		return nil
	}
	return func() (resp.Volume, error) {
		if err := closeVolume(o.Load()); err != nil {
			return nil, err
		}
		ctx, done := context.WithTimeout(context.Background(), reopenTimeout)
		defer done()
		v, err := o.open(ctx)
		if err != nil {
			return nil, err
		}
		o.space.Attach(v)
		o.Store(v)
		return v, nil
	}
}
