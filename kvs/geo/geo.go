// Package geo turns places on Earth into the scores of sorted sets and back, as Redis does, so that what one stores the other
// reads: 26 bits of longitude and 26 of latitude, interleaved, longitude first. It says which ranges of scores cover an
// area. It knows no keys and no members.
package geo

import "math"

// Limits of what can be stored: of latitude those of the Web Mercator projection.
const (
	LonMax = 180
	LatMax = 85.05112878
)

// stepMax is how many bits of each coordinate a score has.
const stepMax = 26

// Point is a place, in degrees.
type Point struct{ Lon, Lat float64 }

// Valid says whether a point can be stored.
func (p Point) Valid() bool {
	return p.Lon >= -LonMax && p.Lon <= LonMax && p.Lat >= -LatMax && p.Lat <= LatMax
}

// cell is a rectangle of a grid of 2^step by 2^step.
type cell struct {
	lon, lat uint32 // column and row, from the south-west
	step     uint
}

// cellOf returns the cell of a point in the grid over all longitudes and over latitudes from -latMax to latMax.
func cellOf(p Point, latMax float64, step uint) cell {
	at := func(v, limit float64) uint32 { return uint32((v + limit) / (2 * limit) * float64(uint64(1)<<step)) }
	return cell{at(p.Lon, LonMax), at(p.Lat, latMax), step}
}

// bits are the cell's number: those of column and row, interleaved.
func (c cell) bits() uint64 { return spread(c.lat) | spread(c.lon)<<1 }

// span returns the least and the largest coordinate of column or row n.
func span(n uint32, step uint, limit float64) (low, high float64) {
	side := float64(uint64(1) << step)
	return -limit + float64(n)/side*(2*limit), -limit + float64(uint64(n)+1)/side*(2*limit)
}

// beside returns the cell so many columns and rows away. The grid has no edge: it goes on at the other side. A coordinate at the
// upper limit is in a column or row of its own, which only a step leaves.
func (c cell) beside(east, north int) cell {
	mask := uint32(1)<<c.step - 1
	if east != 0 {
		c.lon = (c.lon + uint32(east)) & mask
	}
	if north != 0 {
		c.lat = (c.lat + uint32(north)) & mask
	}
	return c
}

// spread puts a zero before each bit.
func spread(n uint32) uint64 {
	x := uint64(n)
	for _, s := range [...]struct {
		by   uint
		mask uint64
	}{{16, 0x0000ffff0000ffff}, {8, 0x00ff00ff00ff00ff}, {4, 0x0f0f0f0f0f0f0f0f}, {2, 0x3333333333333333}, {1, 0x5555555555555555}} {
		x = (x | x<<s.by) & s.mask
	}
	return x
}

// gather takes every second bit.
func gather(x uint64) uint32 {
	x &= 0x5555555555555555
	for _, s := range [...]struct {
		by   uint
		mask uint64
	}{{1, 0x3333333333333333}, {2, 0x0f0f0f0f0f0f0f0f}, {4, 0x00ff00ff00ff00ff}, {8, 0x0000ffff0000ffff}, {16, 0x00000000ffffffff}} {
		x = (x | x>>s.by) & s.mask
	}
	return uint32(x)
}

// Score returns the score of a valid point.
func Score(p Point) uint64 { return cellOf(p, LatMax, stepMax).bits() }

// Place returns the middle of a score's cell. Scores that no point has are somewhere within the limits.
func Place(score float64) Point {
	bits := number(score)
	return Point{
		middle(gather(bits>>1), LonMax),
		middle(gather(bits), LatMax),
	}
}

func middle(n uint32, limit float64) float64 {
	low, high := span(n, stepMax, limit)
	return max(-limit, min(limit, (low+high)/2))
}

// number is the score as an unsigned number. What is out of range is some number, the same on every machine.
func number(score float64) uint64 {
	switch {
	case score >= 1<<63 && score < 1<<64:
		return uint64(score-1<<63) + 1<<63
	case score > -1<<63 && score < 1<<63:
		return uint64(int64(score))
	}
	return 0
}

// Number is a score as GEOHASH's kin show it, a signed number.
func Number(score float64) int64 { return int64(number(score)) }

// alphabet is that of geohash.org.
const alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"

// Text returns the name of a point at geohash.org. There latitudes go to the poles. It has 11 letters, of which 52 bits fill
// ten and a bit: the last one is always the first of the alphabet.
func Text(p Point) string {
	bits := cellOf(p, 90, stepMax).bits()
	var text [11]byte
	for i := range text {
		text[i] = alphabet[0]
		if i < len(text)-1 {
			text[i] = alphabet[bits>>(52-5*(i+1))&31]
		}
	}
	return string(text[:])
}

// radius of the Earth in metres, as Redis has it.
const radius = 6372797.560856

func radians(degrees float64) float64 { return degrees * (math.Pi / 180) }
func degrees(radians float64) float64 { return radians / (math.Pi / 180) }

// Distance returns the length of the great circle between two points, in metres.
func Distance(a, b Point) float64 {
	v := math.Sin((radians(b.Lon) - radians(a.Lon)) / 2)
	if v == 0 {
		return northward(a.Lat, b.Lat)
	}
	lat1, lat2 := radians(a.Lat), radians(b.Lat)
	u := math.Sin((lat2 - lat1) / 2)
	return 2 * radius * math.Asin(math.Sqrt(u*u+math.Cos(lat1)*math.Cos(lat2)*v*v))
}

// northward is the distance of two points on a meridian.
func northward(lat1, lat2 float64) float64 { return radius * math.Abs(radians(lat2)-radians(lat1)) }
