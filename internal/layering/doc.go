// Package layering holds no code, only the test that keeps dependencies pointing down (DESIGN.md, section 2).
package layering
