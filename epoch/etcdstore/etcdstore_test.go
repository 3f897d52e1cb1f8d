package etcdstore

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/service"
	"cvmstore/epoch/wire"
)

var ctx = context.Background()

func (c *cluster) store(members ...int) *Store {
	c.t.Helper()
	o := Options{Timeout: 3 * time.Second}
	for _, i := range members {
		o.Endpoints = append(o.Endpoints, c.client[i])
	}
	s, err := Open(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = s.Close() })
	return s
}

// committer commits in one store through one service, retries what has no answer, and keeps what was answered.
type committer struct {
	t    *testing.T
	s    *service.Service
	who  service.Caller
	rec  epoch.Record
	lost int
}

// commit commits once; it goes on until the service answers.
func (c *committer) commit() {
	c.t.Helper()
	req := epoch.CommitRequest{
		Store: c.rec.Store, Gen: c.rec.Gen, Expected: c.rec.Current.Tag, Value: c.rec.Current.Value + 1,
		Tag: epoch.Tag{byte(c.rec.Current.Value), byte(c.rec.Current.Value >> 8), byte(c.rec.Gen), 1},
	}
	for end := time.Now().Add(2 * time.Minute); ; c.lost++ {
		_, err := c.s.Commit(ctx, c.who, &req)
		if err == nil {
			break
		}
		if errors.Is(err, epoch.ErrConflict) || errors.Is(err, epoch.ErrFenced) || time.Now().After(end) {
			c.t.Fatalf("commit of %d after %d without an answer: %v", req.Value, c.lost, err)
		}
	}
	next, err := c.rec.Apply(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.rec = next
}

// check reads the record, from a service of its own, and compares it with what was answered.
func (c *committer) check(s *service.Service, when string) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		raw, err := s.Read(ctx, c.who, c.rec.Store, wire.Nonce{1})
		if err != nil {
			if time.Now().After(end) {
				c.t.Fatalf("%s: %v", when, err)
			}
			continue
		}
		st, err := wire.OpenStatement(s.PublicKey(), raw)
		if err != nil {
			c.t.Fatal(err)
		}
		if st.Record != c.rec {
			c.t.Fatalf("%s: the record is %+v, answered was %+v", when, st.Record, c.rec)
		}
		return
	}
}

// Three members: one killed, one paused, the leader moved and killed; two services on them. What was answered stays, and nothing is
// ever older; without a majority there is no answer, and above all no old one.
func TestClusterLosesNothing(t *testing.T) {
	c := startCluster(t)
	sign := ed25519.NewKeyFromSeed(make([]byte, 32))
	open := func(members ...int) *service.Service {
		t.Helper()
		s, err := service.New(ctx, service.Options{Store: c.store(members...), Sign: sign, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, second := open(0, 1, 2), open(2, 1, 0)
	if first.Instance() != second.Instance() {
		t.Fatal("two services on one cluster are two instances")
	}
	who := service.Caller{ID: wire.Identity{7}, Role: service.RoleClient}
	if err := first.Enrol(ctx, who.ID, "test", service.RoleClient); err != nil {
		t.Fatal(err)
	}
	id := epoch.StoreID{9}
	if _, err := second.Create(ctx, who, id, [32]byte{}); err != nil {
		t.Fatal(err)
	}
	raw, err := first.Open(ctx, who, id, wire.Nonce{2})
	if err != nil {
		t.Fatal(err)
	}
	st, err := wire.OpenStatement(sign.Public().(ed25519.PublicKey), raw)
	if err != nil {
		t.Fatal(err)
	}
	w := &committer{t: t, s: first, who: who, rec: st.Record}
	some := func(when string) {
		t.Helper()
		for range 20 {
			w.commit()
		}
		w.check(second, when)
	}
	some("with all members")
	follower := (c.leader() + 1) % 3
	c.kill(follower)
	some("one killed")
	c.start(follower)
	some("it is back")
	lead := c.leader()
	c.moveLeader(lead, (lead+1)%3)
	some("the leader moved")
	lead = c.leader()
	c.pause(lead)
	some("the leader paused")
	c.resume(lead) // it still takes itself for the leader, for a moment: linearizable reads find out
	w.check(open(lead), "asked of the member that was paused")
	some("it goes on")
	lead = c.leader()
	c.kill(lead)
	some("the leader killed")
	// One more: no majority.
	other := c.leader()
	c.kill(other)
	left := 3 - lead - other
	alone := c.store(left)
	if v, err := alone.Get(ctx, "store/"+fmt.Sprintf("%x", id[:])); err == nil {
		t.Fatalf("a member without a majority answered: %x", v)
	}
	if _, err := alone.Update(ctx, "store/x", func([]byte) ([]byte, error) { return []byte{1}, nil }); err == nil {
		t.Fatal("a member without a majority took an update")
	}
	c.start(lead)
	c.start(other)
	some("all are back")
	t.Logf("%d commits, %d attempts without an answer", w.rec.Current.Value, w.lost)
	compareAndSwap(t, first, second, who)
}

// compareAndSwap: two services, two branches of one state: one succeeds.
func compareAndSwap(t *testing.T, a, b *service.Service, who service.Caller) {
	t.Helper()
	id := epoch.StoreID{10}
	if _, err := a.Create(ctx, who, id, [32]byte{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(ctx, who, id, wire.Nonce{}); err != nil {
		t.Fatal(err)
	}
	expected := epoch.Tag{}
	for v := epoch.Counter(1); v <= 20; v++ {
		var both sync.WaitGroup
		var errs [2]error
		for i, s := range []*service.Service{a, b} {
			both.Go(func() {
				_, errs[i] = s.Commit(ctx, who, &epoch.CommitRequest{
					Store: id, Gen: 1, Expected: expected, Value: v, Tag: epoch.Tag{byte(v), byte(i + 1)},
				})
			})
		}
		both.Wait()
		won := 0
		if errs[0] != nil {
			won = 1
		}
		if errs[won] != nil || !errors.Is(errs[1-won], epoch.ErrConflict) {
			t.Fatalf("two branches from one state: %v, %v", errs[0], errs[1])
		}
		expected = epoch.Tag{byte(v), byte(won + 1)}
	}
}
