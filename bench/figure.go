package bench

import "io"

// Figure is one number that an experiment found, for reports.
type Figure struct {
	Experiment string    // whose: redis, io ...
	Name       string    // what was measured
	Unit       string    // "x" for a ratio to Against
	Against    string    `json:",omitempty"` // the baseline, measured in the same run
	Value      float64   // the median
	Low, High  float64   // its spread, as far as Samples tell; both 0 if there is none
	Samples    []float64 `json:",omitempty"` // what Value is the median of
	Rate       []float64 `json:",omitempty"` // medians of both sides behind a ratio, ours first
	RateUnit   string    `json:",omitempty"`
	Floor      float64   `json:",omitempty"` // must hold; 0: none
	Goal       float64   `json:",omitempty"` // is wanted; 0: none
	AtMost     bool      `json:",omitempty"` // floor and goal are upper bounds
	Paper      string    `json:",omitempty"` // what the paper says of it
}

// Recorder is an experiment's output that takes figures beside the text.
type Recorder interface {
	io.Writer
	Record(f Figure)
}

// record hands a figure to an output that wants it.
func record(out io.Writer, f Figure) {
	if r, ok := out.(Recorder); ok {
		if n := len(f.Samples); n > 0 && f.Low == 0 && f.High == 0 {
			s := bootstrap(f.Samples)
			f.Low, f.High = s.low, s.high
			if f.Value == 0 {
				f.Value = s.median
			}
		}
		r.Record(f)
	}
}

// Met says whether the figure holds a bound; a bound of 0 always is.
func (f *Figure) Met(bound float64) bool {
	return bound == 0 || f.AtMost && f.Value <= bound || !f.AtMost && f.Value >= bound
}
