package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/service"
	"cvmstore/epoch/wire"
)

var ctx = context.Background()

func TestCreateOpenCommitRead(t *testing.T) {
	r := newRig(t, service.Limits{})
	p, c := r.client(service.RoleClient)
	_, err := c.Read(ctx, storeA)
	wantErr(t, "read before create", err, epoch.ErrNoRecord)
	_, err = c.Open(ctx, storeA)
	wantErr(t, "open before create", err, epoch.ErrNoRecord)
	if err := c.Create(ctx, storeA); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, storeA); err != nil {
		t.Errorf("the same create again, its answer may have been lost: %v", err)
	}
	first := must[epoch.OpenReply](t)(c.Open(ctx, storeA))
	if first.Gen != 1 || first.Current != (epoch.State{}) || first.Random == [32]byte{} || first.Stamp != 1_000_000 {
		t.Fatalf("open: %+v", first)
	}
	wantErr(t, "create of an open store", c.Create(ctx, storeA), epoch.ErrExists)
	req := next(first.Record)
	req.Opening = true
	if _, err := commit(c, req); err != nil {
		t.Fatal(err)
	}
	rec := must[epoch.Record](t)(first.Apply(req))
	r.clock = r.clock.Add(time.Second)
	if s := must[epoch.Stamp](t)(commit(c, req)); s != 1_001_000 {
		t.Errorf("a retry: stamp %d", s)
	}
	if got := must[epoch.ReadReply](t)(c.Read(ctx, storeA)); got.Record != rec {
		t.Errorf("read %+v, want %+v", got.Record, rec)
	}
	r.clock = r.clock.Add(-time.Hour)
	if s := must[epoch.Stamp](t)(commit(c, next(rec))); s < 1_001_000 {
		t.Errorf("stamps went back to %d with the service's clock", s)
	}
	second := must[epoch.OpenReply](t)(r.dial(p).Open(ctx, storeA))
	if second.Gen != 2 || second.Random == first.Random {
		t.Errorf("second open: %+v", second)
	}
	_, err = commit(c, next(rec))
	wantErr(t, "commit of the older generation", err, epoch.ErrFenced)
	_, err = commit(c, epoch.CommitRequest{Store: storeA, Gen: 2, Expected: epoch.Tag{9}, Value: 99, Tag: epoch.Tag{8}})
	wantErr(t, "commit on another state", err, epoch.ErrConflict)
}

func TestStoresBelongToIdentities(t *testing.T) {
	r := newRig(t, service.Limits{})
	_, a, recA := r.opened(storeA)
	_, b, _ := r.opened(storeB)
	_, op := r.client(service.RoleOperator)
	stranger := newParty(t)
	for name, call := range map[string]func() error{
		"open":   func() error { _, err := b.Open(ctx, storeA); return err },
		"read":   func() error { _, err := b.Read(ctx, storeA); return err },
		"commit": func() error { _, err := commit(b, next(recA)); return err },
		"freeze": func() error { return b.Post(ctx, "freeze", map[string]any{"store": fmt.Sprintf("%x", storeA[:])}) },
		"list":   func() error { return b.Get(ctx, "stores", nil, new([]service.StoreInfo)) },
		"enrol": func() error {
			return b.Post(ctx, "enrol", map[string]any{"identity": fmt.Sprintf("%x", stranger.id[:]), "role": "operator"})
		},
		"operator opens":   func() error { _, err := op.Open(ctx, storeA); return err },
		"operator commits": func() error { _, err := commit(op, next(recA)); return err },
		"operator creates": func() error { return op.Create(ctx, epoch.StoreID{9}) },
	} {
		wantErr(t, name, call(), epoch.ErrForbidden)
	}
	if _, err := r.dial(stranger).Read(ctx, storeA); err == nil || errors.Is(err, epoch.ErrForbidden) {
		t.Errorf("somebody who is not enrolled got an answer: %v", err)
	}
	if _, err := commit(a, next(recA)); err != nil {
		t.Errorf("the store's own commit: %v", err)
	}
	// The generation alone is no right: only who opened it commits in it.
	p, c := r.client(service.RoleClient)
	if err := r.service.Allow(ctx, storeA, p.id, false); err != nil {
		t.Fatal(err)
	}
	rec := must[epoch.ReadReply](t)(c.Read(ctx, storeA)).Record
	_, err := commit(c, next(rec))
	wantErr(t, "commit in a generation that another identity opened", err, epoch.ErrForbidden)
}

func TestCreatedStoresAreBounded(t *testing.T) {
	r := newRig(t, service.Limits{})
	_, c := r.client(service.RoleClient)
	n := 0
	for ; n < 200; n++ {
		if err := c.Create(ctx, epoch.StoreID{3, byte(n)}); err != nil {
			wantErr(t, "one too many", err, epoch.ErrForbidden)
			break
		}
	}
	if n != 64 {
		t.Errorf("%d stores were created", n)
	}
}

