// Package report runs experiments one after the other, keeps what they print and the figures they record, and writes that down
// as JSON (raw), Markdown (tables) and one HTML page (tables and plots).
package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"cvmstore/bench"
)

// Experiment is one part of the evaluation.
type Experiment struct {
	Name  string
	About string // what it shows, one sentence
	Run   func(ctx context.Context, out io.Writer) error
}

// Section is what one experiment found.
type Section struct {
	Name    string
	About   string
	Took    time.Duration
	Failed  string `json:",omitempty"` // why it could not run
	Text    string // what it printed
	Figures []bench.Figure
}

// Environment is what was measured on.
type Environment struct {
	CPU        string
	Cores      int
	MemoryGiB  float64
	Kernel     string
	Go         string
	Version    string // of the program
	FileSystem string
}

// Report is a whole run.
type Report struct {
	Began       time.Time
	Took        time.Duration
	Quick       bool
	Environment Environment
	Sections    []Section
}

// recorder is an experiment's output: to the terminal, and kept.
type recorder struct {
	out     io.Writer
	text    bytes.Buffer
	figures []bench.Figure
}

func (r *recorder) Write(p []byte) (int, error) {
	r.text.Write(p)
	return r.out.Write(p)
}

func (r *recorder) Record(f bench.Figure) { r.figures = append(r.figures, f) }

// Run runs the experiments and returns the report. One that fails does not keep the next from running: see Failed.
func Run(ctx context.Context, experiments []Experiment, env Environment, quick bool, out io.Writer) *Report {
	r := &Report{Began: time.Now(), Quick: quick, Environment: env}
	for _, e := range experiments {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(out, "\n=== %s: %s\n\n", e.Name, e.About)
		rec, began := &recorder{out: out}, time.Now()
		err := e.Run(ctx, rec)
		s := Section{Name: e.Name, About: e.About, Took: time.Since(began), Text: rec.text.String(), Figures: rec.figures}
		switch {
		case err != nil:
			s.Failed = err.Error()
		case len(s.Figures) == 0:
			s.Failed = "it recorded no figure"
		}
		if s.Failed != "" {
			fmt.Fprintf(out, "\n*** %s could not run: %s\n", e.Name, s.Failed)
		}
		r.Sections = append(r.Sections, s)
		debug.FreeOSMemory() // what the last one held is not the next one's
	}
	r.Took = time.Since(r.Began)
	return r
}

// Failed names the experiments that could not run.
func (r *Report) Failed() (names []string) {
	for _, s := range r.Sections {
		if s.Failed != "" {
			names = append(names, s.Name)
		}
	}
	return names
}

// Figures returns the figures of all sections.
func (r *Report) Figures() (all []bench.Figure) {
	for _, s := range r.Sections {
		all = append(all, s.Figures...)
	}
	return all
}

// Write writes report.json, report.md and report.html into a directory, which it makes.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	page, err := r.HTML()
	if err != nil {
		return err
	}
	for name, b := range map[string][]byte{"report.json": raw, "report.md": []byte(r.Markdown()), "report.html": page} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Read reads report.json, from the file or the directory that it is in.
func Read(path string) (*Report, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, "report.json")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Here describes this machine; dir is where the data will lie.
func Here(version, dir string) Environment {
	e := Environment{Cores: runtime.NumCPU(), Go: runtime.Version(), Version: version, FileSystem: fileSystem(dir)}
	e.CPU = field("/proc/cpuinfo", "model name")
	e.Kernel = strings.TrimSpace(content("/proc/sys/kernel/osrelease"))
	var kib float64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%f kB", &kib); err == nil {
		e.MemoryGiB = kib / (1 << 20)
	}
	return e
}

func content(path string) string {
	b, _ := os.ReadFile(path) // unknown where there is none
	return string(b)
}

func field(path, name string) string {
	for line := range strings.Lines(content(path)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// fileSystem finds the kind of file system that dir is in, by the longest mount point above it.
func fileSystem(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "unknown"
	}
	best, kind := "", "unknown"
	for line := range strings.Lines(content("/proc/self/mounts")) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < len(best) {
			continue
		}
		if abs == f[1] || strings.HasPrefix(abs, strings.TrimSuffix(f[1], "/")+"/") {
			best, kind = f[1], f[2]
		}
	}
	return kind
}
