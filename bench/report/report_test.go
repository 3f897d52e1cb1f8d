package report_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"cvmstore/bench"
	"cvmstore/bench/report"
)

func run(t *testing.T, ratio float64) *report.Report {
	t.Helper()
	return report.Run(t.Context(), []report.Experiment{
		{Name: "good", About: "It <works>.", Run: func(_ context.Context, out io.Writer) error {
			out.(bench.Recorder).Record(bench.Figure{
				Experiment: "good", Name: "SET", Unit: "x", Against: "redis-server", Value: ratio, Low: ratio - 0.1, High: ratio + 0.1, Floor: 1.4, Goal: 1.6,
				Rate: []float64{2, 1}, RateUnit: "requests/s",
			})
			_, err := io.WriteString(out, "a line\n")
			return err
		}},
		{Name: "broken", About: "It does not.", Run: func(context.Context, io.Writer) error { return errors.New("no redis-server") }},
		{Name: "silent", About: "It says nothing.", Run: func(context.Context, io.Writer) error { return nil }},
	}, report.Environment{CPU: "a processor"}, true, io.Discard)
}

// A report that was written is the one that is read, names what could not run, and its page needs nothing from elsewhere.
func TestReport(t *testing.T) {
	r := run(t, 1.5)
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	back, err := report.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(back.Failed(), " "); got != "broken silent" {
		t.Errorf("failed: %s", got)
	}
	if got := back.Markdown(); got != r.Markdown() || !strings.Contains(got, "| SET | redis-server | 1.5 x | 1.4 to 1.6 | ≥ 1.6, floor 1.4 | floor held, goal missed |") {
		t.Errorf("Markdown:\n%s", got)
	}
	html, err := back.HTML()
	if err != nil {
		t.Fatal(err)
	}
	page := string(html)
	for _, want := range []string{"a processor", "It &lt;works&gt;.", "<svg", "a line", "no redis-server", "floor held"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"<script", "<link", "src="} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q", not)
		}
	}
}

// Two runs whose ratios are more than ten in a hundred apart are told apart.
func TestCompare(t *testing.T) {
	var out strings.Builder
	if n := report.Compare(run(t, 1.5), run(t, 1.6), &out); n != 0 {
		t.Errorf("1.5 and 1.6: %d unstable\n%s", n, out.String())
	}
	if n := report.Compare(run(t, 1.5), run(t, 1.7), &out); n != 1 || !strings.Contains(out.String(), "unstable") {
		t.Errorf("1.5 and 1.7: %d unstable\n%s", n, out.String())
	}
}
