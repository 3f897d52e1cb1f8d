package command

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"cvmstore/keyspace"
	"cvmstore/resp/acl"
)

// Users is the part of Server that ACL and logins need. Methods with a Ctx that change users are called with everything locked.
type Users interface {
	// Login authenticates the session, or says why not.
	Login(c *Ctx, name, pass []byte) error
	Get(name string) *acl.User
	List() []*acl.User
	Set(c *Ctx, u *acl.User) error
	Delete(c *Ctx, names [][]byte) (int, error)
	Load(c *Ctx) error
	Save(c *Ctx) error
	Log() *acl.Log
	// Denied counts what was denied.
	Denied() (logins, commands, keys, channels uint64)
}

// ACLTable is what rules say of this table's commands.
var ACLTable = sync.OnceValue(func() *acl.Table {
	var list []acl.Command
	known := []string{
		"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream", "pubsub",
		"admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
	}
	for _, c := range all {
		a := acl.Command{Name: c.Full(), Subs: len(c.Subs) > 0, Always: c.Flags&NoAuth != 0, Categories: c.Categories()}
		if c.parent != nil {
			a.Parent = c.parent.Name
		}
		for _, cat := range a.Categories {
			if !slices.Contains(known, cat) {
				known = append(known, cat)
			}
		}
		list = append(list, a)
	}
	return acl.NewTable(list, known)
})

// Permitted checks a command of a user, whose number of arguments is right.
func Permitted(u *acl.User, cmd *Command, args [][]byte) (acl.Denial, []byte) {
	r := acl.Request{Command: cmd.Index, Match: keyspace.Match}
	if len(args) > 1 {
		r.First = args[1]
	}
	for i, k := range KeysOf(cmd, args) {
		use := cmd.usesOf(i, args)
		r.Keys = append(r.Keys, acl.Key{
			Name: k, Read: strings.Contains(use, "access"),
			Write: strings.Contains(use, "update") || strings.Contains(use, "insert") || strings.Contains(use, "delete"),
		})
	}
	switch cmd.Name {
	case "publish", "spublish":
		r.Channels = args[1:2]
	case "subscribe", "ssubscribe":
		r.Channels = args[1:]
	case "psubscribe":
		r.Channels, r.Patterns = args[1:], true
	}
	return u.Check(&r)
}

// usesOf is keyFlags of this very call.
func (c *Command) usesOf(i int, args [][]byte) string {
	use := c.keyFlags(i)
	if !strings.Contains(use, "variable_flags") {
		return use
	}
	switch {
	case c.Name == "set" && !hasWord(args[min(3, len(args)):], "get"):
		return "OW update"
	case c.Name == "bitfield" && !hasWord(args, "set") && !hasWord(args, "incrby"):
		return "RO access"
	}
	return use
}

// Refusal words a denial; with names, it tells the key or channel.
func Refusal(u *acl.User, cmd *Command, d acl.Denial, what []byte, names bool) string {
	switch {
	case d == acl.DeniedCommand:
		return "User " + u.Name + " has no permissions to run the '" + cmd.Full() + "' command"
	case d == acl.DeniedKey && names:
		return "User " + u.Name + " has no permissions to access the '" + string(what) + "' key"
	case d == acl.DeniedKey:
		return "No permissions to access a key"
	case names:
		return "User " + u.Name + " has no permissions to access the '" + string(what) + "' channel"
	}
	return "No permissions to access a channel"
}

// Describe is the session as CLIENT LIST shows it.
func Describe(s *Session, now int64) string {
	return strings.TrimSuffix(string(describe(s, now, nil)), "\n")
}

