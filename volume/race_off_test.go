//go:build !race

package volume_test

const raceEnabled = false
