package resp

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/keyspace"
	"cvmstore/resp/command"
	"cvmstore/resp/pubsub"
	"cvmstore/volume"
)

// Volume is what the front end needs of a volume; *volume.Volume satisfies it. Reached, Watermarks, Err and Status are called
// from every loop at any time; Step from every loop, of which one leads.
type Volume interface {
	command.Volume
	Step() bool
	Fds() []int
	Deadline() (time.Duration, bool)
	Want(volume.Counter, volume.Level)
	Subscribe(f func()) (cancel func())
	NewReader(depth int) (*volume.Reader, error)
	NewBlobIO() (*volume.BlobIO, error)
	NameHash(name []byte) string
}

// Options are what a server is made of. Space must be attached to Volume already; the server closes neither.
type Options struct {
	Config  Config
	Volume  Volume
	Space   *keyspace.Space
	Log     zerolog.Logger
	Version string          // of cvmstore, for INFO
	Info    []command.Field // further lines of INFO's section cvm: device name, AEGIS implementation ...
	// ConfigFile is the file that Config came from; empty: none. Rewrite writes the configuration in force into it.
	ConfigFile string
	Rewrite    func(Config) error
	// Receipts signs claims for CVM.RECEIPT; nil: the counter cannot.
	Receipts Receipter
	// Attested shows clients what this VM is; nil: nothing to show.
	Attested *Attested
	// OnShutdown is called, once and on a goroutine of its own, when a client sends SHUTDOWN. It should lead to Shutdown.
	OnShutdown func()
	// Exposed refuses a configuration that CONFIG SET is about to make listen in plaintext where it must not. nil: none is.
	Exposed func(Config) error
	// Reload closes the volume and recovers it into the same Space (DEBUG RELOAD), on a goroutine of its own, while no loop uses
	// either. Its volume takes Volume's place. nil: DEBUG RELOAD is refused.
	Reload func() (Volume, error)
}

// Server serves clients from New to Shutdown.
type Server struct {
	opts    Options
	log     zerolog.Logger
	space   *keyspace.Space
	config  atomic.Pointer[Config]
	loops   []*loop
	running sync.WaitGroup
	started time.Time
	runID   string

	listeners   atomic.Pointer[[]*listener]
	tls         atomic.Pointer[tls.Config]
	handshakes  handshakes
	tlsFailed   atomic.Uint64
	observed    command.Observed
	scripts     scripts
	users       users
	tracking    tracking
	directory   directory
	events      events
	waits       waits
	monitors    atomic.Int64
	subscribers pubsub.Registry[*session]
	errors      errorCounts
	pause       pause
	gauge       gauge
	expireOff   atomic.Bool // DEBUG SET-ACTIVE-EXPIRE 0
	cancel      func()      // of the subscription
	next        atomic.Uint64
	clientID    atomic.Uint64
	receipts    atomic.Int64 // being signed
	attests     atomic.Int64 // being made
	connected   atomic.Int64
	ops         opsMeter
	shutdown    sync.Once
	isReloading atomic.Bool
	stopping    atomic.Bool

	configMu sync.Mutex
}

// New checks the options, opens the listeners and makes the loops. Clients are served from Start on.
func New(o Options) (*Server, error) {
	if o.Space == nil {
		return nil, errors.New("resp: Options.Space is missing")
	}
	s := &Server{opts: o, log: o.Log, space: o.Space, started: time.Now()}
	config := o.Config
	s.config.Store(&config)
	s.space.Observe(s.onEvent)
	applyLimits(s.space, &config)
	if err := s.users.open(s); err != nil {
		return nil, err
	}
	if err := s.scripts.open(s); err != nil {
		return nil, err
	}
	if o.Volume != nil {
		applied, _, _ := o.Volume.Watermarks()
		s.observed.SavedAt.Store(uint64(applied))
	}
	s.gauge.live = command.HeapLive
	s.setMemory(&config)
	s.observed.LastSave.Store(s.started.Unix())
	id := make([]byte, 20)
	_, _ = rand.Read(id)
	s.runID = hex.EncodeToString(id)
	n := int(config.Loops)
	if n == 0 {
		n = max(1, runtime.NumCPU()/4)
	}
	for i := range n {
		l, err := newLoop(s, i, n)
		if err != nil {
			s.release()
			return nil, err
		}
		s.loops = append(s.loops, l)
	}
	if err := s.listen(); err != nil {
		s.release()
		return nil, err
	}
	if o.Volume != nil {
		s.subscribe()
	}
	return s, nil
}

