package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Rounds in which our threads had to wait for a processor measured somebody else. They are repeated, at most so many times
// the rounds that were asked for, and the report says how many were.
const (
	disturbedMax   = 0.01 // of the round's time
	attemptsFactor = 4
)

// waited returns how long all threads of this process were ready and had no processor, since they began; 0 where the kernel
// does not say.
func waited() (sum time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread ended
		}
		if fields := strings.Fields(string(text)); len(fields) == 3 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
