package nvme

import "unsafe"

// The hardware reads and writes these; their sizes are asserted at compile time.
const (
	commandBytes    = 64
	completionBytes = 16
)

var (
	_ [commandBytes]byte    = [unsafe.Sizeof(command{})]byte{}
	_ [completionBytes]byte = [unsafe.Sizeof(rawCompletion{})]byte{}
)

// commandsIn sees shared memory as a submission ring. It is written only, never read back (row 10).
func commandsIn(m Memory, n int) []command {
	return unsafe.Slice((*command)(unsafe.Pointer(unsafe.SliceData(m.Bytes[:n*commandBytes]))), n)
}

// completionsIn sees shared memory as a completion ring.
func completionsIn(m Memory, n int) []rawCompletion {
	return unsafe.Slice((*rawCompletion)(unsafe.Pointer(unsafe.SliceData(m.Bytes[:n*completionBytes]))), n)
}

// wordsIn sees shared memory as PRP lists.
func wordsIn(m Memory, n int) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(m.Bytes[:n*8]))), n)
}

// addressOf is where a slice begins.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
