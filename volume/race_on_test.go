//go:build race

package volume_test

const raceEnabled = true
