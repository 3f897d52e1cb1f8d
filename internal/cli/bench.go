package cli

import (
	"context"
	"time"

	"cvmstore/bench"
)

// benchCommand measures this machine. Each comparison is a command of its own below it.
type benchCommand struct {
	All       benchAll       `cmd:"" help:"Run the whole evaluation and write a report: JSON, Markdown, one HTML page."`
	Compare   benchCompare   `cmd:"" help:"Compare the figures of two reports."`
	Crypto    benchCrypto    `cmd:"" help:"Compare AEGIS with AES-256-GCM and with memcpy on one core."`
	Redis     benchRedis     `cmd:"" help:"Compare SET and GET of 1 KiB with redis-server on the same file system."`
	IO        benchIO        `cmd:"" name:"io" help:"Measure the sealed I/O path of large objects: beside a modelled drive, beside itself without protection, with parts taken away."`
	Abuse     benchAbuse     `cmd:"" help:"What well-behaved clients notice of others that are not, and what those make the server hold."`
	Large     benchLarge     `cmd:"" help:"Compare large values with redis-server; measure what they do to small ones and to memory."`
	Files     benchFiles     `cmd:"" help:"Compare files with the device, with redis-server, and with the file system below: streams, random reads, checkpoints, small files."`
	Seal      benchSeal      `cmd:"" help:"Seal and unseal offline, beside the device alone, by size."`
	Memory    benchMemory    `cmd:"" help:"Load keys; print bytes a key and pauses of the garbage collector."`
	Counter   benchCounter   `cmd:"" help:"Commits a second of the trusted counter service over loopback TLS."`
	Freshness benchFreshness `cmd:"" help:"What freshness costs beside durability alone, by the length of epochs (the paper's Figure 11)."`
	Scale     benchScale     `cmd:"" help:"Restart volumes of 1, 3 and 10 million keys after a clean stop and after kill -9: time, bytes read, memory."`
	Compact   benchCompact   `cmd:"" help:"Overwrite a nearly full volume: write amplification beside a simulation, latency during compaction."`
	Load      benchLoad      `cmd:"" name:"scale-load" hidden:"" help:"The process that scale starts and kills."`
	YCSB      benchYCSB      `cmd:"" name:"ycsb" help:"Compare what YCSB's Redis binding sends with redis-server: load, then workloads A to F."`
	ZSet      benchZSet      `cmd:"" name:"zset" help:"Fill one sorted set; print bytes a member, what one ZADD takes and a restart."`
}

type benchRedis struct {
	Dir    string        `help:"Where both sides keep their data; default: a temporary directory here." placeholder:"DIR"`
	Rounds int           `default:"7" help:"Rounds; each runs both sides, one after the other."`
	Slice  time.Duration `default:"2s" help:"How long one side runs at a time."`
	Only   string        `help:"Run only the rows whose name contains this." placeholder:"TEXT"`
	Sealed bool          `help:"Beside redis-server on gocryptfs, which one would use instead; only SETs have a goal then."`
	TLS    bool          `name:"tls" help:"Over TLS on both sides; redis-benchmark sends."`
	Load   string        `default:"own" enum:"own,redis-benchmark" help:"Who sends: own (one thread, cheaper a request) or redis-benchmark."`
}

// Run prints the table.
func (b *benchRedis) Run(s *streams) error {
	return bench.CompareRedis(context.Background(), bench.RedisOptions{
		Dir: b.Dir, Rounds: b.Rounds, Slice: b.Slice, Only: b.Only, Load: b.Load, TLS: b.TLS, Sealed: b.Sealed, Out: s.out,
	})
}

type benchAbuse struct {
	Dir    string        `help:"Where the server keeps its data; default: a temporary directory here." placeholder:"DIR"`
	Idle   int           `default:"10000" help:"Idle connections."`
	Rounds int           `default:"5" help:"Rounds of each step."`
	Slice  time.Duration `default:"2s" help:"How long a round is."`
}

// Run prints the table.
func (b *benchAbuse) Run(s *streams) error {
	return bench.Abuse(context.Background(), bench.AbuseOptions{Dir: b.Dir, Idle: b.Idle, Rounds: b.Rounds, Slice: b.Slice, Out: s.out})
}

type benchLarge struct {
	Dir      string   `help:"Where both sides keep their data; default: a temporary directory here." placeholder:"DIR"`
	Only     []string `help:"Run only these parts: ratio, latency, written, memory." placeholder:"PART"`
	Rounds   int      `default:"7" help:"Rounds of the ratio; each runs both sides, one after the other."`
	ValueMiB int      `name:"value-mib" default:"64" help:"Size of the values of ratio and latency."`
	BigMiB   int      `name:"big-mib" default:"512" help:"Size of the values of memory."`
	Clients  int      `default:"10" help:"Clients of memory."`
}

// Run prints what it finds.
func (b *benchLarge) Run(s *streams) error {
	return bench.CompareLarge(context.Background(), bench.LargeOptions{
		Dir: b.Dir, Only: b.Only, Rounds: b.Rounds, ValueMiB: b.ValueMiB, BigMiB: b.BigMiB, Clients: b.Clients, Out: s.out,
	})
}

type benchMemory struct {
	Keys       int `default:"1000000" help:"How many keys."`
	KeyBytes   int `default:"100" help:"Length of each key."`
	ValueBytes int `default:"100" help:"Length of each value."`
}

// Run prints two lines.
func (b *benchMemory) Run(s *streams) error {
	return bench.Memory(context.Background(), bench.MemoryOptions{
		Keys: b.Keys, KeyBytes: b.KeyBytes, ValueBytes: b.ValueBytes, Out: s.out,
	})
}

type benchCounter struct {
	Stores int           `default:"16" help:"Stores that commit at the same time."`
	Time   time.Duration `default:"10s" help:"How long."`
	Dir    string        `help:"Where the service's database lies; default: a temporary directory here." placeholder:"DIR"`
}

// Run prints a line.
func (b *benchCounter) Run(s *streams) error {
	return bench.Counter(context.Background(), bench.CounterOptions{Stores: b.Stores, Time: b.Time, Dir: b.Dir}, s.out)
}

type benchFreshness struct {
	RoundTrip time.Duration `default:"5ms" help:"The modelled counter service's."`
	Slice     time.Duration `default:"300ms" help:"How long one side runs at a time."`
	Rounds    int           `default:"5" help:"Rounds; each runs both sides, one after the other."`
	Clients   int           `default:"64" help:"Clients of level durable."`
	Plot      string        `help:"SVG file to write." placeholder:"FILE"`
}

// Run prints the table.
func (b *benchFreshness) Run(s *streams) error {
	return bench.Freshness(context.Background(), bench.FreshnessOptions{
		RoundTrip: b.RoundTrip, Slice: b.Slice, Rounds: b.Rounds, Clients: b.Clients, Plot: b.Plot, Out: s.out,
	})
}
