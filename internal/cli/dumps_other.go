//go:build !linux

package cli

import "github.com/rs/zerolog"

func forbidDumps(log zerolog.Logger) error {
	log.Warn().Msg("this system cannot keep the memory with the keys out of dumps and swap: unsupported")
	return errMemory
}