// subscribe has the loops told of watermarks that another leader has moved.
func (s *Server) subscribe() {
	loops := s.loops
	s.cancel = s.opts.Volume.Subscribe(func() {
		for _, l := range loops {
			l.watermarks()
		}
	})
}

func newLoop(s *Server, num, of int) (*loop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{
		srv: s, vol: s.opts.Volume, poll: p, num: num, sessions: map[int]*session{},
		rbuf: make([]byte, readBytes), obuf: make([]byte, 0, readBytes),
	}
	l.takes = l.bodyFor
	l.stats.perCommand = make([]commandStats, len(command.All()))
	l.config = s.config.Load()
	l.ctx.Space, l.ctx.Srv = s.space, &view{s, l}
	if l.vol == nil {
		return l, nil
	}
	if err := l.takeVolume(of); err != nil {
		p.close()
		return nil, err
	}
	return l, nil
}

// takeVolume has the loop, one of so many, listen to its volume and read from it.
func (l *loop) takeVolume(of int) (err error) {
	for _, fd := range l.vol.Fds() {
		if fd < 0 {
			continue
		}
		events := uint32(pollIn)
		if of > 1 {
			events |= pollExclusive // one loop is enough to lead
		}
		if err := l.poll.add(fd, events); err != nil {
			return fmt.Errorf("poll the volume: %w", err)
		}
	}
	if l.reader, err = l.vol.NewReader(readerDepth); err != nil {
		return err
	}
	if l.reader != nil && l.reader.Fd() >= 0 {
		if err := l.poll.add(l.reader.Fd(), pollIn); err != nil {
			return fmt.Errorf("poll the reader: %w", err)
		}
	}
	return nil
}

// Start begins to serve. It returns at once.
func (s *Server) Start() {
	for _, l := range s.loops {
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			l.run()
		}()
	}
}

// Addr is the first address that the server listens on without TLS, TLSAddr the first with; nil if there is none.
func (s *Server) Addr() net.Addr    { return s.addr(kindTCP) }
func (s *Server) TLSAddr() net.Addr { return s.addr(kindTLS) }

// Shutdown stops accepting and reading, lets the replies that are queued reach their level and leave, closes all clients, and
// returns when every loop has ended. When ctx ends first, the rest is closed without its replies, and Shutdown returns the
// context's error. It may be called once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	s.handshakes.stop()
	for _, l := range s.loops {
		l.post((*loop).beginStop)
	}
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
		for _, l := range s.loops {
			l.post(func(l *loop) { l.stopBy = l.now })
		}
		<-ended
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.release()
	return err
}

// Serve runs a server until ctx ends, or a client sends SHUTDOWN, and then drains it for at most grace.
func Serve(ctx context.Context, o Options, grace time.Duration) error {
	asked, stop := context.WithCancel(ctx)
	defer stop()
	then := o.OnShutdown
	o.OnShutdown = func() {
		if then != nil {
			then()
		}
		stop()
	}
	s, err := New(o)
	if err != nil {
		return err
	}
	s.Start()
	<-asked.Done()
	drain, done := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer done()
	return s.Shutdown(drain)
}

// release closes what New opened. No loop runs any more.
func (s *Server) release() {
	for _, ln := range s.listening() {
		ln.close()
	}
	for _, l := range s.loops {
		if l.reader != nil {
			_ = l.reader.Close()
		}
		l.closeBlobs()
		l.poll.close()
	}
	s.loops = nil
}

func levelOf(name string) volume.Level {
	switch name {
	case "durable":
		return volume.LevelDurable
	case "everysec":
		return volume.LevelEverySec
	}
	return volume.LevelFresh
}
