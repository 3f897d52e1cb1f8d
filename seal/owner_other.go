//go:build !unix

package seal

import "os"

func checkOwner(string, os.FileInfo) error { return nil }
