//go:build !unix

package provision

import (
	"errors"
	"os"
)

func lockFile(*os.File) error { return errors.ErrUnsupported }

func unlockFile(*os.File) {}