func TestOnceIdentities(t *testing.T) {
	r := newRig(t, service.Limits{})
	p, c := r.client(service.RoleClient)
	if err := r.service.CreateFor(ctx, storeA, p.id, true, [32]byte{}); err != nil {
		t.Fatal(err)
	}
	must[epoch.OpenReply](t)(c.Open(ctx, storeA))
	again := must[epoch.OpenReply](t)(c.Open(ctx, storeA)) // until the opening is committed
	req := next(again.Record)
	req.Opening = true
	for range 2 { // and its retry
		must[epoch.Stamp](t)(commit(c, req))
	}
	_, err := c.Open(ctx, storeA)
	wantErr(t, "a third open", err, epoch.ErrForbidden)
	rec := must[epoch.ReadReply](t)(c.Read(ctx, storeA)).Record
	must[epoch.Stamp](t)(commit(c, next(rec)))
	q, d := r.client(service.RoleClient)
	if err := r.service.Allow(ctx, storeA, q.id, true); err != nil {
		t.Fatal(err)
	}
	if o := must[epoch.OpenReply](t)(d.Open(ctx, storeA)); o.Gen != 3 {
		t.Errorf("the new identity's generation is %d", o.Gen)
	}
}

func TestFreeze(t *testing.T) {
	r := newRig(t, service.Limits{})
	_, c, rec := r.opened(storeA)
	_, op := r.client(service.RoleOperator)
	fields := map[string]any{"store": fmt.Sprintf("%x", storeA[:])}
	if err := op.Post(ctx, "freeze", fields); err != nil {
		t.Fatal(err)
	}
	_, err := commit(c, next(rec))
	wantErr(t, "commit", err, epoch.ErrFrozen)
	_, err = c.Open(ctx, storeA)
	wantErr(t, "open", err, epoch.ErrFrozen)
	if s, _, err := c.ReadSigned(ctx, storeA, wire.Nonce{5}); err != nil || !s.Frozen || s.Record != rec {
		t.Errorf("read of a frozen store: %+v, %v", s, err)
	}
	if err := op.Post(ctx, "thaw", fields); err != nil {
		t.Fatal(err)
	}
	if _, err := commit(c, next(rec)); err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}

func TestListing(t *testing.T) {
	r := newRig(t, service.Limits{})
	r.opened(storeA)
	r.opened(storeB)
	_, op := r.client(service.RoleOperator)
	var list []service.StoreInfo
	if err := op.Get(ctx, "stores", map[string][]string{"limit": {"1"}}, &list); err != nil || len(list) != 1 || !strings.HasPrefix(list[0].Store, "01") {
		t.Errorf("first page: %+v, %v", list, err)
	}
	if err := op.Get(ctx, "stores", map[string][]string{"after": {list[0].Store}}, &list); err != nil || len(list) != 1 || list[0].Generation != 1 {
		t.Errorf("second page: %+v, %v", list, err)
	}
	var who []service.Enrolled
	if err := op.Get(ctx, "identities", nil, &who); err != nil || len(who) != 3 {
		t.Errorf("identities: %+v, %v", who, err)
	}
}

func TestOrders(t *testing.T) {
	r := newRig(t, service.Limits{})
	owner := newParty(t)
	p, c := r.client(service.RoleClient)
	if err := c.CreateOwned(ctx, storeA, owner.public()); err != nil {
		t.Fatal(err)
	}
	rec := must[epoch.OpenReply](t)(c.Open(ctx, storeA)).Record
	var states []epoch.State
	for range 3 {
		req := next(rec)
		must[epoch.Stamp](t)(commit(c, req))
		rec = must[epoch.Record](t)(rec.Apply(req))
		states = append(states, rec.Current)
	}
	order := wire.Order{
		Kind: wire.OrderRollback, Store: storeA, Instance: r.service.Instance(), Gen: rec.Gen, Tag: rec.Current.Tag,
		Value: states[0].Value, Target: states[0].Tag,
	}
	carry := func(o wire.Order, by *party) error {
		return r.service.CarryOut(ctx, o.Sign(by.key), [32]byte{}, wire.Identity{})
	}
	wantErr(t, "signed by the server", carry(order, p), wire.ErrOrder)
	bad := order
	bad.Instance[0]++
	wantErr(t, "for another service", carry(bad, owner), wire.ErrOrder)
	bad = order
	bad.Tag = states[1].Tag
	wantErr(t, "of another state", carry(bad, owner), epoch.ErrConflict)
	bad = order
	bad.Store = storeB
	wantErr(t, "of another store", carry(bad, owner), epoch.ErrNoRecord)
	if err := carry(order, owner); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "the same order again", carry(order, owner), epoch.ErrConflict)
	_, err := commit(c, next(rec))
	wantErr(t, "the server that ran", err, epoch.ErrFenced)
	// The generation that the order made belongs to nobody.
	_, err = commit(c, epoch.CommitRequest{Store: storeA, Gen: rec.Gen + 1, Expected: states[0].Tag, Value: 99, Tag: epoch.Tag{9}})
	wantErr(t, "without an Open", err, epoch.ErrForbidden)
	back := must[epoch.OpenReply](t)(c.Open(ctx, storeA)).Record
	if back.Current != (epoch.State{Value: states[0].Value, Tag: states[0].Tag}) || back.Gen != rec.Gen+2 || back.Floor != rec.Current.Value {
		t.Fatalf("rolled back to %+v", back)
	}
	low := next(back)
	low.Opening = true
	_, err = commit(c, low)
	wantErr(t, "a value below what was replaced", err, epoch.ErrConflict)
	low.Value = back.Floor + 1<<32
	must[epoch.Stamp](t)(commit(c, low))
	wantErr(t, "the old order once more", carry(order, owner), epoch.ErrConflict)
}

