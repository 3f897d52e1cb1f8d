// Package nvme drives an NVMe controller from user space and treats it as hostile. It is a device.Device.
//
// In come requests for whole blocks in buffers of Alloc; out go their completions. Between them stand two seams: Bar, the
// controller's registers, and DMA, memory that the controller reads and writes. nvme/vfio has the real ones,
// internal/hostile a controller in software that lies.
//
// # What is shared and what is not
//
// Shared with the controller (in a confidential VM: with the host) are the rings, the PRP lists, one page for Identify, and
// the I/O buffers; docs/NVME.md lists each with its size. Everything that decides anything is private: trackers, ring
// positions, the commands as they were built, lengths, callers' tokens. What comes back is one completion entry of 16 bytes,
// read once (completion.go), and checked against private state before it has any effect (pair.go). Data is not checked here:
// it is sealed, and its user checks its tag.
//
// # Follow one write
//
// Queue.Submit (submit.go) checks the request, takes a tracker, builds the command (command.go) with the device's addresses
// of the buffer (prp.go, memory.go), copies it into the ring, and after the last of a batch rings the doorbell once
// (doorbell.go). Queue.Poll (reap.go) takes completions (pair.go), finds the tracker, and gives it back. When nothing comes,
// watch.go looks at the clock and at the controller's status: abort, then reset (recover.go), then give up.
//
// Sections are those of the NVM Express Base Specification 2.0c unless another document is named.
//
// Bounds: each wait ends at a deadline of ours, whatever the controller says; a poll takes at most as many completions as
// there are commands outstanding; a device resets its controller at most resetsMax times.
package nvme
