package cli

// Exit codes. They are part of the interface: service managers decide by them whether to start again
// (docs/OPERATIONS.md).
const (
	ExitOK       = 0
	ExitError    = 1 // anything that has no code of its own
	ExitUsage    = 2 // the command line or the configuration is wrong
	ExitRollback = 3 // the volume is older than the trusted counter: do not start again, find out why
	ExitFenced   = 4 // another server took the store over: do not start again by itself
	ExitCorrupt  = 5 // the volume, the counter file or the key file is damaged
	ExitBusy     = 6 // another process holds the directory or the port
)