func aclCommands() []Command {
	const g = "server"
	const quick = Loading | Stale | NoLevel
	const admin = quick | Admin | NoScript
	sub := func(name string, arity int, flags Flag, locks Locks, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags, Group: g, Locks: locks, Since: "6.0.0", Summary: summary, Handler: h}
	}
	const change = Loading | Stale | Admin | NoScript
	return []Command{{
		Name: "acl", Arity: -2, Group: g, Since: "6.0.0", Summary: "Users and what they may do.", Subs: []Command{
			sub("cat", -2, quick|NoScript, LockNone, "Lists categories, or the commands of one.", aclCat),
			sub("deluser", -3, change, LockAll, "Deletes users.", aclDelUser),
			sub("dryrun", -4, admin, LockNone, "Says whether a user may execute a command.", aclDryRun),
			sub("genpass", -2, quick|NoScript, LockNone, "Returns a random password.", aclGenPass),
			sub("getuser", 3, admin, LockNone, "Describes a user.", aclGetUser),
			sub("list", 2, admin, LockNone, "Lists users with their rules.", aclList),
			sub("load", 2, change, LockAll, "Reads the users from the volume.", aclLoad),
			sub("log", -2, admin, LockNone, "Lists what was denied.", aclLog),
			sub("save", 2, change, LockAll, "Waits until the users are committed: they are always in the volume.", aclSave),
			sub("setuser", -3, change, LockAll, "Makes or changes a user.", aclSetUser),
			sub("users", 2, admin, LockNone, "Lists the users' names.", aclUsers),
			sub("whoami", 2, quick|NoScript, LockNone, "Returns the connection's user.", aclWhoAmI),
		},
	}}
}

func aclWhoAmI(c *Ctx) error {
	c.Reply.String(c.S.User)
	return nil
}

func aclUsers(c *Ctx) error {
	list := c.Srv.Users().List()
	c.Reply.Array(len(list))
	for _, u := range list {
		c.Reply.String(u.Name)
	}
	return nil
}

func aclList(c *Ctx) error {
	list := c.Srv.Users().List()
	c.Reply.Array(len(list))
	for _, u := range list {
		c.Reply.String(u.Describe())
	}
	return nil
}

func aclCat(c *Ctx) error {
	table := ACLTable()
	switch len(c.Args) {
	case 2:
		c.Reply.Array(len(table.Categories))
		for _, cat := range table.Categories {
			c.Reply.String(cat)
		}
		return nil
	case 3:
	default:
		return Error("ERR unknown subcommand or wrong number of arguments for '" + clip(c.Args[1], 128) + "'. Try ACL HELP.")
	}
	cat := strings.ToLower(string(c.Args[2]))
	if !slices.Contains(table.Categories, cat) {
		return Error("ERR Unknown category '" + clip(c.Args[2], 128) + "'")
	}
	var names []string
	for i := range table.Commands {
		if slices.Contains(table.Commands[i].Categories, cat) {
			names = append(names, table.Commands[i].Name)
		}
	}
	c.Reply.Array(len(names))
	for _, n := range names {
		c.Reply.String(n)
	}
	return nil
}

func aclGenPass(c *Ctx) error {
	bits := int64(256)
	if len(c.Args) > 3 {
		return Error("ERR unknown subcommand or wrong number of arguments for '" + clip(c.Args[1], 128) + "'. Try ACL HELP.")
	}
	if len(c.Args) == 3 {
		n, err := parseInt(c.Args[2])
		if err != nil {
			return err
		}
		if n <= 0 || n > 4096 {
			return Error("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096")
		}
		bits = n
	}
	digits := (bits + 3) / 4
	b := make([]byte, (digits+1)/2)
	_, _ = rand.Read(b)
	c.Reply.String(hex.EncodeToString(b)[:digits])
	return nil
}

