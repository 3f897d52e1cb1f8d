//go:build unix

package seal

import (
	"fmt"
	"os"
	"syscall"
)

// checkOwner refuses a key file of another user, who could change its mode at any time. root's files are root's to protect.
func checkOwner(path string, info os.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if me := os.Geteuid(); int(st.Uid) != me && st.Uid != 0 {
		return fmt.Errorf("key file %s belongs to user %d, but the server runs as user %d. Run: chown %d %s: %w",
			path, st.Uid, me, me, path, ErrKeyExposed)
	}
	return nil
}
