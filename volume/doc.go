// Package volume is the sealed volume: it takes batches of records from the stores above it and gives back, after any crash
// and against any host, a state at or after the last one committed to the trusted counter (DESIGN.md sections 4 to 6).
//
// What comes in: records (opaque to this package but for their store, kind and counter), and changes of the multiset hash.
// What goes out: frames of sealed records through a device.Device, commits through an epoch.Service, and the watermarks
// durable and fresh, by which callers release replies. It knows no key names, no object formats and no network.
//
// Follow a write: Tx.Append puts a record's plaintext into the open frame (frame.go), in private memory, at the place where
// it will lie on the device. Step, called by whichever event loop or library goroutine comes by, becomes the committer
// (committer.go): it seals the frame into a DMA buffer (seal.go), submits it, reaps what completed, and commits the durable
// prefix to the counter. The next segment is opened ahead of need (roll.go). Open (open.go) is birth or recovery
// (recover.go: follow the chain; opening.go: make the choice of this state final).
//
// Byte layouts: format.go.
package volume
