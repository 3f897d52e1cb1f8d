package cli

import (
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// forbidDumps keeps this process' memory out of core files, of debuggers, and of swap: it holds keys that came by attestation.
func forbidDumps(log zerolog.Logger) {
	none := unix.Rlimit{}
	for what, err := range map[string]error{
		"core files": unix.Setrlimit(unix.RLIMIT_CORE, &none),
		"debuggers":  unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
		"swap":       unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT),
	} {
		if err != nil {
			log.Warn().Err(err).Str("what", what).Msg("the memory with the keys is not kept from this (ulimit -l, or CAP_IPC_LOCK, for swap)")
		}
	}
}
