package cli

import (
	"context"

	"cvmstore/bench"
)

type benchFiles struct {
	Dir        string   `help:"Where all sides keep their data; default: a temporary directory here." placeholder:"DIR"`
	Only       []string `help:"Run only these parts: modelled, resp, checkpoint, small, mail." placeholder:"PART"`
	Rounds     int      `default:"7" help:"Rounds; each runs all sides, one after the other."`
	SizesMiB   []int    `default:"16,256,1024" name:"sizes-mib" help:"Sizes of files on the modelled drive."`
	Checkpoint int      `default:"8" name:"checkpoint-gib" help:"Size of the checkpoint."`
	Small      int      `default:"100000" help:"How many small files."`
}

// Run prints the tables.
func (b *benchFiles) Run(s *streams) error {
	return bench.CompareFiles(context.Background(), bench.FilesOptions{
		Dir: b.Dir, Only: b.Only, Rounds: b.Rounds, SizesMiB: b.SizesMiB, Checkpoint: b.Checkpoint, Small: b.Small, Out: s.out,
	})
}
