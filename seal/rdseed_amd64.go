//go:build !purego

package seal

import "golang.org/x/sys/cpu"

var hasRDSEED = cpu.X86.HasRDSEED

// rdseed64 asks the processor for 64 bits of entropy; ok is its carry flag. Implemented in rdseed_amd64.s.
//
//go:noescape
func rdseed64() (x uint64, ok bool)
