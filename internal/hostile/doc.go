// Package hostile is an NVMe controller in software that behaves, or lies in the ways of HOSTILE_DEVICE.md. It stands behind
// the seams of package nvme: Controller is a Bar and a DMA, and Clock a Clock.
//
// What comes in are register accesses, and commands in memory that Alloc gave out; what goes out are completions and data
// in that memory, through page tables of its own, so that an address that the driver made up is found out. Without attacks
// it is an honest controller: it moves data, has a volatile write cache, checks what it is told, and complains (Problems)
// about a driver that breaks the specification.
//
// Each Attack is one way to lie, and belongs to a row. Attacks compose; a seed decides when each is made; Made counts how
// often it was, because a test against an attack that never happened proves nothing.
//
// It starts no goroutine and sleeps nowhere, but for Harass. Time passes when the driver looks at Clock or pauses, and delayed
// completions come then. So a run on one goroutine is a function of the seed.
package hostile
