package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/resp"
	"cvmstore/resp/command"
	"cvmstore/volume"
)

// fake is a server under load: each look finds more.
type fake struct{ looks atomic.Uint64 }

func (f *fake) Figures() resp.Figures {
	n := f.looks.Add(1)
	out := resp.Figures{
		Stats:  &command.Stats{Version: "test", Started: time.Now().Add(-time.Hour), Connected: 12, MaxClients: 100, Commands: n * n * 100},
		Volume: volume.Status{Generation: 3, Epoch: 77, VolumeBytes: 1 << 30, FreeBytes: 1 << 29, LiveBytes: 1 << 28, DeadBytes: 1 << 26, UncommittedOps: n % 7 * 100, Mode: "ordered, non-blocking"},
		Errors: map[string]uint64{"ERR": 1},
	}
	c := resp.CommandFigures{Name: "<script>alert(1)</script>", Calls: n}
	c.Buckets[3] = n
	out.Commands = []resp.CommandFigures{c}
	w := resp.WaitFigures{Level: "fresh", Sum: time.Duration(n) * time.Millisecond}
	w.Buckets[10] = n
	out.Waits = []resp.WaitFigures{w}
	return out
}

func (f *fake) MayWatch(_, user, password string) bool {
	return user == "default" && password == "right"
}

func start(t *testing.T) (*Server, *fake, string) {
	t.Helper()
	f := &fake{}
	s, err := Start(Options{Addr: "127.0.0.1:0", Token: "0123456789abcdef", Source: f, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, f, "http://" + s.Addr().String()
}

func get(t *testing.T, url string, with func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if with != nil {
		with(r)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(res.Body)
	return res.StatusCode, b.String()
}

// TestWhoMaySeeWhat: health for everybody, the rest for those who are allowed, and nothing but GET.
func TestWhoMaySeeWhat(t *testing.T) {
	_, _, url := start(t)
	token := func(s string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s) }
	}
	basic := func(u, p string) func(*http.Request) { return func(r *http.Request) { r.SetBasicAuth(u, p) } }
	for _, c := range []struct {
		path string
		with func(*http.Request)
		want int
	}{
		{"/healthz", nil, 200},
		{"/readyz", nil, 200},
		{"/metrics", nil, 401},
		{"/", nil, 401},
		{"/page.js", nil, 401},
		{"/status.json", basic("default", "wrong"), 401},
		{"/status.json", token("0123456789abcdeX"), 401},
		{"/status.json", token(""), 401},
		{"/status.json", basic("default", "right"), 200},
		{"/status.json", basic("", "right"), 200},
		{"/metrics", token("0123456789abcdef"), 200},
		{"/", basic("default", "right"), 200},
		{"/nosuch", basic("default", "right"), 404},
		{"/page/page.html", basic("default", "right"), 404},
	} {
		if got, _ := get(t, url+c.path, c.with); got != c.want {
			t.Errorf("%s: %d, want %d", c.path, got, c.want)
		}
	}
	res, err := http.Post(url+"/healthz", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", res.StatusCode)
	}
	_, body := get(t, url+"/metrics", token("0123456789abcdef"))
	for _, want := range []string{"cvmstore_connected_clients 12", `cvmstore_command_seconds_bucket{command="<script>alert(1)</script>",le="8e-06"}`, "cvmstore_generation 3"} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics: no %s", want)
		}
	}
}

// TestPageInChromium opens the page as people do: figures arrive, charts move, nothing is complained of, nothing leaves the origin.
func TestPageInChromium(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil || testing.Short() {
		t.Skip("no chromium here")
	}
	s, f, _ := start(t)
	for range 5 { // a history for the charts, without waiting for it
		a, b := f.Figures(), f.Figures()
		s.history.add(&a, &b, 1, time.Now())
	}
	var outside atomic.Int64
	proxy, err := net.Listen("tcp", "127.0.0.1:0") // where requests to anywhere else would end
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	go func() {
		for {
			c, err := proxy.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 512)
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			n, _ := c.Read(buf)
			if line := string(buf[:n]); !strings.Contains(line, "google") && !strings.Contains(line, "gvt1") { // the browser's own errands
				outside.Add(1)
				t.Logf("asked of the outside: %.100q", line)
			}
			_ = c.Close()
		}
	}()
	dir := t.TempDir()
	if keep := os.Getenv("CVMSTORE_SCREENSHOTS"); keep != "" {
		dir = keep
	}
	url := "http://default:right@" + s.Addr().String() + "/"
	for name, args := range map[string][]string{
		"light": {"--window-size=1200,1400"},
		"dark":  {"--window-size=1200,1400", "--blink-settings=preferredColorScheme=0"},
		"phone": {"--window-size=500,2600"},
	} {
		shot := filepath.Join(dir, "status-"+name+".png")
		args = append(args, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+t.TempDir(), "--virtual-time-budget=4000",
			"--proxy-server=http://"+proxy.Addr().String(), "--proxy-bypass-list=127.0.0.1", "--enable-logging=stderr", "--screenshot="+shot, url)
		log := run(t, browser, args...)
		if bad := complaints(log); bad != "" {
			t.Errorf("%s: %s", name, bad)
		}
		file, err := os.Open(shot)
		if err != nil {
			t.Fatal(err)
		}
		image, err := png.Decode(file)
		_ = file.Close()
		if err != nil || image.Bounds().Dx() < 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
	dom := run(t, browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--virtual-time-budget=4000", "--proxy-server=http://"+proxy.Addr().String(), "--proxy-bypass-list=127.0.0.1", "--dump-dom", url)
	for _, want := range []string{`data-state="healthy"`, "&lt;script&gt;alert(1)&lt;/script&gt;", "highest", "1.0 GiB", `lang="en"`, `aria-live="polite"`} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(dom, "<script>alert") {
		t.Error("a name became markup")
	}
	if n := outside.Load(); n > 0 {
		t.Errorf("%d requests left the origin", n)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("chromium: %v: %.500s", err, out)
	}
	return string(out)
}

// complaints are lines that the page has left on the console.
func complaints(log string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "CONSOLE") {
			return line
		}
	}
	return ""
}

// TestChartsMove: the same page asked twice has more to show.
func TestChartsMove(t *testing.T) {
	s, f, url := start(t)
	points := func() int {
		_, body := get(t, url+"/status.json", func(r *http.Request) { r.SetBasicAuth("default", "right") })
		var out struct{ Points []point }
		if err := json.Unmarshal([]byte(body), &out); err != nil {
			t.Fatal(err)
		}
		return len(out.Points)
	}
	before := points()
	for range historyMax + 10 {
		a, b := f.Figures(), f.Figures()
		s.history.add(&a, &b, 1, time.Now())
	}
	if after := points(); after <= before || after > historyMax {
		t.Errorf("%d points, then %d", before, after)
	}
	failed := f.Figures()
	failed.Volume.Failure = fmt.Errorf("gone")
	ok := f.Figures()
	s.history.add(&ok, &failed, 1, time.Now())
	s.history.add(&failed, &ok, 1, time.Now())
	if n := len(s.history.alarms); n != 2 {
		t.Errorf("%d alarms", n)
	}
}
