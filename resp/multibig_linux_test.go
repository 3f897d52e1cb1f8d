package resp

import (
	"fmt"
	"strings"
	"testing"
)

// TestMultiWithLargeValues: values that are blobs are written, read and replaced within a transaction.
func TestMultiWithLargeValues(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	val := strings.Repeat("v", 200_000)
	got := c.transact([]string{"SET", "big", val}, words("STRLEN big"), words("GETRANGE big 0 2"), []string{"SET", "other", val}, words("DEL big"), words("EXISTS big other"))
	if want := fmt.Sprintf("*6\r\n+OK\r\n:%d\r\n$3\r\nvvv\r\n+OK\r\n:1\r\n:1\r\n", len(val)); got != want {
		t.Errorf("%.300q", got)
	}
	if got := c.do("GET", "other"); got != bulk(val) {
		t.Errorf("%.100q", got)
	}
}
