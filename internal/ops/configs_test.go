package ops

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"cvmstore/resp"
	"cvmstore/volume"
)

var (
	metricName = regexp.MustCompile(`cvmstore_[a-z_]+`)
	alertName  = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
)

// changed is a fake whose volume is in another state.
type changed struct {
	fake
	change func(*volume.Status)
}

func (c *changed) Figures() resp.Figures {
	f := c.fake.Figures()
	c.change(&f.Volume)
	return f
}

// recorder keeps an answer.
type recorder struct {
	code int
	body string
}

func (r *recorder) Header() http.Header { return http.Header{} }

func (r *recorder) WriteHeader(code int) { r.code = code }

func (r *recorder) Write(b []byte) (int, error) {
	r.body += string(b)
	return len(b), nil
}

func TestAlertsAndDashboardAskForWhatThereIs(t *testing.T) {
	_, _, url := start(t)
	_, text := get(t, url+"/metrics", func(r *http.Request) { r.SetBasicAuth("default", "right") })
	there := map[string]bool{"cvmstore_lease_left_seconds": true, "cvmstore_certificate_end_seconds": true} // where there is a lease, or TLS
	for _, name := range metricName.FindAllString(text, -1) {
		there[name] = true
	}
	alerts, err := os.ReadFile("../../configs/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	board, err := os.ReadFile("../../configs/grafana/cvmstore.json")
	if err != nil || !json.Valid(board) {
		t.Fatal("dashboard: ", err)
	}
	asked := 0
	for _, name := range metricName.FindAllString(string(alerts)+string(board), -1) {
		asked++
		if !there[name] {
			t.Errorf("no metric %s", name)
		}
	}
	manual, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	names := alertName.FindAllStringSubmatch(string(alerts), -1)
	for _, m := range names {
		if !strings.Contains(string(manual), "\n### "+m[1]+"\n") {
			t.Errorf("the runbook says nothing of %s", m[1])
		}
	}
	if asked < 20 || len(names) < 10 {
		t.Errorf("%d metrics, %d alerts", asked, len(names))
	}
	if tool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.Command(tool, "check", "rules", "../../configs/prometheus/alerts.yml").CombinedOutput(); err != nil {
			t.Errorf("%s", out)
		}
	}
}

// TestReadiness: nobody is sent to a server that cannot serve.
func TestReadiness(t *testing.T) {
	for want, change := range map[string]func(*volume.Status){
		"ready":           func(*volume.Status) {},
		"writing has":     func(v *volume.Status) { v.Failure = volume.ErrFailed },
		"volume is full":  func(v *volume.Status) { v.Full = true },
		"trusted counter": func(v *volume.Status) { v.Lease, v.LeaseLeft = time.Second, -1 },
	} {
		s := &Server{o: Options{Source: &changed{change: change}}}
		w := &recorder{}
		s.ready(w, nil)
		if !strings.Contains(w.body, want) || (w.code == http.StatusServiceUnavailable) == (want == "ready") {
			t.Errorf("%s: %d %s", want, w.code, w.body)
		}
	}
}
