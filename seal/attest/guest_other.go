//go:build !linux

package attest

import "fmt"

// Guest returns this VM's attester. Only Linux guests have one.
func Guest(string) (Attester, error) {
	return nil, fmt.Errorf("%w: only Linux guests have one", ErrUnsupported)
}
