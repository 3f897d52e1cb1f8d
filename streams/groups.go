package streams

import (
	"errors"
	"maps"
	"slices"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Errors of groups. What else goes wrong with them names them, and is worded by who knows the command.
var (
	ErrNoGroup   = errors.New("NOGROUP No such consumer group")
	ErrBusyGroup = errors.New("BUSYGROUP Consumer Group name already exists")
)

func sortedGroups(m map[string]*group) (list []*group) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[name])
	}
	return list
}

func sortedConsumers(m map[string]*consumer) (list []*consumer) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[name])
	}
	return list
}

// openGroup looks a group up. ErrNoGroup: there is no such key or group.
func openGroup(t *keyspace.Tx, key, name []byte) (*stream, *group, error) {
	s, err := open(t, key)
	if err != nil {
		return nil, nil, err
	}
	if s == nil || s.groups[string(name)] == nil {
		return s, nil, ErrNoGroup
	}
	return s, s.groups[string(name)], nil
}

// GroupExists says whether a group is there.
func GroupExists(t *keyspace.Tx, key, name []byte) (bool, error) {
	_, _, err := openGroup(t, key, name)
	if errors.Is(err, ErrNoGroup) {
		return false, nil
	}
	return err == nil, err
}

// GroupOptions of XGROUP CREATE and SETID.
type GroupOptions struct {
	ID         ID
	Last       bool // the stream's last ID instead
	Read       int64
	MakeStream bool
}

// CreateGroup makes a group. The key exists, or is made.
func CreateGroup(t *keyspace.Tx, key, name []byte, o GroupOptions) error {
	s, err := open(t, key)
	switch {
	case err != nil:
		return err
	case s == nil && !o.MakeStream:
		return ErrNoKey
	case s != nil && s.groups[string(name)] != nil:
		return ErrBusyGroup
	case groupHeader+len(name) > t.MaxRecord():
		return ErrTooLarge
	}
	bytes, records := groupSize(string(name)), 1
	if s == nil {
		bytes, records = bytes+createSize(key), 3
	}
	if err := t.Reserve(bytes, records, volume.ClassNormal); err != nil {
		return err
	}
	if s == nil {
		s = create(t, key, keyspace.Put{}, head{})
	}
	g := &group{name: string(name), last: o.ID, read: o.Read, consumers: map[string]*consumer{}}
	if o.Last {
		g.last = s.head.last
	}
	s.groups[g.name] = g
	s.putGroup(t, g)
	t.ChangedValue(key, "xgroup-create", s.newest)
	s.weigh()
	return nil
}

// SetGroup sets a group's last delivered ID.
func SetGroup(t *keyspace.Tx, key, name []byte, o GroupOptions) error {
	s, g, err := openGroup(t, key, name)
	if err != nil {
		return err
	}
	if err := t.Reserve(groupSize(g.name), 1, volume.ClassNormal); err != nil {
		return err
	}
	g.last, g.read = o.ID, o.Read
	if o.Last {
		g.last = s.head.last
	}
	s.putGroup(t, g)
	t.ChangedValue(key, "xgroup-setid", s.newest)
	return nil
}

// DestroyGroup removes a group with all that is in it, and says whether there was one.
func DestroyGroup(t *keyspace.Tx, key, name []byte) (bool, error) {
	s, g, err := openGroup(t, key, name)
	if err != nil {
		if errors.Is(err, ErrNoGroup) {
			err = nil
		}
		return false, err
	}
	if err := t.Reserve(groupSize(g.name), 1, volume.ClassReclaim); err != nil {
		return false, err
	}
	s.buryGroup(t, g)
	t.ChangedValue(key, "xgroup-destroy", s.newest)
	s.weigh()
	return true, nil
}

// CreateConsumer makes a consumer, and says whether it was not there.
func CreateConsumer(t *keyspace.Tx, key, name, who []byte) (bool, error) {
	s, g, err := openGroup(t, key, name)
	if err != nil || g.consumers[string(who)] != nil {
		return false, err
	}
	if consumerHeader+len(who) > t.MaxRecord() {
		return false, ErrTooLarge
	}
	if err := t.Reserve(consumerSize(string(who)), 1, volume.ClassNormal); err != nil {
		return false, err
	}
	s.newConsumer(t, key, g, who)
	s.weigh()
	return true, nil
}

// newConsumer takes consumerSize of the reservation.
func (s *stream) newConsumer(t *keyspace.Tx, key []byte, g *group, who []byte) *consumer {
	x := &consumer{name: string(who), seen: t.Now(), active: -1}
	g.consumers[x.name] = x
	s.putConsumer(t, g, x)
	t.ChangedValue(key, "xgroup-createconsumer", s.newest)
	return x
}

// DeleteConsumer removes a consumer and returns how many entries it had pending.
func DeleteConsumer(t *keyspace.Tx, key, name, who []byte) (int, error) {
	s, g, err := openGroup(t, key, name)
	if err != nil {
		return 0, err
	}
	x := g.consumers[string(who)]
	if x == nil {
		return 0, nil
	}
	n := x.pending.n
	if err := t.Reserve(n*ackSize+consumerSize(x.name), n+1, volume.ClassReclaim); err != nil {
		return 0, err
	}
	s.buryConsumer(t, g, x)
	t.ChangedValue(key, "xgroup-delconsumer", s.newest)
	s.weigh()
	return n, nil
}

