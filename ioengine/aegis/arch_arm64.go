//go:build !purego

package aegis

import "golang.org/x/sys/cpu"

// detect lists the implementations in assembly that this CPU can run, best first.
func detect() []implementation {
	if cpu.ARM64.HasAES {
		return []implementation{implARM64}
	}
	return nil
}

//go:noescape
func initLaneARM64(state, key, nonce, context *byte)

//go:noescape
func absorbLaneARM64(state, src *byte, half, step, n int)

//go:noescape
func sealLaneARM64(state, dst, src *byte, half, step, n int)

//go:noescape
func openLaneARM64(state, dst, src *byte, half, step, n int)

func (c *Cipher) seal(dst, tag, nonce, src, ad []byte) {
	if impl := implementation(active.Load()); impl == implARM64 {
		c.sealByLanes(impl, 16, dst, tag, nonce, src, ad)
	} else {
		c.cryptPortable(dst, tag, nonce, src, ad, false)
	}
}

func (c *Cipher) open(dst, tag, nonce, src, ad []byte) {
	if impl := implementation(active.Load()); impl == implARM64 {
		c.openByLanes(impl, 16, dst, tag, nonce, src, ad)
	} else {
		c.cryptPortable(dst, tag, nonce, src, ad, true)
	}
}

func (c *Cipher) mac(tag, nonce, data []byte) {
	if impl := implementation(active.Load()); impl == implARM64 {
		c.macByLanes(impl, 16, tag, nonce, data)
	} else {
		c.macPortable(tag, nonce, data)
	}
}

func (s *laneState) initLanes(off int, key, nonce, context *byte) {
	initLaneARM64(&s.rows[0][off], key, nonce, context)
}

func (s *laneState) absorbLanes(off int, src *byte, distance, n int) {
	absorbLaneARM64(&s.rows[0][off], src, s.width, distance, n)
}

func (s *laneState) sealLanes(off int, dst, src *byte, n int) {
	sealLaneARM64(&s.rows[0][off], dst, src, s.width, 2*s.width, n)
}

func (s *laneState) openLanes(off int, dst, src *byte, n int) {
	openLaneARM64(&s.rows[0][off], dst, src, s.width, 2*s.width, n)
}
