//go:build !amd64 || purego

package memdev

import "unsafe"

func moveIn(dst, src *byte, n int) { copy(unsafe.Slice(dst, n), unsafe.Slice(src, n)) }

func moveOut(dst, src *byte, n int) { copy(unsafe.Slice(dst, n), unsafe.Slice(src, n)) }
