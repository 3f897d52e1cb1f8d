package resp

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cvmstore/keyspace"
	"cvmstore/resp/acl"
	"cvmstore/resp/command"
	"cvmstore/resp/pubsub"
	"cvmstore/volume"
)

// Users. They stand in the volume, one line each as ACL LIST shows them, sealed and as fresh as everything else: a password that was
// changed, or a right that was taken away, does not come back with an old disk. The default user gets the password of requirepass
// at the start, and when it is set.

// users is what all loops share of it. A set of users is never changed; a session compares one pointer to see whether its user may
// have changed.
type users struct {
	srv    *Server
	set    atomic.Pointer[userSet]
	log    acl.Log
	denied [acl.DeniedChannel + 1]atomic.Uint64 // [0]: logins

	mu     sync.Mutex
	failed map[string]*failures // logins by address
}

type userSet struct{ byName map[string]*acl.User }

// failures are one address's failed logins, which are forgotten one a second.
type failures struct {
	n  float64
	at time.Time
}

const (
	// failedMax is how many logins may fail in a row before the address has to wait.
	failedMax = 20
	// addressesMax bounds the addresses that are remembered.
	addressesMax = 10000
	// usersMax bounds the users.
	usersMax = 100000
)

var errLoginRate = command.Error("ERR too many failed logins from this address: try again in a second")

func (u *users) open(s *Server) error {
	u.srv, u.failed = s, map[string]*failures{}
	set := map[string]*acl.User{"default": acl.Default(command.ACLTable())}
	if err := u.parse(s.readParts(nil, userParts), set); err != nil {
		return err
	}
	if pass := s.config.Load().RequirePass; pass != "" {
		set["default"] = withPassword(set["default"], pass)
	}
	u.set.Store(&userSet{set})
	return nil
}

func (u *users) parse(text []byte, set map[string]*acl.User) error {
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "user" {
			return fmt.Errorf("users in the volume: malformed: %w", volume.ErrCorrupt)
		}
		user, err := acl.NewUser(command.ACLTable(), words[1]).With(words[2:])
		if err != nil { // a command of another version: what is not understood is not allowed
			u.srv.log.Error().Err(err).Msg("a user in the volume has a rule that this version does not know: it is left out")
			user = lenient(words[1], words[2:])
		}
		set[user.Name] = user
	}
	return nil
}

// lenient takes the rules that are understood.
func lenient(name string, rules []string) *acl.User {
	user := acl.NewUser(command.ACLTable(), name)
	for _, r := range rules {
		if next, err := user.With([]string{r}); err == nil {
			user = next
		}
	}
	return user
}

func withPassword(user *acl.User, pass string) *acl.User {
	rules := []string{"resetpass", ">" + pass}
	if pass == "" {
		rules = []string{"nopass"}
	}
	next, err := user.With(rules)
	if err != nil {
		panic("internal error: acl: " + err.Error())
	}
	return next
}

// passwordSet is called when requirepass has changed.
func (u *users) passwordSet(pass string) {
	set := maps.Clone(u.set.Load().byName)
	set["default"] = withPassword(set["default"], pass)
	u.replace(set)
}

// replace makes a set of users the one in force, and has every loop look at its sessions.
func (u *users) replace(set map[string]*acl.User) {
	u.set.Store(&userSet{set})
	for _, l := range u.srv.loops {
		l.post((*loop).reviewUsers)
	}
}

// reviewUsers closes sessions whose user is gone, or listens to what it no longer may.
func (l *loop) reviewUsers() {
	set := l.srv.users.set.Load()
	for _, s := range l.sessions {
		user := set.byName[s.User]
		if !s.Authenticated || user != nil && user.All() {
			continue
		}
		if user == nil || !mayListen(s, user) {
			s.phase = phaseEnd
			l.flush(s)
		}
	}
}

func mayListen(s *session, user *acl.User) bool {
	for k := range s.subs {
		for name := range s.subs[k] {
			if !user.MayListen([]byte(name), pubsub.Kind(k) == pubsub.Pattern, keyspace.Match) {
				return false
			}
		}
	}
	return true
}

// free reports whether a new connection may do everything without a login.
func (u *users) free() bool {
	d := u.set.Load().byName["default"]
	return d.On && d.NoPass
}

func (v *view) DefaultFree() bool { return v.s.users.free() }

// user is the session's user as it is now; nil: it is gone.
func (l *loop) user(s *session) *acl.User {
	if set := l.srv.users.set.Load(); s.users != set || s.who == nil || s.who.Name != s.User {
		s.users, s.who = set, set.byName[s.User]
	}
	return s.who
}

