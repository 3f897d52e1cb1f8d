package nvme

// Opcodes: admin commands (section 5) and the NVM command set's I/O commands (NVM Command Set Specification, section 3).
const (
	opDeleteSubmission = 0x00 // admin
	opCreateSubmission = 0x01
	opDeleteCompletion = 0x04
	opCreateCompletion = 0x05
	opIdentify         = 0x06
	opAbort            = 0x08
	opSetFeatures      = 0x09

	opFlush = 0x00 // I/O
	opWrite = 0x01
	opRead  = 0x02
	opDSM   = 0x09 // dataset management: trim
)

// Parameters of commands.
const (
	cnsNamespace  = 0x00 // Identify: a namespace
	cnsController = 0x01 // Identify: the controller
	cnsActive     = 0x02 // Identify: active namespaces

	featureQueues = 0x07 // Set Features: number of queues

	createContiguous = 1       // PC: the ring is one piece
	writeFUA         = 1 << 30 // in CDW12: durable before it completes
	dsmDeallocate    = 1 << 2  // in CDW11
	dsmRangeBytes    = 16
)

// command is a submission queue entry (section 3.3.3.1) as eight words in the CPU's order, which is the wire's on all
// machines that this driver runs on.
//
//	word  bytes  what
//	0     0-7    opcode, fuse and PSDT = 0 (PRPs), command identifier, namespace
//	1     8-15   zero
//	2     16-23  metadata pointer: zero, no metadata
//	3     24-31  PRP entry 1
//	4     32-39  PRP entry 2
//	5-7   40-63  CDW10 to CDW15
type command [8]uint64

func (c *command) head(op uint8, cid uint16, namespace uint32) {
	c[0] = uint64(op) | uint64(cid)<<16 | uint64(namespace)<<32
}

func (c *command) words10(w10, w11 uint32) { c[5] = uint64(w10) | uint64(w11)<<32 }
