//go:build (amd64 || arm64) && !purego

package nvme

// storeMMIO32 stores v at p by one plain store, after everything that was stored to memory before.
//
// On amd64 that is a MOV: stores become visible in their order, and a store to uncached memory pushes out what stands before
// it. atomic.StoreUint32 would be an XCHG, which locks the bus for an uncached register. On arm64 a barrier orders the
// stores to the ring before the store to the doorbell, for observers outside the CPU.
//
//go:noescape
func storeMMIO32(p *uint32, v uint32)

// storeMMIO64 is storeMMIO32 for 64 bits.
//
//go:noescape
func storeMMIO64(p *uint64, v uint64)

// loadMMIO32 loads a register by one load that no compiler merges, repeats or leaves out.
//
//go:noescape
func loadMMIO32(p *uint32) uint32

// loadMMIO64 is loadMMIO32 for 64 bits.
//
//go:noescape
func loadMMIO64(p *uint64) uint64