// permits decides whether the session's user may execute a command. For a user that may do everything that is two comparisons.
func (l *loop) permits(s *session, cmd *command.Command, args [][]byte, context string) error {
	user := l.user(s)
	if user == nil {
		s.Authenticated = false
		return errNoAuth
	}
	if user.All() {
		return nil
	}
	denial, what := command.Permitted(user, cmd, args)
	if denial == acl.Allowed {
		return nil
	}
	return l.denies(s, user, cmd, denial, what, context)
}

func (l *loop) denies(s *session, user *acl.User, cmd *command.Command, d acl.Denial, what []byte, context string) error {
	l.srv.users.denied[d].Add(1)
	reason, object := "command", cmd.Full()
	switch d {
	case acl.DeniedKey:
		reason, object = "key", string(what)
	case acl.DeniedChannel:
		reason, object = "channel", string(what)
	}
	l.srv.users.log.Add(acl.Entry{
		Reason: reason, Context: context, Object: object, User: user.Name, Client: command.Describe(&s.Session, l.now),
	}, int(l.config.ACLLogLen))
	return command.Error("NOPERM " + command.Refusal(user, cmd, d, what, false))
}

// Login implements command.Users.
func (u *users) Login(c *command.Ctx, name, pass []byte) error {
	host, _, err := net.SplitHostPort(c.S.Addr)
	if err != nil {
		host = c.S.Addr
	}
	if !u.mayTry(host) {
		return errLoginRate
	}
	user := u.set.Load().byName[string(name)]
	if user == nil || !user.Authenticate(pass) {
		u.failedOnce(host)
		u.denied[acl.Allowed].Add(1)
		context := "toplevel"
		if c.Multi {
			context = "multi"
		}
		u.log.Add(acl.Entry{
			Reason: "auth", Context: context, Object: string(bytes.ToLower(c.Args[0])), User: string(name), Client: command.Describe(c.S, c.Now),
		}, int(u.srv.config.Load().ACLLogLen))
		u.srv.log.Warn().Str("address", host).Uint64("client", c.S.ID).Msg("a login failed")
		return command.Error("WRONGPASS invalid username-password pair or user is disabled.")
	}
	c.S.Authenticated, c.S.User = true, user.Name
	return nil
}

func (u *users) mayTry(host string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.failed[host]
	if f == nil {
		return true
	}
	now := time.Now()
	f.n = max(f.n-now.Sub(f.at).Seconds(), 0)
	f.at = now
	return f.n < failedMax
}

func (u *users) failedOnce(host string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.failed) >= addressesMax {
		clear(u.failed)
	}
	f := u.failed[host]
	if f == nil {
		f = &failures{at: time.Now()}
		u.failed[host] = f
	}
	f.n++
}

func (v *view) Users() command.Users { return &v.s.users }

// Get implements command.Users.
func (u *users) Get(name string) *acl.User { return u.set.Load().byName[name] }

// List implements command.Users.
func (u *users) List() (list []*acl.User) {
	set := u.set.Load().byName
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, set[name])
	}
	return list
}

// Set implements command.Users.
func (u *users) Set(c *command.Ctx, user *acl.User) error {
	set := maps.Clone(u.set.Load().byName)
	if set[user.Name] = user; len(set) > usersMax {
		return command.Error("ERR too many users")
	}
	return u.store(c, set)
}

// Delete implements command.Users.
func (u *users) Delete(c *command.Ctx, names [][]byte) (n int, err error) {
	set := maps.Clone(u.set.Load().byName)
	for _, name := range names {
		if set[string(name)] != nil {
			delete(set, string(name))
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, u.store(c, set)
}

func (u *users) store(c *command.Ctx, set map[string]*acl.User) error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(set)) {
		text.WriteString(set[name].Describe() + "\n")
	}
	if err := u.srv.writeParts(c.Tx, userParts, []byte(text.String())); err != nil {
		return err
	}
	u.replace(set)
	return nil
}

// Load implements command.Users: what is in force is what the volume has, but for requirepass.
func (u *users) Load(c *command.Ctx) error {
	set := map[string]*acl.User{"default": acl.Default(command.ACLTable())}
	if err := u.parse(u.srv.readParts(c.Tx, userParts), set); err != nil {
		return err
	}
	u.replace(set)
	return nil
}

// Save implements command.Users: the reply waits until all is committed.
func (u *users) Save(c *command.Ctx) error { return u.store(c, u.set.Load().byName) }

// Log implements command.Users.
func (u *users) Log() *acl.Log { return &u.log }

// Denied implements command.Users.
func (u *users) Denied() (logins, commands, keys, channels uint64) {
	return u.denied[0].Load(), u.denied[1].Load(), u.denied[2].Load(), u.denied[3].Load()
}

// context is where a command of the session was sent, as ACL LOG names it.
func (s *session) context() string {
	if s.Queueing {
		return "multi"
	}
	return "toplevel"
}
