package command

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// infoSections are INFO's sections in order; those from commandstats on are shown only when asked for.
var infoSections = []struct {
	name  string
	extra bool
	write func(*infoText)
}{
	{"server", false, infoServer},
	{"clients", false, infoClients},
	{"memory", false, infoMemory},
	{"persistence", false, infoPersistence},
	{"stats", false, infoStats},
	{"replication", false, infoReplication},
	{"cpu", false, infoCPU},
	{"modules", false, func(*infoText) {}},
	{"errorstats", false, infoErrorStats},
	{"cluster", false, func(t *infoText) { t.num("cluster_enabled", 0) }},
	{"keyspace", false, infoKeyspace},
	{"files", false, infoFiles},
	{"cvm", false, infoCVM},
	{"commandstats", true, infoCommandStats},
	{"latencystats", true, infoLatencyStats},
}

// infoText collects the lines of one INFO.
type infoText struct {
	strings.Builder
	c     *Ctx
	stats *Stats
}

func (t *infoText) num(name string, n int64) { t.str(name, strconv.FormatInt(n, 10)) }

func (t *infoText) str(name, val string) {
	t.WriteString(name)
	t.WriteByte(':')
	t.WriteString(strings.NewReplacer("\r", " ", "\n", " ").Replace(val))
	t.WriteString("\r\n")
}

func cmdInfo(c *Ctx) error {
	wanted := map[string]bool{}
	for _, a := range c.Args[1:] {
		wanted[strings.ToLower(string(a))] = true
	}
	byDefault := len(wanted) == 0 || wanted["default"]
	all := wanted["all"] || wanted["everything"]
	c.Loose = true // only the keyspace section depends on what is stored
	t := &infoText{c: c, stats: c.Srv.Stats()}
	for _, s := range infoSections {
		if !all && !wanted[s.name] && (!byDefault || s.extra) {
			continue
		}
		if t.Len() > 0 {
			t.WriteString("\r\n")
		}
		title := s.name
		if title == "cpu" || title == "cvm" {
			title = strings.ToUpper(title)
		}
		t.WriteString("# " + strings.ToUpper(title[:1]) + title[1:] + "\r\n")
		s.write(t)
	}
	c.Reply.Verbatim("txt", t.String())
	return nil
}

func infoServer(t *infoText) {
	up := time.Since(t.stats.Started)
	t.str("redis_version", RedisVersion)
	t.str("redis_git_sha1", "00000000")
	t.num("redis_git_dirty", 0)
	t.str("redis_mode", "standalone")
	t.str("os", runtime.GOOS+" "+runtime.GOARCH)
	t.num("arch_bits", strconv.IntSize)
	t.str("multiplexing_api", "epoll")
	t.num("process_id", int64(os.Getpid()))
	t.str("process_supervised", "no")
	t.str("run_id", t.stats.RunID)
	t.num("tcp_port", int64(t.stats.Port))
	t.num("tls_port", int64(t.stats.TLSPort))
	t.num("server_time_usec", time.Now().UnixMicro())
	t.num("uptime_in_seconds", int64(up/time.Second))
	t.num("uptime_in_days", int64(up/(24*time.Hour)))
	t.c.Srv.ConfigGet([][]byte{[]byte("hz")}, func(name, value string) {
		t.str("hz", value)
		t.str("configured_hz", value)
	})
	t.num("lru_clock", time.Now().Unix()&(1<<24-1))
	t.str("executable", executable())
	t.num("io_threads_active", boolInt(t.stats.Loops > 1))
	t.str("config_file", t.stats.ConfigFile)
	t.str("cvmstore_version", t.stats.Version)
	t.num("cvmstore_loops", int64(t.stats.Loops))
	t.str("go_version", runtime.Version())
}

func infoClients(t *infoText) {
	t.num("connected_clients", t.stats.Connected)
	t.num("cluster_connections", 0)
	t.num("maxclients", t.stats.MaxClients)
	t.num("blocked_clients", t.stats.Blocked)
	tracking, _, _, _ := t.c.Srv.TrackedTotals()
	t.num("tracking_clients", int64(tracking))
	t.num("clients_in_timeout_table", 0)
	t.num("client_recent_max_input_buffer", 0)
	t.num("client_recent_max_output_buffer", 0)
	t.num("monitoring_clients", t.stats.Monitors)
}

// scriptVM is what INFO says that the interpreter takes by itself, in bytes.
const scriptVM = 40 << 10

func infoMemory(t *infoText) {
	m := readMemory()
	limit := t.c.Srv.MaxMemory()
	used := t.c.Srv.UsedMemory()
	t.num("used_memory", used)
	t.str("used_memory_human", human(used))
	t.num("mem_not_counted_for_evict", 0)
	t.num("used_memory_rss", m.resident)
	t.str("used_memory_rss_human", human(m.resident))
	t.num("used_memory_peak", m.total)
	t.str("used_memory_peak_human", human(m.total))
	t.str("used_memory_peak_perc", fmt.Sprintf("%.2f%%", 100*float64(used)/float64(max(m.total, 1))))
	t.num("used_memory_overhead", 0)
	t.num("used_memory_startup", 0)
	t.num("used_memory_dataset", used)
	t.str("used_memory_dataset_perc", "100.00%")
	t.num("total_system_memory", systemMemory())
	cached, libraries, functions, scriptBytes := t.c.Srv.ScriptFigures()
	t.num("used_memory_lua", scriptVM)
	t.num("used_memory_vm_eval", scriptVM)
	t.num("used_memory_scripts_eval", scriptBytes)
	t.num("number_of_cached_scripts", int64(cached))
	t.num("number_of_functions", int64(functions))
	t.num("number_of_libraries", int64(libraries))
	t.num("maxmemory", limit)
	t.str("maxmemory_human", human(limit))
	t.str("maxmemory_policy", setting(t.c, "maxmemory-policy"))
	t.str("mem_fragmentation_ratio", fmt.Sprintf("%.2f", float64(m.resident)/float64(max(used, 1))))
	t.num("mem_fragmentation_bytes", m.resident-used)
	t.num("mem_clients_normal", 0)
	t.num("mem_clients_slaves", 0)
	t.num("mem_aof_buffer", 0)
	t.num("lazyfree_pending_objects", 0)
	t.num("active_defrag_running", 0)
	t.str("mem_allocator", "go")
	if t.c.Space != nil {
		t.num("value_cache_bytes", int64(t.c.Space.Stats().CacheBytes))
	}
}

