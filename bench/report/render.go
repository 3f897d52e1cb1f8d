package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"cvmstore/bench"
)

//go:embed page.html
var pages embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"number": number, "spread": spread, "bounds": bounds, "verdict": verdict, "rates": rates,
}).ParseFS(pages, "page.html"))

// number prints a value with three digits or so.
func number(v float64) string {
	switch {
	case v >= 1000 || v <= -1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.9 && v < 1.1:
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func spread(f bench.Figure) string {
	if f.Low == 0 && f.High == 0 {
		return ""
	}
	return number(f.Low) + " to " + number(f.High)
}

func rates(f bench.Figure) string {
	if len(f.Rate) != 2 {
		return ""
	}
	return number(f.Rate[0]) + " : " + number(f.Rate[1]) + " " + f.RateUnit
}

func bounds(f bench.Figure) string {
	sign := "≥ "
	if f.AtMost {
		sign = "≤ "
	}
	switch {
	case f.Goal != 0 && f.Floor != 0:
		return sign + number(f.Goal) + ", floor " + number(f.Floor)
	case f.Goal != 0:
		return sign + number(f.Goal)
	}
	return ""
}

// verdict says whether goal and floor are met.
func verdict(f bench.Figure) string {
	switch {
	case f.Goal == 0 && f.Floor == 0:
		return ""
	case f.Met(f.Goal):
		return "met"
	case f.Floor != 0 && f.Met(f.Floor):
		return "floor held, goal missed"
	case f.Floor != 0:
		return "floor missed"
	}
	return "missed"
}

// Goals returns the figures that have a goal or a floor.
func (r *Report) Goals() (out []bench.Figure) {
	for _, f := range r.Figures() {
		if f.Goal != 0 || f.Floor != 0 {
			out = append(out, f)
		}
	}
	return out
}

// Kind says how much was run.
func (r *Report) Kind() string {
	if r.Quick {
		return "a quick run: small sizes, short slices"
	}
	return "a full run"
}

// Markdown returns the tables.
func (r *Report) Markdown() string {
	var b strings.Builder
	e := r.Environment
	fmt.Fprintf(&b, "# cvmstore: evaluation of %s\n\n%s, %s. %s, %d cores, %.0f GiB, Linux %s, %s, %s; program %s.\n", r.Began.UTC().Format(time.DateTime),
		r.Kind(), r.Took.Round(time.Second), e.CPU, e.Cores, e.MemoryGiB, e.Kernel, e.FileSystem, e.Go, e.Version)
	if failed := r.Failed(); len(failed) > 0 {
		fmt.Fprintf(&b, "\n**Could not run: %s.**\n", strings.Join(failed, ", "))
	}
	b.WriteString("\n## Goals\n\n")
	table(&b, r.Goals(), true)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s (%s)\n\n", s.Name, s.About, s.Took.Round(time.Second))
		if s.Failed != "" {
			fmt.Fprintf(&b, "Could not run: %s\n\n", s.Failed)
		}
		if len(s.Figures) > 0 {
			table(&b, s.Figures, false)
		}
	}
	return b.String()
}

func table(b *strings.Builder, figures []bench.Figure, goals bool) {
	if goals {
		b.WriteString("| what | against | measured | spread | goal | |\n|---|---|---|---|---|---|\n")
	} else {
		b.WriteString("| what | against | measured | spread | both sides | the paper |\n|---|---|---|---|---|---|\n")
	}
	for _, f := range figures {
		fmt.Fprintf(b, "| %s | %s | %s %s | %s |", f.Name, f.Against, number(f.Value), f.Unit, spread(f))
		if goals {
			fmt.Fprintf(b, " %s | %s |\n", bounds(f), verdict(f))
		} else {
			fmt.Fprintf(b, " %s | %s |\n", rates(f), f.Paper)
		}
	}
}

// HTML returns a page that needs nothing else.
func (r *Report) HTML() ([]byte, error) {
	type section struct {
		Section
		Plot template.HTML
	}
	data := struct {
		*Report
		Parts []section
	}{Report: r}
	for _, s := range r.Sections {
		svg, err := plotOf(s.Figures)
		if err != nil {
			return nil, err
		}
		data.Parts = append(data.Parts, section{s, template.HTML(svg)}) //nolint:gosec // drawn here
	}
	var b bytes.Buffer
	err := page.Execute(&b, data)
	return b.Bytes(), err
}
