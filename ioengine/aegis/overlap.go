package aegis

import "unsafe"

// address returns where b starts, as a number to compare.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// overlap reports whether x and y share a byte.
func overlap(x, y []byte) bool {
	px, py := address(x), address(y)
	return len(x) > 0 && len(y) > 0 && (py-px < uintptr(len(x)) || px-py < uintptr(len(y)))
}

// inexactOverlap reports whether x and y share memory at different indices.
func inexactOverlap(x, y []byte) bool { return address(x) != address(y) && overlap(x, y) }
