//go:build !purego

package memdev

// The thread of a Paced device must move data as fast as the drive that it models, and a core of a small machine barely can.
// Go's copy writes through the cache with plain stores; these two are 1.2 to 1.6 times as fast between the cores here.

// moveIn copies n bytes by the processor's own string copy: for reads, whose data the engine's core wants next.
//
//go:noescape
func moveIn(dst, src *byte, n int)

// moveOut copies n bytes, a multiple of 64 and not zero, past the cache: for writes, whose data nobody wants soon.
//
//go:noescape
func moveOut(dst, src *byte, n int)
