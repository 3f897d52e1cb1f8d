package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cvmstore/keyspace"
)

// Replies as text, so that the store's and the model's can be compared, shown, and used as outputs of a history.

func bulk(b []byte, ok bool) string {
	if !ok {
		return "(nil)"
	}
	return "$" + string(b)
}

func integer[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// parse reads a number that is written as Redis writes it.
func parse(s string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

func boolean(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func sorted(list []string) string {
	slices.Sort(list)
	return strings.Join(list, " ")
}

// errTooLarge stands for kvs.SizeError, whose text names the sizes.
const errTooLarge = "ERR value too large"

func tooLarge(key []byte, n, recordMax int) bool { return keyspace.PutSize(len(key), n) > recordMax }

// violation is a broken promise, thrown by failf and caught by Run.
type violation struct{ text string }

func failf(format string, args ...any) { panic(violation{fmt.Sprintf(format, args...)}) }
