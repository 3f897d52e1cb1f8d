package geo

import "math"

// Area is a circle or a box around a point. Its sizes are in some unit.
type Area struct {
	Centre        Point
	Unit          float64 // metres
	Radius        float64
	Box           bool // not a circle
	Width, Height float64
}

// Contains says whether a point is inside, and how far from the centre, in metres.
func (a *Area) Contains(p Point) (distance float64, inside bool) {
	if !a.Box {
		distance = Distance(a.Centre, p)
		return distance, distance <= a.Radius*a.Unit
	}
	if northward(p.Lat, a.Centre.Lat) > a.Height*a.Unit/2 {
		return 0, false
	}
	if Distance(p, Point{a.Centre.Lon, p.Lat}) > a.Width*a.Unit/2 {
		return 0, false
	}
	return Distance(a.Centre, p), true
}

// bounds are the least and largest coordinates of an area. A box is as wide everywhere, so it takes most degrees of longitude
// on the side that is nearer to a pole.
type bounds struct{ west, south, east, north float64 }

func (a *Area) bounds() bounds {
	height, width := a.Unit*a.Radius, a.Unit*a.Radius
	if a.Box {
		height, width = a.Unit*(a.Height/2), a.Unit*(a.Width/2)
	}
	c := a.Centre
	up := degrees(height / radius)
	edge := c.Lat + up
	if c.Lat < 0 {
		edge = c.Lat - up
	}
	side := degrees(width / radius / math.Cos(radians(edge)))
	return bounds{c.Lon - side, c.Lat - up, c.Lon + side, c.Lat + up}
}

// Range is a range of scores: Min is inside, Max is not.
type Range struct{ Min, Max float64 }

// around are the cells that Ranges looks at, in the order in which Redis goes through them, which is that of its replies.
var around = [9]struct{ east, north int }{
	{0, 0},
	{0, 1},
	{0, -1},
	{1, 0},
	{-1, 0},
	{1, 1},
	{-1, 1},
	{1, -1},
	{-1, -1},
}

// Ranges returns the ranges of scores that have all points of the area, and others: at most nine, none of them twice.
func (a *Area) Ranges() []Range {
	b := a.bounds()
	step := a.step()
	centre := cellOf(a.Centre, LatMax, step)
	if step > 1 && !centre.covers(b) {
		step--
		centre = cellOf(a.Centre, LatMax, step)
	}
	west, east := span(centre.lon, step, LonMax)
	south, north := span(centre.lat, step, LatMax)
	out := make([]Range, 0, len(around))
	var last cell
	for i, d := range around {
		// A neighbour is of no use where the middle cell goes beyond the area already.
		if step > 1 && (d.north < 0 && south < b.south || d.north > 0 && north > b.north || d.east < 0 && west < b.west || d.east > 0 && east > b.east) {
			continue
		}
		c := centre.beside(d.east, d.north)
		if i > 0 && c == last { // in a grid of two by two, east and west are the same
			continue
		}
		last = c
		shift := 2 * (stepMax - step)
		out = append(out, Range{float64(c.bits() << shift), float64((c.bits() + 1) << shift)})
	}
	return out
}

// covers says whether the cell and its neighbours have all that is within the bounds.
func (c cell) covers(b bounds) bool {
	_, north := span(c.beside(0, 1).lat, c.step, LatMax)
	south, _ := span(c.beside(0, -1).lat, c.step, LatMax)
	_, east := span(c.beside(1, 0).lon, c.step, LonMax)
	west, _ := span(c.beside(-1, 0).lon, c.step, LonMax)
	return !(north < b.north || south > b.south || east < b.east || west > b.west) // a bound may be no number: then it bounds nothing
}

// halfway is half of the Earth's circumference in the Mercator projection, in metres.
const halfway = 20037726.37

// step estimates the finest grid of which nine cells cover the area.
func (a *Area) step() uint {
	metres := a.Radius
	if a.Box {
		metres = math.Sqrt(a.Width/2*(a.Width/2) + a.Height/2*(a.Height/2))
	}
	metres *= a.Unit
	if metres == 0 {
		return stepMax
	}
	step := 1
	for ; metres < halfway && step < 64; metres *= 2 {
		step++
	}
	step -= 2
	// Towards the poles cells are narrower.
	switch lat := math.Abs(a.Centre.Lat); {
	case lat > 80:
		step -= 2
	case lat > 66:
		step--
	}
	return uint(max(1, min(stepMax, step)))
}
