package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"cvmstore/epoch"
	"cvmstore/epoch/wire"
	"cvmstore/ioengine/device"
	"cvmstore/seal"
	"cvmstore/seal/attest"
	"cvmstore/volume"
)

// usageError is a wrong command line or configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usageErrorf(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// reported is an error that the log, on standard error, has shown already.
type reported struct{ error }

func (e reported) Unwrap() error { return e.error }

// advice says, for one kind of error, what to do about it and with which code to exit. The first that matches counts.
var advice = []struct {
	is   error
	code int
	todo string
}{
	{volume.ErrRollback, ExitRollback, `Someone restored an old copy, or a disk lost writes that it had confirmed. Do not delete the counter to get past this:
find the newest copy of the volume first (docs/OPERATIONS.md, "Rollback detected").`},
	{volume.ErrFenced, ExitFenced, `Another server opened this store after this one and is in charge now. This one must not be started again by itself.`},
	{epoch.ErrFenced, ExitFenced, `Another server opened this store after this one and is in charge now. This one must not be started again by itself.`},
	{device.ErrLocked, ExitBusy, `Another process is using this volume. Stop it, or choose another directory with --dir.`},
	{epoch.ErrLocked, ExitBusy, `Another cvmstore is running on this directory. Stop it, or choose another one with --dir.`},
	{syscall.EADDRINUSE, ExitBusy, `Another program listens there. Stop it, or choose another port with --port.`},
	{syscall.EADDRNOTAVAIL, ExitError, `No interface of this machine has that address. Choose one of its own with --bind.`},
	{errKeyMissing, ExitError, `Nothing can be read without it. Put the key file back (--key-file says where it is), or move the rest away to begin anew.
If that file or disk is not a store at all and may be overwritten, say so by name: --format-over with its path.`},
	{errCounterMissing, ExitError, `Without it an old copy of the volume cannot be told from the newest. Put the counter file back, as it was when the
server stopped (--counter-file says where it is), or move the volume away to begin anew.`},
	{errRecordMissing, ExitError, `The service does not know this store. Check --counter; if its record was lost, the store's owner can order it recreated
(docs/OPERATIONS.md, "A lost record"); or move the volume away to begin anew.`},
	{epoch.ErrForbidden, ExitError, `The counter's operator lets this server's identity open the store: cvmstore counter allow --store ... --identity ...`},
	{epoch.ErrFrozen, ExitError, `The counter's operator froze this store. Ask why; then: cvmstore counter thaw --store ...`},
	{wire.ErrSignature, ExitError, `The answer is not the service's that --counter-pin names. Somebody stands between, or the service was made anew.`},
	{errMemory, ExitError, `Switch swap off, boot with nohibernate, and allow the process to lock its memory (LimitMEMLOCK=infinity, or CAP_IPC_LOCK).`},
	{attest.ErrUnsupported, ExitError, `Without a report there are no keys. To try things out without such a machine: --attester simulated:DIR.`},
	{seal.ErrKeyExposed, ExitError, ""}, // says it itself
	{seal.ErrKeyDamaged, ExitCorrupt, `Put a copy of the key file in its place, or name another one with --key-file.`},
	{epoch.ErrDamaged, ExitCorrupt, ""}, // says it itself
	{volume.ErrForeign, ExitError, `If that data may be destroyed, say so by name: --format-over with the volume's path.`},
	{volume.ErrCorrupt, ExitCorrupt, `What was read is not what was written. Keep a copy of the volume as it is, then restore the whole directory from a backup
(docs/OPERATIONS.md, "Corrupt").`},
	{epoch.ErrNoRecord, ExitError, `The counter file belongs to another store than the key file. Name the right pair with --key-file and --counter-file.`},
	{device.ErrFull, ExitError, `Make room on the file system of the volume, or raise --volume-size.`},
	{syscall.ENOSPC, ExitError, `Make room on the file system of the volume.`},
	{errExposed, ExitUsage, `Bind to 127.0.0.1, serve TLS alone (--port 0 --tls-port N), or accept that with --insecure-plaintext.`},
	{fs.ErrPermission, ExitError, `Run as the user who owns these files, or change their owner. Ports below 1024 need the right to bind them.`},
	{syscall.ENOSYS, ExitError, `The kernel has no io_uring, or it is switched off (sysctl kernel.io_uring_disabled). cvmstore needs Linux 5.11 or later.`},
	{errors.ErrUnsupported, ExitError, `The server runs on Linux.`},
}

// explain returns what to print about err: what is wrong, what to do about it (maybe empty), and the exit code.
func explain(err error) (wrong, todo string, code int) {
	wrong = strings.ReplaceAll(err.Error(), "\n", "; ")
	if errors.As(err, new(usageError)) {
		return wrong, "Try: cvmstore serve --help", ExitUsage
	}
	for _, a := range advice {
		if errors.Is(err, a.is) {
			return wrong, strings.ReplaceAll(a.todo, "\n", " "), a.code
		}
	}
	return wrong, "", ExitError
}
