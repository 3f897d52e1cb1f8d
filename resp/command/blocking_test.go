package command

import (
	"math"
	"testing"
	"time"
)

func TestBlockTimeout(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "0.1": 100 * time.Millisecond, "0.0001": time.Millisecond, "1e3": 1000 * time.Second,
		"9000000000000000": math.MaxInt64 / 4,
	} {
		if d, err := blockTimeout([]byte(in)); err != nil || d != want {
			t.Errorf("%s: %v %v", in, d, err)
		}
	}
	for in, want := range map[string]string{
		"": "ERR timeout is not a float or out of range", "x": "ERR timeout is not a float or out of range",
		"nan": "ERR timeout is not a float or out of range", "inf": "ERR timeout is not a float or out of range",
		"-1": "ERR timeout is negative", "-0.001": "ERR timeout is negative", "1e30": "ERR timeout is out of range",
	} {
		if d, err := blockTimeout([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%s: %v %v", in, d, err)
		}
	}
}
