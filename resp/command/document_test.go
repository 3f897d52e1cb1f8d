package command

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/COMMANDS.md anew")

const documentPath = "../../docs/COMMANDS.md"

// TestTheDocumentIsWhatTheTableSays: docs/COMMANDS.md is made from the command table (-update).
func TestTheDocumentIsWhatTheTableSays(t *testing.T) {
	want := document()
	if *update {
		if err := os.WriteFile(documentPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(documentPath)
	if err != nil || string(got) != want {
		t.Errorf("docs/COMMANDS.md is not what the table says: go test ./resp/command -run Document -update (%v)", err)
	}
}

func document() string {
	var b strings.Builder
	b.WriteString(`# Commands

Made from the command table (` + "`resp/command`" + `): do not edit. Replies and error texts are those of Redis ` + RedisVersion + `; what differs is
listed below. *Arity* counts the command's name; a negative number means: at least so many. *Keys* are first, last, step.

`)
	for _, group := range []string{"string", "hash", "list", "set", "sorted-set", "stream", "bitmap", "hyperloglog", "geo", "generic", "transactions", "pubsub", "connection", "server", "scripting", "cluster", "file", "cvm"} {
		fmt.Fprintf(&b, "## %s\n\n| command | arity | keys | flags | since | what it does |\n|---|---|---|---|---|---|\n", group)
		for _, c := range ordered {
			if c.Group == group {
				row(&b, c)
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString(differences)
	return b.String()
}

func row(b *strings.Builder, c *Command) {
	if c.Handler != nil {
		keys := ""
		if c.First > 0 {
			keys = fmt.Sprintf("%d %d %d", c.First, c.Last, c.Step)
		}
		since := c.Since
		if c.Group == "cvm" || c.Group == "file" {
			since = "cvmstore " + since
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s |\n", strings.ToUpper(strings.ReplaceAll(c.Full(), "|", " ")), c.Arity, keys,
			strings.Join(c.Flags.names(), " "), since, c.Summary)
	}
	for i := range c.Subs {
		row(b, &c.Subs[i])
	}
}

func TestEveryGroupIsDocumented(t *testing.T) {
	text := document()
	for _, c := range All() {
		if c.Handler != nil && !strings.Contains(text, "| "+strings.ToUpper(strings.ReplaceAll(c.Full(), "|", " "))+" |") {
			t.Errorf("%s, of group %s, is not in the document", c.Full(), c.Group)
		}
	}
}

const differences = `## What differs from Redis

- A reply waits until what it saw has reached the connection's level (CVM.DURABILITY, by default ` + "`fresh`" + `). What MONITOR shows, and
  what SLOWLOG GET returns, waits like a reply.
- SAVE, BGSAVE and BGREWRITEAOF wait until everything that was applied before them is durable and committed to the trusted
  counter. They write no file. LASTSAVE tells when one of them was last answered, or the server started.
- WAIT counts the trusted counter as one replica. WAITAOF's first number is the device, its second the counter.
- EXEC is one batch: after a crash all of it is there or nothing. INFO, CVM.STATUS, MEMORY STATS and the CLIENT subcommands that
  look at other connections are answered as of its beginning. A command of a transaction that needs more room than the volume
  has left for the batch fails by itself, as one that meets a wrong type does.
- REPLICAOF accepts NO ONE only.
- Every list is a quicklist to OBJECT ENCODING. LINSERT, LREM and LPOS on a list of which much is not in memory read it from the device.
- DEBUG is refused unless enable-debug-command allows it. DEBUG SLEEP stops the loop of the connection that asks. DEBUG RELOAD
  and LOADAOF close the volume and recover it, whatever their options.
- What a subscriber is sent of a change (messages, keyspace notifications, invalidations) waits for the change like a reply. A
  message that does not get there within reply-timeout is dropped; in place of an invalidation comes one of everything.
- PFADD with an invalid HyperLogLog adds nothing; Redis adds the elements before it notices.
- maxmemory bounds the index, the cached values and the rest of the server, not the values on the volume: evicting a key frees its
  place in the index. Without maxmemory, writes are refused (OOM) when four fifths of the machine's memory, or of the control
  group's, are in use.
- MEMORY USAGE is an estimate of index entry, name and value; the value may not be in memory at all.
- TIME and expiry follow the store's time, which never goes back.
- Files (the commands of group file) live beside the databases: FLUSHALL, KEYS and TYPE do not touch them. COMMAND DOCS describes them.
- INFO has sections CVM and Files; figures without a meaning here are 0.
`
