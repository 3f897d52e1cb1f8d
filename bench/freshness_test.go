package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
	"time"
)

// The plot is an SVG that a browser reads, with a point a row on each line.
func TestFreshnessPlot(t *testing.T) {
	rows := []freshnessRow{{1, 0.01, 0.8, 0.85}, {9, 0, 0.4, 0.37}, {281, -0.01, 0.02, 0.02}}
	svg := freshnessPlot(rows, 5*time.Millisecond)
	d, lines := xml.NewDecoder(bytes.NewReader(svg)), 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "polyline" {
			continue
		}
		lines++
		for _, a := range e.Attr {
			if a.Name.Local == "points" && len(bytes.Fields([]byte(a.Value))) != len(rows) {
				t.Errorf("line %d: points %q", lines, a.Value)
			}
		}
	}
	if lines != 3 {
		t.Errorf("%d lines", lines)
	}
}