func TestRecreate(t *testing.T) {
	r := newRig(t, service.Limits{})
	owner := newParty(t)
	p, c := r.client(service.RoleClient)
	o := wire.Order{Kind: wire.OrderRecreate, Store: storeA, Instance: r.service.Instance(), Gen: 7, Value: 50, Target: epoch.Tag{5}}
	order := o.Sign(owner.key)
	wantErr(t, "another owner", r.service.CarryOut(ctx, order, p.public(), p.id), wire.ErrOrder)
	if err := r.service.CarryOut(ctx, order, owner.public(), p.id); err != nil {
		t.Fatal(err)
	}
	rec := must[epoch.OpenReply](t)(c.Open(ctx, storeA)).Record
	if rec.Gen != 8 || rec.Current != (epoch.State{Value: 50, Tag: epoch.Tag{5}}) {
		t.Fatalf("recreated as %+v", rec)
	}
	wantErr(t, "the same order again", r.service.CarryOut(ctx, order, owner.public(), p.id), epoch.ErrExists)
}

func TestReceipts(t *testing.T) {
	r := newRig(t, service.Limits{})
	p, c, rec := r.opened(storeA)
	must[epoch.Stamp](t)(commit(c, next(rec)))
	claim := wire.Claim{Kind: wire.ObjectKey, Store: storeA, Gen: rec.Gen, Epoch: 3, Counter: 1, Name: [32]byte{1}, Object: [32]byte{2}}
	_, read, err := c.ReadSigned(ctx, storeA, claim.Nonce())
	if err != nil {
		t.Fatal(err)
	}
	good := wire.SealReceipt(&claim, read, p.key)
	if got, _, err := wire.VerifyReceipt(r.service.PublicKey(), good); err != nil || got != claim {
		t.Fatalf("%+v, %v", got, err)
	}
	refuse := func(name string, b []byte) {
		t.Helper()
		_, _, err := wire.VerifyReceipt(r.service.PublicKey(), b)
		wantErr(t, name, err, wire.ErrReceipt)
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		refuse(fmt.Sprintf("byte %d changed", i), bad)
	}
	refuse("somebody else's signature", wire.SealReceipt(&claim, read, newParty(t).key))
	late := claim
	late.Counter = 2
	_, lateRead, err := c.ReadSigned(ctx, storeA, late.Nonce())
	if err != nil {
		t.Fatal(err)
	}
	refuse("a change that was not committed", wire.SealReceipt(&late, lateRead, p.key))
	refuse("the answer to another claim", wire.SealReceipt(&late, read, p.key))
	other := newParty(t).public()
	if _, _, err := wire.VerifyReceipt(other[:], good); !errors.Is(err, wire.ErrReceipt) {
		t.Errorf("verified with another service's key: %v", err)
	}
}

func TestLostAnswersAreRetried(t *testing.T) {
	r := newRig(t, service.Limits{})
	p, _, rec := r.opened(storeA)
	lossy := &lossyNet{}
	c := r.dialWith(p, func(o *remote.Options) { o.Dial = lossy.dial })
	lossy.lose(1)
	req := next(rec)
	must[epoch.Stamp](t)(commit(c, req))
	rec = must[epoch.Record](t)(rec.Apply(req))
	if lossy.lost != 1 {
		t.Fatalf("%d answers were lost", lossy.lost)
	}
	lossy.lose(100)
	if _, err := commit(c, next(rec)); err == nil || errors.Is(err, epoch.ErrConflict) || lossy.lost != 4 {
		t.Errorf("three attempts without an answer: %v after %d", err, lossy.lost-1)
	}
	lossy.lose(0)
	must[epoch.Stamp](t)(commit(c, next(rec))) // it had happened
	lossy.lose(1)
	if o := must[epoch.OpenReply](t)(c.Open(ctx, storeA)); o.Gen != rec.Gen+2 {
		t.Errorf("a lost Open: generation %d after %d", o.Gen, rec.Gen)
	}
}