// Ack acknowledges entries and returns how many were pending.
func Ack(t *keyspace.Tx, key, name []byte, ids []ID) (n int, err error) {
	s, g, err := openGroup(t, key, name)
	if err != nil {
		if errors.Is(err, ErrNoGroup) {
			err = nil
		}
		return 0, err
	}
	found := 0
	for _, id := range ids {
		if g.pending.find(id) != nil {
			found++
		}
	}
	if found == 0 {
		return 0, nil
	}
	if err := t.Reserve(found*ackSize, found, volume.ClassReclaim); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if p := g.pending.find(id); p != nil {
			s.ack(t, g, p)
			n++
		}
	}
	s.weigh()
	return n, nil
}

// GroupInfo is what a group says of itself.
type GroupInfo struct {
	Name      string
	Last      ID
	Read      int64 // -1: not known
	Lag       int64 // -1: not known
	Pending   int
	Consumers []ConsumerInfo // by name
	List      []PendingInfo  // as asked for
}

// ConsumerInfo is what a consumer says of itself.
type ConsumerInfo struct {
	Name         string
	Pending      int
	Seen, Active int64 // store time, ms; Active is -1 if it was never
	List         []PendingInfo
}

// PendingInfo is a pending entry.
type PendingInfo struct {
	ID        ID
	Consumer  string
	Delivered int64 // store time, ms
	Count     uint64
}

// Groups describes all groups, by name, each with at most count pending entries of its own and of each consumer; 0: all of
// them, negative: none.
func Groups(t *keyspace.Tx, key []byte, count int) (list []GroupInfo, ok bool, err error) {
	s, err := open(t, key)
	if err != nil || s == nil {
		return nil, false, err
	}
	for _, g := range sortedGroups(s.groups) {
		list = append(list, s.describe(g, count))
	}
	return list, true, nil
}

func (s *stream) describe(g *group, count int) GroupInfo {
	i := GroupInfo{Name: g.name, Last: g.last, Read: g.read, Lag: s.lag(g), Pending: g.pending.n, List: listed(&g.pending, count)}
	for _, x := range sortedConsumers(g.consumers) {
		i.Consumers = append(i.Consumers, ConsumerInfo{x.name, x.pending.n, x.seen, x.active, listed(&x.pending, count)})
	}
	return i
}

func listed(l *pendings, count int) (list []PendingInfo) {
	if count < 0 {
		return nil
	}
	l.ascend(ID{}, func(p *pending) bool {
		list = append(list, PendingInfo{p.id, p.consumer.name, p.delivered, p.count})
		return count == 0 || len(list) < count
	})
	return list
}

// Group describes one group.
func Group(t *keyspace.Tx, key, name []byte) (GroupInfo, error) {
	s, g, err := openGroup(t, key, name)
	if err != nil {
		return GroupInfo{}, err
	}
	i := GroupInfo{Name: g.name, Last: g.last, Read: g.read, Lag: s.lag(g), Pending: g.pending.n}
	for _, p := range []*pending{g.pending.first(), g.pending.last()} {
		if p != nil {
			i.List = append(i.List, PendingInfo{p.id, p.consumer.name, p.delivered, p.count})
		}
	}
	for _, x := range sortedConsumers(g.consumers) {
		i.Consumers = append(i.Consumers, ConsumerInfo{x.name, x.pending.n, x.seen, x.active, nil})
	}
	return i, nil
}

// PendingOptions say which pending entries are wanted.
type PendingOptions struct {
	From, To ID
	Count    int
	MinIdle  int64 // ms
	Consumer []byte
	One      bool // only those of Consumer
}

// Pending lists pending entries.
func Pending(t *keyspace.Tx, key, name []byte, o PendingOptions) (list []PendingInfo, err error) {
	_, g, err := openGroup(t, key, name)
	if err != nil {
		return nil, err
	}
	l := &g.pending
	if o.One {
		x := g.consumers[string(o.Consumer)]
		if x == nil {
			return nil, nil
		}
		l = &x.pending
	}
	now := t.Now()
	l.ascend(o.From, func(p *pending) bool {
		if len(list) >= o.Count || o.To.Less(p.id) {
			return false
		}
		if o.MinIdle <= 0 || now-p.delivered >= o.MinIdle {
			list = append(list, PendingInfo{p.id, p.consumer.name, p.delivered, p.count})
		}
		return true
	})
	return list, nil
}

// holes says whether an entry at or behind an ID may have been deleted, other than from the front.
func (s *stream) holes(from ID) bool {
	first, ok := s.index.first()
	del := s.head.maxDeleted
	return ok && !del.Zero() && !del.Less(first.id) && !del.Less(from)
}

// distance is how many entries were ever added up to an ID, -1 if that cannot be told.
func (s *stream) distance(id ID) int64 {
	added, n := int64(s.head.added), int64(s.index.length)
	first, _ := s.index.first()
	switch {
	case added == 0:
		return 0
	case n == 0 && !s.head.last.Less(id), id == s.head.last:
		return added
	case s.head.last.Less(id):
		return -1
	case !s.head.maxDeleted.Zero() && !s.head.maxDeleted.Less(first.id):
		return -1
	case id.Less(first.id):
		return added - n
	case id == first.id:
		return added - n + 1
	}
	return -1
}

// lag is how many entries a group has yet to be given, -1 if that cannot be told.
func (s *stream) lag(g *group) int64 {
	if s.head.added == 0 {
		return 0
	}
	read := g.read
	if read < 0 || s.holes(g.last) {
		if read = s.distance(g.last); read < 0 {
			return -1
		}
	}
	return int64(s.head.added) - read
}
