//go:build !(amd64 || arm64) || purego

package nvme

import "sync/atomic"

// Atomic stores order what was stored before them; on the machines with assembly they cost more than is needed.
func storeMMIO32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

func storeMMIO64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

func loadMMIO32(p *uint32) uint32 { return atomic.LoadUint32(p) }

func loadMMIO64(p *uint64) uint64 { return atomic.LoadUint64(p) }
