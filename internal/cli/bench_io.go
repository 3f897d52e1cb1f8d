package cli

import "cvmstore/bench"

type benchIO struct {
	Dir       string   `help:"Where the volume file goes; default: a temporary directory here." placeholder:"DIR"`
	Only      []string `help:"Run only these parts: modelled, ablations, file, commits, amplification." placeholder:"PART"`
	Rounds    int      `default:"15" help:"Rounds on the modelled drive; each runs all sides, one after the other."`
	Slices    int      `default:"64" help:"Slices a side on the file."`
	SliceMiB  int      `default:"64" name:"slice-mib" help:"How much a slice moves."`
	SizesMiB  []int    `default:"1,16,256,1024" name:"sizes-mib" help:"Sizes of objects."`
	ChunkKiB  int      `default:"256" name:"chunk-kib" help:"Size of a chunk."`
	Depth     int      `default:"32" help:"Chunks in flight."`
	ReadRate  float64  `help:"Of the modelled drive, GB/s; default: the paper's 13.6, halved until this machine can move it."`
	NVMe      bool     `name:"nvme" help:"Put our NVMe driver, and a controller in software, in front of the modelled drive."`
	WriteRate float64  `help:"Of the modelled drive, GB/s; default: the paper's 6.9, halved until this machine can move it."`
}

// Run prints the tables.
func (b *benchIO) Run(s *streams) error {
	return bench.CompareIO(bench.IOOptions{
		Dir: b.Dir, Only: b.Only, Rounds: b.Rounds, Slices: b.Slices, SliceMiB: b.SliceMiB, SizesMiB: b.SizesMiB, ChunkKiB: b.ChunkKiB,
		NVMe: b.NVMe, Depth: b.Depth, ReadRate: b.ReadRate, WriteRate: b.WriteRate, Out: s.out,
	})
}
