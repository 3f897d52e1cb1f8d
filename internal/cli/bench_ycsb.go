package cli

import (
	"context"
	"time"

	"cvmstore/bench"
)

type benchYCSB struct {
	Dir       string        `help:"Where both sides keep their data; default: a temporary directory here." placeholder:"DIR"`
	Records   int           `default:"1000000" help:"How many records to load."`
	Clients   int           `default:"50" help:"Connections, each with one command under way."`
	Workloads string        `default:"ABCDEF" help:"Which workloads to run, in this order." placeholder:"LETTERS"`
	Rounds    int           `default:"5" help:"Rounds; each runs both sides, one after the other."`
	Slice     time.Duration `default:"2s" help:"How long one side runs at a time."`
}

// Run prints the table.
func (b *benchYCSB) Run(s *streams) error {
	return bench.YCSB(context.Background(), bench.YCSBOptions{
		Dir: b.Dir, Records: b.Records, Clients: b.Clients, Workloads: b.Workloads, Rounds: b.Rounds, Slice: b.Slice, Out: s.out,
	})
}

type benchZSet struct {
	Members int `default:"5000000" help:"How many members."`
}

// Run prints three lines.
func (b *benchZSet) Run(s *streams) error {
	return bench.ZSet(context.Background(), bench.ZSetOptions{Members: b.Members, Out: s.out})
}