func infoPersistence(t *infoText) {
	t.num("loading", 0)
	t.num("async_loading", 0)
	v := t.c.Srv.Volume()
	var changes int64 // counters since the last SAVE: one for each change
	status := "ok"
	if v != nil {
		applied, _, _ := v.Watermarks()
		changes = max(int64(uint64(applied)-t.c.Srv.Observed().SavedAt.Load()), 0)
		if v.Err() != nil {
			status = "err"
		}
	}
	t.num("rdb_changes_since_last_save", changes)
	t.num("rdb_bgsave_in_progress", 0)
	t.num("rdb_last_save_time", t.c.Srv.Observed().LastSave.Load())
	t.str("rdb_last_bgsave_status", status)
	t.num("rdb_last_bgsave_time_sec", -1)
	t.num("rdb_current_bgsave_time_sec", -1)
	t.num("aof_enabled", 1)
	t.num("aof_rewrite_in_progress", 0)
	t.num("aof_rewrite_scheduled", 0)
	t.num("aof_last_rewrite_time_sec", -1)
	t.num("aof_current_rewrite_time_sec", -1)
	t.str("aof_last_bgrewrite_status", "ok")
	t.str("aof_last_write_status", status)
}

func infoStats(t *infoText) {
	s := t.stats
	t.num("total_connections_received", int64(s.Connections))
	t.num("total_commands_processed", int64(s.Commands))
	t.num("instantaneous_ops_per_sec", int64(s.OpsPerSec))
	t.num("total_net_input_bytes", int64(s.NetIn))
	t.num("total_net_output_bytes", int64(s.NetOut))
	t.str("instantaneous_input_kbps", fmt.Sprintf("%.2f", s.KBIn))
	t.str("instantaneous_output_kbps", fmt.Sprintf("%.2f", s.KBOut))
	t.num("rejected_connections", int64(s.Rejected))
	t.num("tls_handshakes_failed", int64(s.TLSFailed))
	_, keys, items, prefixes := t.c.Srv.TrackedTotals()
	t.num("tracking_total_keys", int64(keys))
	t.num("tracking_total_items", int64(items))
	t.num("tracking_total_prefixes", int64(prefixes))
	t.num("sync_full", 0)
	t.num("sync_partial_ok", 0)
	t.num("sync_partial_err", 0)
	if t.c.Space != nil {
		k := t.c.Space.Stats()
		t.num("expired_keys", int64(k.Expired))
		t.num("keyspace_hits", int64(k.Hits))
		t.num("keyspace_misses", int64(k.Misses))
		t.num("evicted_keys", int64(k.Evicted))
	}
	t.num("evicted_clients", 0)
	t.num("pubsub_channels", 0)
	t.num("pubsub_patterns", 0)
	t.num("latest_fork_usec", 0)
	t.num("migrate_cached_sockets", 0)
	t.num("total_error_replies", int64(s.ErrorReplies))
	t.num("client_query_buffer_limit_disconnections", int64(s.QueryLimitClosed))
	t.num("client_output_buffer_limit_disconnections", int64(s.OutputLimitClosed))
	t.num("uncertain_replies", int64(s.Uncertain))
}

func infoReplication(t *infoText) {
	t.str("role", "master")
	t.num("connected_slaves", 0)
	t.str("master_failover_state", "no-failover")
	t.str("master_replid", strings.Repeat("0", 40))
	t.num("master_repl_offset", 0)
	t.str("master_replid2", strings.Repeat("0", 40))
	t.num("second_repl_offset", -1)
	t.num("repl_backlog_active", 0)
	t.num("repl_backlog_size", 0)
	t.num("repl_backlog_first_byte_offset", 0)
	t.num("repl_backlog_histlen", 0)
}

func infoKeyspace(t *infoText) {
	c := t.c
	v := c.Srv.Volume()
	if c.Space == nil || v != nil && v.Err() != nil {
		return // counts would include what is lost (DESIGN.md 4.5)
	}
	c.Space.BeginAll(c.Tx, c.S.DB)
	for db := range c.Space.Databases() {
		if keys, expires := c.Tx.Info(db); keys > 0 {
			t.str("db"+strconv.Itoa(db), fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0", keys, expires))
		}
	}
	c.Tx.End()
	c.Loose = false
}

func infoCVM(t *infoText) {
	if v := t.c.Srv.Volume(); v != nil {
		for _, f := range statusFields(v.Status()) {
			if f.text != "" {
				t.str(f.name, f.text)
			} else {
				t.num(f.name, f.number)
			}
		}
	}
	t.str("default_level", t.c.Srv.DefaultLevel().String())
	for _, f := range t.stats.Extra {
		t.str(f.Name, f.Value)
	}
}
