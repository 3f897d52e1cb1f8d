package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"cvmstore/files"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/filedev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/resp"
	sharedlog "cvmstore/streams"
	"cvmstore/volume"
)

// serveCommand is "cvmstore serve".
type serveCommand struct {
	Config       string `type:"existingfile" placeholder:"FILE" help:"TOML file with settings; configs/cvmstore.toml explains each."`
	kong.Plugins        // the flags of newFlagSet

	flags flagSet
}

func (c *serveCommand) init() {
	c.flags = newFlagSet()
	c.Plugins = kong.Plugins{c.flags.fields.Interface()}
}

// options reads the file, then the flags over it.
func (c *serveCommand) options() (options, error) {
	o := defaultOptions()
	if c.Config != "" {
		if err := readFile(&o, c.Config); err != nil {
			return o, err
		}
	}
	return o, assign(&o, "command line", c.flags.given())
}

// Run serves until a signal or a fatal error.
func (c *serveCommand) Run(s *streams) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	log, closeLog, err := openLog(&o, s.err)
	if err != nil {
		return err
	}
	// A terminal that goes away is no reason to stop; the signal means: read the certificates again.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	o.reload, o.configFile = hangup, absolute(c.Config)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err = serve(ctx, &o, log)
	if err == nil {
		return closeLog()
	}
	wrong, todo, code := explain(err)
	last := log.Error().Int("exit", code)
	if todo != "" {
		last = last.Str("todo", todo)
	}
	last.Msg(wrong)
	err = errors.Join(err, closeLog())
	if o.logFile == "" && o.logLevel != "nothing" {
		return reported{err}
	}
	return err
}

// blocksUnlimited bounds a volume in a file whose size nobody limited: 16 TiB, the largest file of ext4.
const blocksUnlimited device.BlockCount = 1 << 32

// serve runs one server until ctx ends or it cannot go on. Everything that it opened is closed when it returns.
func serve(ctx context.Context, o *options, log zerolog.Logger) (err error) {
	o.startup = newStartup()
	if err := checkExposure(o); err != nil {
		return err
	}
	log.Info().Str("version", Version).Str("dir", o.server.Dir).Int("pid", os.Getpid()).Msg("cvmstore starts")
	if err := openNVMe(ctx, o, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.nvme.close()) }()
	if err := keepMemory(o, log); err != nil {
		return err
	}
	p, err := prepare(ctx, o, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if p.provisioned == nil && p.remote == nil {
		log.Warn().Msg("the counter and the key are files of this machine: this protects against nothing that controls " +
			o.server.Dir + ". Fit for development, and where the disk is trusted anyway")
	}

	dev, err := openVolumeDevice(ctx, o, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	o.startup.end("device")

	space := keyspace.New(keyspace.Options{Databases: int(o.server.Databases), CacheBytes: o.cacheBytes() * 3 / 4, BlobBytes: o.blobBytes()})
	kvs.NewCollections(space, o.cacheBytes()/8)
	sharedlog.New(space, o.cacheBytes()/8)
	files.New(space)
	vo := o.volumeOptions()
	vo.Device, vo.Counter, vo.Keys, vo.Log, vo.FreshLease = dev, p.counter, p.keys, log, p.lease(o)
	vo.Stores = map[volume.Store]volume.Replayer{volume.StoreKeys: space}
	o.reopen = func(ctx context.Context) (*volume.Volume, error) { return volume.Open(ctx, vo) }
	v, err := o.reopen(ctx)
	if err != nil {
		return err
	}
	space.Attach(v)
	r := v.Status().Recovery
	o.startup.end("volume", phase{"chain", r.Chain}, phase{"summaries", r.Summaries}, phase{"settle", r.Settle}, phase{"opening", r.Opening})
	return run(ctx, o, log, v, space, p)
}

// keepMemory sees to it, before keys come by attestation, that memory stays in this VM. A simulated platform is told of what is missing
// and goes on.
func keepMemory(o *options, log zerolog.Logger) error {
	if o.provision == "" {
		return nil
	}
	err := errors.Join(forbidDumps(log), checkMemory("/"))
	if err == nil || o.attester == "" {
		return err
	}
	log.Warn().Err(err).Msg("a confidential VM would not start so")
	return nil
}

// volumeOptions is what the settings say of a volume.
func (o *options) volumeOptions() volume.Options {
	return volume.Options{
		SegmentBlocks: device.BlocksFor(int(o.segmentSize)),
		EpochLength:   o.epochLength, EpochOps: o.epochOps, EpochBytes: int(o.epochBytes),
		EpochsUncommitted: o.epochsUncommitted, Blocking: o.epochMode == "blocking", Parallel: o.commitOrder == "parallel",
		FormatForeign: o.formatOver != "" && o.formatOver == o.volumePath(),
	}
}

// openVolumeDevice opens the file or block device of the volume, or takes the NVMe controller that is open already.
func openVolumeDevice(ctx context.Context, o *options, log zerolog.Logger) (device.Device, error) {
	if o.nvme.opened != nil {
		return o.nvme.take(), nil
	}
	blocksMax := blocksUnlimited
	if o.volumeSize > 0 {
		blocksMax = device.BlockCount(o.volumeSize / device.BlockSize)
	}
	return openDevice(ctx, func() (device.Device, error) {
		return filedev.Open(o.volumePath(), filedev.Options{
			Create: true, BlocksMax: blocksMax, Warn: func(msg string) { log.Warn().Msg(msg) },
		})
	})
}

// lockWait bounds how long a start waits for the volume's lock. We hold the counter's lock then, so the other holder is most
// likely a server that was killed: the kernel keeps the volume locked until the last write under way has ended, which takes some
// milliseconds, and on a slow disk longer.
const lockWait = 5 * time.Second

func openDevice[D device.Device](ctx context.Context, open func() (D, error)) (D, error) {
	ctx, done := context.WithTimeout(ctx, lockWait)
	defer done()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		dev, err := open()
		if !errors.Is(err, device.ErrLocked) {
			return dev, err
		}
		select {
		case <-ctx.Done():
			return dev, err
		case <-tick.C:
		}
	}
}

// blobBytes is from which size on values are blobs, as keyspace takes it.
func (o *options) blobBytes() int {
	if o.blobSize == 0 {
		return -1
	}
	return int(o.blobSize)
}

// cacheBytes is the size of the value cache as keyspace takes it.
func (o *options) cacheBytes() int64 {
	if o.cacheSize == 0 {
		return -1
	}
	return o.cacheSize
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); path != "" && err == nil {
		return full
	}
	return path
}

// checkExposure refuses a plaintext listener that others than this machine can reach.
func checkExposure(o *options) error {
	return exposed(o.server, o.insecurePort)
}

func exposed(config resp.Config, allowed bool) error {
	if allowed || config.Port == 0 {
		return nil
	}
	for _, bind := range config.Bind {
		host := strings.TrimPrefix(bind, "-")
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			continue
		}
		return fmt.Errorf("bind %s: %w: whoever is on the way reads and changes what clients send", bind, errExposed)
	}
	return nil
}

// maintain compacts in the background until the function that it returns is called. A volume that was recovered in place takes the
// place of the one before.
func maintain(ctx context.Context, volumes *opened) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			volumes.Load().Maintain(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(fencedPoll):
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
