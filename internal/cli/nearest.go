package cli

import "fmt"

// didYouMean returns a hint that names the valid name nearest to wrong, each shown with prefix.
func didYouMean(prefix, wrong string, names []string) string {
	best, at := "", 0
	for _, name := range names {
		if d := distance(wrong, name); best == "" || d < at {
			best, at = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", prefix+best)
}

// distance is the number of single-character insertions, deletions, changes and swaps of neighbours that make b out of a.
func distance(a, b string) int {
	before := make([]int, len(b)+1) // the row above the last
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
