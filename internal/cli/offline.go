package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/files"
	"cvmstore/ioengine/device"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/resp"
	"cvmstore/seal"
	sharedlog "cvmstore/streams"
	"cvmstore/volume"
)

// offline is a private server on a volume, for this process alone: its only port is a Unix socket in a directory of its own. What
// seals and unseals speaks to it as any client would, so that data goes through the same checks as on a live server.
type offline struct {
	dir     string
	socket  string
	dev     device.Device
	counter *epoch.Embedded
	volumes *opened
	server  *resp.Server
	stop    func() // of compaction
}

// offlineOptions say what to open. The device and the counter are closed with it, also when it does not open.
type offlineOptions struct {
	dev     device.Device
	counter *epoch.Embedded
	keys    *seal.Keys
	foreign bool // format over data that is not ours
	log     zerolog.Logger
}

// offlineEpoch is how often an offline volume tells its counter, which is a file beside it.
const offlineEpoch = 281 * time.Millisecond

func openOffline(ctx context.Context, oo offlineOptions) (s *offline, err error) {
	s = &offline{dev: oo.dev, counter: oo.counter}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	o := defaultOptions()
	space := keyspace.New(keyspace.Options{Databases: int(o.server.Databases), CacheBytes: -1, BlobBytes: o.blobBytes()})
	kvs.NewCollections(space, 1<<20)
	sharedlog.New(space, 1<<20)
	files.New(space)
	vo := o.volumeOptions()
	vo.Device, vo.Counter, vo.Keys, vo.Log = oo.dev, oo.counter, oo.keys, oo.log
	vo.EpochLength, vo.FormatForeign = offlineEpoch, oo.foreign
	vo.Stores = map[volume.Store]volume.Replayer{volume.StoreKeys: space}
	v, err := volume.Open(ctx, vo)
	if err != nil {
		return s, err
	}
	s.volumes = newOpened(v, space, nil)
	space.Attach(v)
	if s.dir, err = os.MkdirTemp("", "cvmstore-offline-"); err != nil { // mode 0700
		return s, err
	}
	s.socket = filepath.Join(s.dir, "s")
	config := resp.DefaultConfig()
	config.Port, config.UnixSocket, config.Durability = 0, s.socket, "everysec"
	config.ReplyTimeout = int64(offlineReply / time.Millisecond)
	if s.server, err = resp.New(resp.Options{Config: config, Volume: v, Space: space, Log: oo.log, Version: Version}); err != nil {
		return s, err
	}
	s.server.Start()
	s.stop = maintain(ctx, s.volumes)
	return s, nil
}

// offlineReply is how long a reply may wait for the disk: a slow one may be busy with gigabytes.
const offlineReply = 10 * time.Minute

// dial connects to the server.
func (s *offline) dial() (net.Conn, error) {
	return net.DialTimeout("unix", s.socket, stopTimeout)
}

// close commits everything, and closes all.
func (s *offline) close() (err error) {
	if s.server != nil {
		ctx, done := context.WithTimeout(context.Background(), stopTimeout)
		err = errors.Join(err, s.server.Shutdown(ctx))
		done()
	}
	if s.stop != nil {
		s.stop()
	}
	if s.volumes != nil {
		err = errors.Join(err, closeVolume(s.volumes.Load()))
	}
	err = errors.Join(err, s.dev.Close(), s.counter.Close())
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}
