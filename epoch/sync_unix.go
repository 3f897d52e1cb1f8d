//go:build unix && !linux

package epoch

import "os"

func datasync(f *os.File) error { return f.Sync() }
