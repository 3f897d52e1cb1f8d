package cli

import (
	"context"
	"os"

	"cvmstore/bench"
)

type benchScale struct {
	Keys  []int  `help:"Volumes of so many keys; default 1000000,3000000,10000000."`
	Value int    `default:"100" help:"Bytes of a value."`
	Dir   string `help:"Where the volumes lie; default: a temporary directory." placeholder:"DIR"`
}

// Run prints a line a start.
func (b *benchScale) Run(s *streams) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return bench.Scale(context.Background(), bench.ScaleOptions{Keys: b.Keys, Value: b.Value, Dir: b.Dir, Self: self, Out: s.out})
}

type benchLoad struct {
	Dir   string `required:"" help:"The store's directory."`
	Keys  int    `required:"" help:"How many keys."`
	Value int    `required:"" help:"Bytes of a value."`
	Again bool   `help:"Write a hundredth of the keys anew."`
}

// Run loads, says so, and waits for the end of its standard input.
func (b *benchLoad) Run(s *streams) error {
	return bench.ScaleLoad(context.Background(), b.Dir, b.Keys, b.Value, b.Again, os.Stdin, s.out)
}

type benchCompact struct {
	Mib     int64   `default:"2048" help:"Size of the volume in MiB."`
	Segment int64   `default:"4" help:"Size of a segment in MiB."`
	Times   float64 `default:"20" help:"How many times the volume's size is overwritten."`
	Only    string  `help:"Only this row: zipfian 70% or uniform 90%." placeholder:"ROW"`
	Dir     string  `help:"Where the volume lies; default: a temporary directory." placeholder:"DIR"`
}

// Run prints two lines a row.
func (b *benchCompact) Run(s *streams) error {
	return bench.Compact(context.Background(), bench.CompactOptions{
		Bytes: b.Mib << 20, Segment: b.Segment << 20, Times: b.Times, Only: b.Only, Dir: b.Dir, Out: s.out,
	})
}