func aclGetUser(c *Ctx) error {
	u := c.Srv.Users().Get(string(c.Args[2]))
	r := &c.Reply
	if u == nil {
		r.Null()
		return nil
	}
	r.Map(6)
	r.String("flags")
	r.Set(len(u.Flags()))
	for _, f := range u.Flags() {
		r.String(f)
	}
	r.String("passwords")
	r.Array(len(u.Passwords()))
	for _, p := range u.Passwords() {
		r.String(p)
	}
	selectors := u.Selectors()
	writePermissions(r, selectors[0])
	r.String("selectors")
	r.Array(len(selectors) - 1)
	for _, s := range selectors[1:] {
		r.Map(3)
		writePermissions(r, s)
	}
	return nil
}

func writePermissions(r *Reply, p acl.Permissions) {
	r.String("commands")
	r.String(p.Commands)
	r.String("keys")
	r.String(p.Keys)
	r.String("channels")
	r.String(p.Channels)
}

func aclSetUser(c *Ctx) error {
	name := string(c.Args[2])
	if strings.ContainsAny(name, " \t\n\v\f\r\x00") {
		return Error("ERR Usernames can't contain spaces or null characters")
	}
	u := c.Srv.Users().Get(name)
	if u == nil {
		u = acl.NewUser(ACLTable(), name)
	}
	var rules []string
	for _, a := range c.Args[3:] {
		rules = append(rules, string(a))
	}
	u, err := u.With(rules)
	if err != nil {
		return Error("ERR " + err.Error())
	}
	if err := c.Srv.Users().Set(c, u); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func aclDelUser(c *Ctx) error {
	for _, name := range c.Args[2:] {
		if string(name) == "default" {
			return Error("ERR The 'default' user cannot be removed")
		}
	}
	n, err := c.Srv.Users().Delete(c, c.Args[2:])
	if err != nil {
		return err
	}
	c.Reply.Int(int64(n))
	return nil
}

func aclDryRun(c *Ctx) error {
	u := c.Srv.Users().Get(string(c.Args[2]))
	if u == nil {
		return Error("ERR User '" + clip(c.Args[2], 128) + "' not found")
	}
	args := c.Args[3:]
	cmd, err := Lookup(args)
	if cmd == nil {
		return Error("ERR Command '" + clip(args[0], 128) + "' not found")
	}
	if err != nil {
		return err
	}
	denial, what := Permitted(u, cmd, args)
	if denial == acl.Allowed {
		c.Reply.OK()
	} else {
		c.Reply.String(Refusal(u, cmd, denial, what, true))
	}
	return nil
}

func aclLoad(c *Ctx) error {
	if err := c.Srv.Users().Load(c); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func aclSave(c *Ctx) error {
	if err := c.Srv.Users().Save(c); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func aclLog(c *Ctx) error {
	n := int64(10)
	switch {
	case len(c.Args) > 3:
		return Error("ERR unknown subcommand or wrong number of arguments for '" + clip(c.Args[1], 128) + "'. Try ACL HELP.")
	case len(c.Args) == 3 && equalFold(c.Args[2], "reset"):
		c.Srv.Users().Log().Reset()
		c.Reply.OK()
		return nil
	case len(c.Args) == 3:
		var err error
		if n, err = parseInt(c.Args[2]); err != nil {
			return err
		}
	}
	list := c.Srv.Users().Log().List(int(min(max(n, 0), math.MaxInt32)))
	r := &c.Reply
	r.Array(len(list))
	for i := range list {
		e := &list[i]
		r.Map(10)
		r.String("count")
		r.Int(e.Count)
		for _, f := range [][2]string{{"reason", e.Reason}, {"context", e.Context}, {"object", e.Object}, {"username", e.User}} {
			r.String(f[0])
			r.String(f[1])
		}
		r.String("age-seconds")
		r.Double(math.Trunc(time.Since(e.Created).Seconds()*1000) / 1000)
		r.String("client-info")
		r.String(e.Client)
		r.String("entry-id")
		r.Int(e.ID)
		r.String("timestamp-created")
		r.Int(e.Created.UnixMilli())
		r.String("timestamp-last-updated")
		r.Int(e.Updated.UnixMilli())
	}
	return nil
}
