package ops

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cvmstore/resp"
	"cvmstore/resp/command"
)

// collector turns a snapshot into metrics, each time that it is asked.
type collector struct {
	source Source
	end    func() time.Time
}

// Describe implements prometheus.Collector: what there is depends on what was executed.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// sink sends metrics.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) gauge(name, help string, v float64, labels ...string) {
	s.send(name, help, prometheus.GaugeValue, v, labels)
}

func (s sink) counter(name, help string, v float64, labels ...string) {
	s.send(name, help, prometheus.CounterValue, v, labels)
}

// send takes labels as name, value, name, value.
func (s sink) send(name, help string, kind prometheus.ValueType, v float64, labels []string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	s.ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("cvmstore_"+name, help, names, nil), kind, v, values...)
}

func (s sink) histogram(name, help string, buckets *[command.Buckets]uint64, sum time.Duration, label, value string) {
	upTo := make(map[float64]uint64, len(buckets))
	var n uint64
	for i, c := range buckets {
		n += c
		if i < len(buckets)-1 {
			upTo[float64(uint64(1)<<i)/1e6] = n
		}
	}
	s.ch <- prometheus.MustNewConstHistogram(prometheus.NewDesc("cvmstore_"+name, help, []string{label}, nil), n, sum.Seconds(), upTo, value)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	f, s := c.source.Figures(), sink{ch}
	collectClients(s, &f)
	collectCommands(s, &f)
	collectVolume(s, &f)
	if c.end != nil {
		if end := c.end(); !end.IsZero() {
			s.gauge("certificate_end_seconds", "When the TLS certificate ends, in Unix time.", float64(end.Unix()))
		}
	}
}

func collectClients(s sink, f *resp.Figures) {
	st := f.Stats
	s.gauge("start_time_seconds", "When the server started, in Unix time.", float64(st.Started.Unix()))
	s.gauge("build_info", "The version, as a label.", 1, "version", st.Version)
	s.gauge("connected_clients", "Connections.", float64(st.Connected))
	s.gauge("max_clients", "Connections that are allowed.", float64(st.MaxClients))
	s.gauge("blocked_clients", "Connections that wait in a command.", float64(st.Blocked))
	s.counter("connections_total", "Connections accepted.", float64(st.Connections))
	s.counter("connections_refused_total", "Connections refused.", float64(st.Rejected))
	s.counter("tls_handshakes_failed_total", "TLS handshakes that failed.", float64(st.TLSFailed))
	s.counter("commands_total", "Commands executed.", float64(st.Commands))
	s.counter("net_input_bytes_total", "Bytes from clients.", float64(st.NetIn))
	s.counter("net_output_bytes_total", "Bytes to clients.", float64(st.NetOut))
	s.counter("uncertain_replies_total", "Replies that became errors because their level was not reached in time.", float64(st.Uncertain))
	s.counter("closed_for_output_total", "Clients closed because they took too little of their replies.", float64(st.OutputLimitClosed))
	s.counter("closed_for_input_total", "Clients closed because they sent too much at once.", float64(st.QueryLimitClosed))
	for code, n := range f.Errors {
		s.counter("errors_total", "Error replies by code.", float64(n), "code", code)
	}
	for what, n := range map[string]uint64{"login": f.DeniedLogins, "command": f.DeniedCommands, "key": f.DeniedKeys, "channel": f.DeniedChannels} {
		s.counter("denied_total", "What was denied by users' rights.", float64(n), "what", what)
	}
	s.gauge("memory_used_bytes", "Memory that maxmemory is compared with.", float64(f.UsedMemory))
	s.gauge("memory_max_bytes", "maxmemory; 0: none.", float64(f.MaxMemory))
	s.counter("cache_hits_total", "Values found in memory.", float64(f.Space.Hits))
	s.counter("cache_misses_total", "Values that were read from the device.", float64(f.Space.Misses))
	s.gauge("cache_bytes", "Memory for cached values.", float64(f.Space.CacheBytes))
	s.counter("expired_keys_total", "Keys whose time had come.", float64(f.Space.Expired))
	s.counter("evicted_keys_total", "Keys deleted to make room.", float64(f.Space.Evicted))
	s.gauge("scripts", "Scripts that are known.", float64(f.Scripts))
	s.gauge("functions", "Functions that are loaded.", float64(f.Functions))
}

