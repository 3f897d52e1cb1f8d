//go:build race

package e2e

// buildFlags make the program under test as checked as the test.
var buildFlags = []string{"-race"}
