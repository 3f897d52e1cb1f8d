//go:build purego || !(amd64 || arm64)

package aegis

func detect() []implementation { return nil }

func (c *Cipher) seal(dst, tag, nonce, src, ad []byte) {
	c.cryptPortable(dst, tag, nonce, src, ad, false)
}

func (c *Cipher) open(dst, tag, nonce, src, ad []byte) {
	c.cryptPortable(dst, tag, nonce, src, ad, true)
}

func (c *Cipher) mac(tag, nonce, data []byte) { c.macPortable(tag, nonce, data) }