func collectCommands(s sink, f *resp.Figures) {
	for i := range f.Commands {
		c := &f.Commands[i]
		s.histogram("command_seconds", "Time that executions of a command took, without waiting for their level.", &c.Buckets, c.Busy, "command", c.Name)
		s.counter("command_failures_total", "Executions that ended with an error.", float64(c.Failed), "command", c.Name)
		s.counter("command_rejections_total", "Commands that were refused before they were executed.", float64(c.Rejected), "command", c.Name)
	}
	for i := range f.Waits {
		w := &f.Waits[i]
		s.histogram("reply_wait_seconds", "Time that replies waited for their level.", &w.Buckets, w.Sum, "level", w.Level)
	}
}

func collectVolume(s sink, f *resp.Figures) {
	v := &f.Volume
	s.gauge("volume_failed", "1 if writing has stopped.", truth(v.Failure != nil))
	s.gauge("volume_full", "1 if the volume is full.", truth(v.Full))
	s.gauge("generation", "This run's generation on the volume.", float64(v.Generation))
	s.gauge("epoch", "The open epoch's number.", float64(v.Epoch))
	s.gauge("rollback_window_operations", "Changes that the trusted counter has not confirmed.", float64(v.UncommittedOps))
	s.gauge("rollback_window_seconds", "For how long the oldest of them has waited.", v.UncommittedAge.Seconds())
	s.gauge("rollback_window_epochs", "Epochs that have ended and are not committed.", float64(v.Waiting))
	s.gauge("rollback_window_epochs_max", "How many may be uncommitted.", float64(v.WindowEpochs))
	s.gauge("commit_round_trip_seconds", "Time that the last commit to the trusted counter took.", v.RoundTrip.Seconds())
	s.gauge("trusted_service_failing", "1 if the last commit to the trusted counter failed.", truth(v.LastCounterError != nil))
	if v.Lease > 0 {
		s.gauge("lease_left_seconds", "For how long answers may still be called fresh without another confirmation.", v.LeaseLeft.Seconds())
	}
	s.counter("frames_total", "Frames written.", float64(v.Frames))
	s.counter("commits_total", "Commits to the trusted counter.", float64(v.Commits))
	s.counter("device_written_bytes_total", "Bytes sealed and written to the device.", float64(v.BytesWritten))
	s.counter("device_read_bytes_total", "Bytes read from the device and verified.", float64(v.BytesRead))
	s.counter("appended_bytes_total", "Bytes of records appended.", float64(v.BytesAppended))
	s.counter("compaction_moved_bytes_total", "Bytes that compaction moved.", float64(v.BytesMoved))
	s.counter("compaction_segments_total", "Segments that compaction emptied.", float64(v.SegmentsCleaned))
	s.counter("compaction_segments_refused_total", "Segments that compaction could not read.", float64(v.SegmentsRefused))
	s.gauge("compaction_debt_bytes", "Bytes that compaction still has to free.", float64(v.CompactionDebt))
	s.gauge("live_bytes", "Bytes of live records.", float64(v.LiveBytes))
	s.gauge("dead_bytes", "Bytes of records that nothing needs any more.", float64(v.DeadBytes))
	s.gauge("volume_bytes", "Size of the volume.", float64(v.VolumeBytes))
	s.gauge("volume_free_bytes", "Free bytes of the volume.", float64(v.FreeBytes))
	s.gauge("pending_bytes", "Bytes of records that are not durable yet.", float64(v.UncommittedBytes))
	for state, n := range map[string]int{"open": v.SegmentsOpen, "listed": v.SegmentsListed, "emptied": v.SegmentsEmptied} {
		s.gauge("segments", "Segments by state.", float64(n), "state", state)
	}
}
