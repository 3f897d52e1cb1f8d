package command

import (
	"fmt"
	"time"
)

// INFO's sections about commands and errors.

func infoCommandStats(t *infoText) {
	t.stats.PerCommand(func(cmd *Command, calls, failed, rejected uint64, busy time.Duration) {
		us := busy.Microseconds()
		t.str("cmdstat_"+cmd.Full(), fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			calls, us, float64(us)/float64(max(calls, 1)), rejected, failed))
	})
}

func infoErrorStats(t *infoText) {
	t.stats.PerError(func(code string, n uint64) { t.str("errorstat_"+code, fmt.Sprintf("count=%d", n)) })
}

func infoLatencyStats(t *infoText) {
	t.c.Srv.Latencies(func(cmd *Command, buckets *[Buckets]uint64) {
		t.str("latency_percentiles_usec_"+cmd.Full(), fmt.Sprintf("p50=%.3f,p99=%.3f,p99.9=%.3f",
			percentile(buckets, 0.5), percentile(buckets, 0.99), percentile(buckets, 0.999)))
	})
}

// percentile returns the upper bound, in microseconds, of the bucket that a share of the calls lies in or below.
func percentile(buckets *[Buckets]uint64, share float64) float64 {
	var total, sum uint64
	for _, n := range buckets {
		total += n
	}
	for i, n := range buckets {
		if sum += n; n > 0 && float64(sum) >= share*float64(total) {
			return float64(uint64(1) << i)
		}
	}
	return 0
}
