package command

// Commands of parts of Redis that this server does not have, as clients and test suites ask for them.
func absentCommands() []Command {
	const g = "server"
	const f = Loading | Stale | NoLevel
	return []Command{
		{Name: "module", Arity: -2, Group: g, Since: "4.0.0", Summary: "There are no modules.", Subs: []Command{
			{Name: "list", Arity: 2, Flags: f | Admin | NoScript, Group: g, Since: "4.0.0", Summary: "Lists the modules: none.", Handler: emptyArray},
		}},
		{Name: "cluster", Arity: -2, Group: "cluster", Since: "3.0.0", Summary: "This server is no part of a cluster.", Subs: clusterSubs()},
	}
}

func emptyArray(c *Ctx) error {
	c.Reply.Array(0)
	return nil
}

// clusterSubs are CLUSTER's subcommands: each says that there is no cluster, which is what clients ask for.
func clusterSubs() (subs []Command) {
	for _, s := range []struct {
		name  string
		arity int
	}{
		{"info", 2},
		{"slots", 2},
		{"shards", 2},
		{"nodes", 2},
		{"myid", 2},
		{"links", 2},
		{"keyslot", 3},
		{"countkeysinslot", 3},
		{"getkeysinslot", 4},
		{"replicas", 3},
		{"slaves", 3},
		{"meet", -4},
		{"forget", 3},
		{"reset", -2},
		{"failover", -2},
		{"replicate", 3},
		{"addslots", -3},
		{"delslots", -3},
		{"setslot", -4},
		{"flushslots", 2},
		{"bumpepoch", 2},
		{"saveconfig", 2},
	} {
		subs = append(subs, Command{
			Name: s.name, Arity: s.arity, Flags: Loading | Stale | NoLevel | NoScript, Group: "cluster", Since: "3.0.0",
			Summary: "Refused: cluster support is disabled.", Handler: cmdCluster,
		})
	}
	return subs
}

func cmdCluster(*Ctx) error { return Error("ERR This instance has cluster support disabled") }
