package report

import (
	"bytes"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"cvmstore/bench"
)

const (
	plotWidth = 24 * vg.Centimeter
	rowHeight = 0.8 * vg.Centimeter
)

// plotOf draws the ratios among figures as an SVG: a point each, with its spread, and a line where both sides are equal. Without
// ratios there is nothing to draw.
func plotOf(figures []bench.Figure) ([]byte, error) {
	ratios := slices.DeleteFunc(slices.Clone(figures), func(f bench.Figure) bool { return f.Unit != "x" })
	if len(ratios) == 0 {
		return nil, nil
	}
	slices.Reverse(ratios) // the first one on top
	p := plot.New()
	p.X.Label.Text = "ratio to the baseline"
	p.X.Min, p.X.Max = 0, 1.1
	points := make(plotter.XYs, len(ratios))
	errs := make(plotter.XErrors, len(ratios))
	names := make([]string, len(ratios))
	for i, f := range ratios {
		points[i] = plotter.XY{X: f.Value, Y: float64(i)}
		if f.High > 0 {
			errs[i].Low, errs[i].High = max(f.Value-f.Low, 0), max(f.High-f.Value, 0)
		}
		names[i] = f.Name
		p.X.Max = max(p.X.Max, 1.1*f.Value, 1.05*f.High)
	}
	bars, err := plotter.NewXErrorBars(struct {
		plotter.XYs
		plotter.XErrors
	}{points, errs})
	if err != nil {
		return nil, err
	}
	marks, err := plotter.NewScatter(points)
	if err != nil {
		return nil, err
	}
	equal, err := plotter.NewLine(plotter.XYs{{X: 1, Y: -0.5}, {X: 1, Y: float64(len(ratios)) - 0.5}})
	if err != nil {
		return nil, err
	}
	equal.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(plotter.NewGrid(), equal, bars, marks)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(ratios))-0.5
	for _, size := range []*font.Length{&p.X.Label.TextStyle.Font.Size, &p.X.Tick.Label.Font.Size, &p.Y.Tick.Label.Font.Size} {
		*size = vg.Points(11)
	}
	canvas := vgsvg.New(plotWidth, rowHeight*vg.Length(len(ratios))+2*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	if i := bytes.Index(b.Bytes(), []byte("<svg")); i > 0 { // inside a page there is no XML declaration
		b.Next(i)
	}
	return b.Bytes(), nil
}
