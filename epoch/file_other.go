//go:build !unix

package epoch

import "errors"

func openLocked(string) (slotFile, error) {
	return nil, errors.ErrUnsupported
}

func createLocked(string, func(slotFile) error) (slotFile, error) {
	return nil, errors.ErrUnsupported
}
