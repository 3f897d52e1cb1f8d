package ops

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"cvmstore/resp"
	"cvmstore/resp/command"
)

// The status page: one document with a style and a script of its own, which asks for status.json once a second.

//go:embed page
var page embed.FS

// point is one sample of the charts.
type point struct {
	At      int64   `json:"at"` // Unix milliseconds
	Ops     float64 `json:"ops"`
	WaitMS  float64 `json:"wait"`   // mean wait for the level, in ms
	Window  float64 `json:"window"` // uncommitted changes
	Written float64 `json:"written"`
	Read    float64 `json:"read"`
}

const (
	sampleEvery = time.Second
	historyMax  = 300
	alarmsMax   = 20
)

// history is what the charts show: the last five minutes, and the last alarms.
type history struct {
	mu     sync.Mutex
	points []point
	alarms []alarm
	on     map[string]bool
}

type alarm struct {
	At    int64  `json:"at"`
	Text  string `json:"text"`
	Ended bool   `json:"ended"`
}

// sample takes a point a second until ctx ends.
func (h *history) sample(ctx context.Context, source Source) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	before, at := source.Figures(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, f := time.Now(), source.Figures()
		h.add(&before, &f, now.Sub(at).Seconds(), now)
		before, at = f, now
	}
}

func waited(f *resp.Figures) (n uint64, sum time.Duration) {
	for i := range f.Waits {
		for _, c := range f.Waits[i].Buckets {
			n += c
		}
		sum += f.Waits[i].Sum
	}
	return n, sum
}

func (h *history) add(a, b *resp.Figures, seconds float64, now time.Time) {
	rate := func(from, to uint64) float64 {
		if to < from || seconds <= 0 {
			return 0
		}
		return float64(to-from) / seconds
	}
	p := point{
		At: now.UnixMilli(), Ops: rate(a.Stats.Commands, b.Stats.Commands), Window: float64(b.Volume.UncommittedOps),
		Written: rate(a.Volume.BytesWritten, b.Volume.BytesWritten), Read: rate(a.Volume.BytesRead, b.Volume.BytesRead),
	}
	n0, s0 := waited(a)
	if n1, s1 := waited(b); n1 > n0 && s1 >= s0 {
		p.WaitMS = float64(s1-s0) / float64(n1-n0) / 1e6
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points = append(h.points, p)
	h.points = h.points[max(0, len(h.points)-historyMax):]
	h.watch(b, now)
}

// watch notes alarms that begin and end.
func (h *history) watch(f *resp.Figures, now time.Time) {
	v := &f.Volume
	current := map[string]bool{
		"Writing has stopped: restart to recover":                   v.Failure != nil,
		"The volume is full":                                        v.Full,
		"The trusted counter does not answer":                       v.LastCounterError != nil,
		"The fresh lease has lapsed: nothing is called fresh":       v.Lease > 0 && v.LeaseLeft < 0,
		"Compaction met segments that it could not read: run check": v.SegmentsRefused > 0,
		"Many logins fail":                                          f.DeniedLogins > 100,
		"Replies became errors because their level was not reached": f.Stats.Uncertain > 0,
		"Less than a tenth of the volume is free":                   v.VolumeBytes > 0 && v.FreeBytes < v.VolumeBytes/10,
		"More than nine tenths of the allowed connections are open": f.Stats.MaxClients > 0 && f.Stats.Connected > f.Stats.MaxClients*9/10,
		"More than nine tenths of maxmemory are in use":             f.MaxMemory > 0 && f.UsedMemory > f.MaxMemory/10*9,
	}
	if h.on == nil {
		h.on = map[string]bool{}
	}
	for text, on := range current {
		if on != h.on[text] {
			h.on[text] = on
			h.alarms = append(h.alarms, alarm{now.UnixMilli(), text, !on})
			h.alarms = h.alarms[max(0, len(h.alarms)-alarmsMax):]
		}
	}
}

// status is status.json.
func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	f := s.o.Source.Figures()
	v := &f.Volume
	h := &s.history
	h.mu.Lock()
	points, alarms := append([]point{}, h.points...), append([]alarm{}, h.alarms...)
	var raised []string
	for text, on := range h.on {
		if on {
			raised = append(raised, text)
		}
	}
	h.mu.Unlock()
	state := "healthy"
	switch {
	case v.Failure != nil:
		state = "stopped writing"
	case len(raised) > 0:
		state = "needs attention"
	}
	failure := ""
	if v.Failure != nil {
		failure = "writing has stopped"
	}
	out := map[string]any{
		"state": state, "failure": failure, "raised": raised, "alarms": alarms, "points": points,
		"version": f.Stats.Version, "started": f.Stats.Started.UnixMilli(), "now": time.Now().UnixMilli(),
		"generation": v.Generation, "epoch": v.Epoch, "epochRate": v.EpochRate, "mode": v.Mode,
		"window":    map[string]any{"operations": v.UncommittedOps, "ms": v.UncommittedAge.Milliseconds(), "epochs": v.Waiting, "epochsMax": v.WindowEpochs},
		"counter":   map[string]any{"roundTripMS": float64(v.RoundTrip.Microseconds()) / 1000, "failing": v.LastCounterError != nil, "leaseMS": v.Lease.Milliseconds(), "leaseLeftMS": v.LeaseLeft.Milliseconds()},
		"clients":   map[string]any{"connected": f.Stats.Connected, "max": f.Stats.MaxClients, "blocked": f.Stats.Blocked},
		"memory":    map[string]any{"used": f.UsedMemory, "max": f.MaxMemory},
		"cache":     map[string]any{"hits": f.Space.Hits, "misses": f.Space.Misses, "bytes": f.Space.CacheBytes},
		"denied":    map[string]any{"logins": f.DeniedLogins, "commands": f.DeniedCommands, "keys": f.DeniedKeys, "channels": f.DeniedChannels},
		"space":     map[string]any{"total": v.VolumeBytes, "free": v.FreeBytes, "live": v.LiveBytes, "dead": v.DeadBytes, "segmentBytes": v.SegmentBytes, "open": v.SegmentsOpen, "listed": v.SegmentsListed, "emptied": v.SegmentsEmptied},
		"commands":  slowest(&f),
		"durations": "ms",
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// slowest lists the commands that took most time in all, with their median and 99th percentile.
func slowest(f *resp.Figures) (list []map[string]any) {
	for n := range min(8, len(f.Commands)) {
		for i := n + 1; i < len(f.Commands); i++ {
			if f.Commands[i].Busy > f.Commands[n].Busy {
				f.Commands[i], f.Commands[n] = f.Commands[n], f.Commands[i]
			}
		}
		c := &f.Commands[n]
		list = append(list, map[string]any{
			"name": c.Name, "calls": c.Calls, "failed": c.Failed, "p50": quantile(&c.Buckets, 50), "p99": quantile(&c.Buckets, 99),
		})
	}
	return list
}

// quantile is an upper bound, as text.
func quantile(buckets *[command.Buckets]uint64, percent uint64) string {
	var all, n uint64
	for _, c := range buckets {
		all += c
	}
	for i, c := range buckets {
		if n += c; n*100 >= all*percent {
			us := uint64(1) << i
			if us < 1000 {
				return fmt.Sprintf("%d µs", us)
			}
			return fmt.Sprintf("%.1f ms", float64(us)/1000)
		}
	}
	return ""
}
