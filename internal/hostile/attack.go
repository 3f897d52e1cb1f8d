package hostile

// Attack is one way to lie.
type Attack int

// The attacks, by rows of HOSTILE_DEVICE.md.
const (
	CIDRange          Attack = iota // 1: completion of a command that cannot be
	CIDTwice                        // 2: the same completion twice
	CIDStale                        // 2: completion of a command that completed before
	CIDNever                        // 2: completion of a command that was never issued
	SQIDWrong                       // 3
	SQHeadBogus                     // 4
	CompletionChanges               // 5: entries change after they were posted, and after they were read
	CompletionFlood                 // 6: the whole ring is full of them
	ReadNothing                     // 7: success, and no data
	DataChanges                     // 8: data changes after the completion
	ScribbleRings                   // 9: DMA over everything that is shared
	RewriteCommands                 // 10: submission entries and PRP lists rewritten, and the rewritten ones obeyed
	WrongBlock                      // 11: another block's data
	OldVersion                      // 11: the same block's data from before
	OtherVolume                     // 11: noise, as another key's data would look
	DropWrite                       // 12
	DropFlush                       // 12
	TornWrite                       // 13: at a power cut, some sectors of a block are new and some old
	StrideAbsurd                    // 14: DSTRD
	EntriesNone                     // 14: MQES = 0
	EntriesMany                     // 14: MQES = 65535, and a BAR that has room
	BarShort                        // 14
	BlockSizeAbsurd                 // 15: LBADS
	FormatAbsurd                    // 15: FLBAS
	MetadataOn                      // 15: MS
	SizeNone                        // 15: NSZE = 0
	SizeAbsurd                      // 15: NSZE that overflows
	TransferAbsurd                  // 16: MDTS
	GeometryChanges                 // 17: after a reset the namespace has another size
	EventsUnasked                   // 17: asynchronous events that nobody asked for
	LateDMA                         // 18: commands that were given up write later
	NeverStops                      // 18: CSTS.RDY stays 1 after CC.EN = 0
	MemoryOffered                   // 19: CMB, PMR, HMB
	ShadowDoorbells                 // 20
	NeverReady                      // 21
	NeverDone                       // 21: an I/O command gets lost
	NeverDoneAdmin                  // 21: an admin command gets lost
	StringsCrafted                  // 22
	Peek                            // 23: looks at every shared byte
	OtherDevice                     // 24: after a reset or on the next opening there is another disk with the same serial number
	SuperblockCrafted               // 25: what is read from the first two blocks differs in a few bits
	RegistersChange                 // 26
	PartialDMA                      // 27
	ErrorButDone                    // 28
	NoCache                         // 29: says that it has no volatile cache, and has
	TimesAbsurd                     // 30: CAP.TO
	PagesAbsurd                     // 30: CAP.MPSMIN
	EntrySizesAbsurd                // 30: SQES and CQES
	QueuesNone                      // 31
	QueuesMany                      // 31
	FatalStatus                     // 32
	CapabilityLoop                  // 33: see ConfigSpace
	CapabilityOutside               // 33
	attackCount
)

// attacks has what a table test prints.
var attacks = [attackCount]struct {
	name string
	row  int
	// setup: the lie is told while the device is opened, each time. Other attacks are made by chance.
	setup bool
}{
	{"CIDRange", 1, false},
	{"CIDTwice", 2, false},
	{"CIDStale", 2, false},
	{"CIDNever", 2, false},
	{"SQIDWrong", 3, false},
	{"SQHeadBogus", 4, false},
	{"CompletionChanges", 5, false},
	{"CompletionFlood", 6, false},
	{"ReadNothing", 7, false},
	{"DataChanges", 8, false},
	{"ScribbleRings", 9, false},
	{"RewriteCommands", 10, false},
	{"WrongBlock", 11, false},
	{"OldVersion", 11, false},
	{"OtherVolume", 11, false},
	{"DropWrite", 12, false},
	{"DropFlush", 12, false},
	{"TornWrite", 13, false},
	{"StrideAbsurd", 14, true},
	{"EntriesNone", 14, true},
	{"EntriesMany", 14, true},
	{"BarShort", 14, true},
	{"BlockSizeAbsurd", 15, true},
	{"FormatAbsurd", 15, true},
	{"MetadataOn", 15, true},
	{"SizeNone", 15, true},
	{"SizeAbsurd", 15, true},
	{"TransferAbsurd", 16, true},
	{"GeometryChanges", 17, true},
	{"EventsUnasked", 17, false},
	{"LateDMA", 18, false},
	{"NeverStops", 18, true},
	{"MemoryOffered", 19, true},
	{"ShadowDoorbells", 20, true},
	{"NeverReady", 21, true},
	{"NeverDone", 21, false},
	{"NeverDoneAdmin", 21, false},
	{"StringsCrafted", 22, true},
	{"Peek", 23, true},
	{"OtherDevice", 24, true},
	{"SuperblockCrafted", 25, false},
	{"RegistersChange", 26, true},
	{"PartialDMA", 27, false},
	{"ErrorButDone", 28, false},
	{"NoCache", 29, true},
	{"TimesAbsurd", 30, true},
	{"PagesAbsurd", 30, true},
	{"EntrySizesAbsurd", 30, true},
	{"QueuesNone", 31, true},
	{"QueuesMany", 31, true},
	{"FatalStatus", 32, false},
	{"CapabilityLoop", 33, true},
	{"CapabilityOutside", 33, true},
}

// All returns every attack.
func All() []Attack {
	all := make([]Attack, attackCount)
	for i := range all {
		all[i] = Attack(i)
	}
	return all
}

func (a Attack) String() string { return attacks[a].name }

// Row is the row of HOSTILE_DEVICE.md.
func (a Attack) Row() int { return attacks[a].row }

// Setup reports whether the lie is told while the device is opened, rather than while it is used.
func (a Attack) Setup() bool { return attacks[a].setup }

// enabled reports whether an attack may be made at all.
func (c *Controller) enabled(a Attack) bool { return c.on[a] }

// make decides whether an attack is made here and now, and counts it.
func (c *Controller) makes(a Attack) bool {
	if !c.on[a] || !attacks[a].setup && c.rng.IntN(c.opts.Every) != 0 {
		return false
	}
	c.made[a]++
	return true
}

// Made returns how often an attack was made.
func (c *Controller) Made(a Attack) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made[a]
}
