package nvme

// LoadRegister32 and its like are how a Bar in memory is read and written: one access of that size, in program order. p points
// into device memory, aligned to the size.
func LoadRegister32(p *uint32) uint32 { return loadMMIO32(p) }

// LoadRegister64 loads 64 bits at once.
func LoadRegister64(p *uint64) uint64 { return loadMMIO64(p) }

// StoreRegister32 stores 32 bits after everything stored before.
func StoreRegister32(p *uint32, v uint32) { storeMMIO32(p, v) }

// StoreRegister64 stores 64 bits at once, after everything stored before.
func StoreRegister64(p *uint64, v uint64) { storeMMIO64(p, v) }
