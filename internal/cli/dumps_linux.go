package cli

import (
	"errors"
	"fmt"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// forbidDumps keeps this process' memory out of core files, of debuggers, and of swap, before there are keys in it. What could not be
// done is logged, and returned for those who insist.
func forbidDumps(log zerolog.Logger) error {
	none := unix.Rlimit{}
	var failed []error
	for what, err := range map[string]error{
		"core files": unix.Setrlimit(unix.RLIMIT_CORE, &none),
		"debuggers":  unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
		"swap":       unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT),
	} {
		if err != nil {
			failed = append(failed, fmt.Errorf("%w: %s: %w", errMemory, what, err))
			log.Warn().Err(err).Str("what", what).Msg("the memory with the keys is not kept from this (ulimit -l, or CAP_IPC_LOCK, for swap)")
		}
	}
	return errors.Join(failed...)
}
