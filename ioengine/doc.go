// Package ioengine is the sealed I/O path of large objects: pipelines that seal chunks straight from private memory into DMA
// buffers while earlier ones are in flight, and open completed ones straight from there into private memory while later ones
// are read.
//
// In come plaintext chunks, or buffers for them, together with a Key, the extents where a blob's chunks lie, and for reads
// their tags. Out go requests to a device.Queue, tags, and verified plaintext. It knows no key names and no object formats,
// allocates no space on the device, and decides nothing about durability: who writes a blob flushes before anything points to
// it (DESIGN.md 4.2).
//
// # Driving
//
// An Engine is one device queue and all Writers and Readers on it, used by one goroutine at a time. An event loop puts Fd
// into its epoll, calls Step when it is readable, and hands on chunks with Writer.TryWrite, Reader.TryRead and Reader.Next,
// none of which waits. Everybody else calls Writer.Write, Reader.ReadAll and the like, which step the engine until they are
// done. Several engines share one Pool.
//
// # Who owns a buffer
//
//   - A source given to TryWrite is read during the call only.
//   - A destination given to TryRead is private memory. The engine writes it in Step, and nobody else reads it, until Next
//     returns it or the Reader is closed.
//   - DMA buffers never leave the engine. One is taken from the Pool for a chunk and comes back when the device has completed
//     every request on it, not earlier: also when its pipeline was closed, its request timed out or the engine failed. Until
//     then it is in quarantine, because a late transfer may still touch it (HOSTILE_DEVICE.md 18).
//   - Likewise a Writer's extents belong to the device until Idle says that nothing is in flight.
//
// # Layout of a blob
//
// Chunk i, of Chunk bytes, begins at block i * (Chunk / 4096) of the blob's extents taken one after the other. The last chunk
// may be shorter; zeros fill its last block. Tags are kept elsewhere, so chunks stay aligned to blocks.
package ioengine
