package bench

import (
	"bytes"
	"fmt"
	"math"
	"time"
)

// freshnessPlot draws the rows as an SVG: epochs to the right, logarithmic; overhead upwards.
func freshnessPlot(rows []freshnessRow, trip time.Duration) []byte {
	const width, height, left, bottom, top, right = 640, 400, 60, 50, 30, 150
	most := 0.1
	for _, r := range rows {
		most = max(most, r.nonBlocking, r.blocking, r.predicted)
	}
	most = math.Ceil(most*10) / 10
	first, last := math.Log(float64(rows[0].epoch)), math.Log(float64(rows[len(rows)-1].epoch))
	x := func(r freshnessRow) float64 {
		return left + (math.Log(float64(r.epoch))-first)/(last-first)*(width-left-right)
	}
	y := func(v float64) float64 { return height - bottom - max(v, 0)/most*(height-bottom-top) }
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="18">Freshness against durability alone, round trip %v</text>`+"\n", left, trip)
	for i := range 6 {
		v := most * float64(i) / 5
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f%%</text>`+"\n",
			left, width-right, y(v), y(v), left-6, y(v)+4, 100*v)
	}
	for _, r := range rows {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(r), height-bottom+18, r.epoch)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">epoch, ms</text>`+"\n", (left+width-right)/2, height-10)
	for i, line := range []struct {
		name, colour, dash string
		of                 func(freshnessRow) float64
	}{
		{"non-blocking", "#1b6ca8", "", func(r freshnessRow) float64 { return r.nonBlocking }},
		{"blocking", "#c0392b", "", func(r freshnessRow) float64 { return r.blocking }},
		{"predicted, blocking", "#888", "5,4", func(r freshnessRow) float64 { return r.predicted }},
	} {
		b.WriteString(`<polyline fill="none" stroke-width="2" stroke="` + line.colour + `" stroke-dasharray="` + line.dash + `" points="`)
		for _, r := range rows {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(r), y(line.of(r)))
		}
		fmt.Fprintf(&b, `"/>`+"\n"+`<text x="%d" y="%d" fill="%s">%s</text>`+"\n", width-right+10, top+20+18*i, line.colour, line.name)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
