package service

import (
	"testing"
	"time"

	"cvmstore/epoch/wire"
)

// Of a flood, what is answered without a wait is the burst and then the rate; what another identity has is untouched.
func TestRate(t *testing.T) {
	l := Limits{Rate: 100, Burst: 10}
	l.setDefaults()
	f := newFairness(l)
	now := time.Unix(0, 0)
	f.now = func() time.Time { return now }
	flood, quiet := wire.Identity{1}, wire.Identity{2}
	for _, id := range []wire.Identity{flood, quiet} {
		if !f.accept() || !f.identify(id) {
			t.Fatal("not admitted")
		}
	}
	at := func(id wire.Identity, n int) (free, waiting, refused int) {
		for range n {
			switch wait, ok := f.reserve(id); {
			case !ok:
				refused++
			case wait > 0:
				waiting++
			default:
				free++
			}
		}
		return free, waiting, refused
	}
	if free, waiting, refused := at(flood, 1000); free != 10 || waiting != 100 || refused != 890 {
		t.Errorf("at once: %d free, %d wait, %d refused; want the burst, one second of the rate, the rest", free, waiting, refused)
	}
	if free, _, refused := at(quiet, 10); free != 10 || refused != 0 {
		t.Errorf("beside it: %d free, %d refused", free, refused)
	}
	now = now.Add(500 * time.Millisecond)
	if free, waiting, refused := at(flood, 1000); free != 0 || waiting != 50 || refused != 950 {
		t.Errorf("half a second later: %d free, %d wait, %d refused", free, waiting, refused)
	}
	f.leave(&flood)
	if !f.accept() || !f.identify(flood) {
		t.Fatal("not admitted again")
	}
	if free, _, _ := at(flood, 1); free != 0 {
		t.Error("a new connection brought a new burst")
	}
	now = now.Add(10 * time.Second)
	if free, _, _ := at(flood, 1000); free != 10 {
		t.Errorf("after a pause: %d free, want the burst", free)
	}
}

func TestConnectionCounts(t *testing.T) {
	l := Limits{Connections: 4, Handshakes: 2, PerIdentity: 2}
	l.setDefaults()
	f := newFairness(l)
	id := wire.Identity{1}
	take := func(want bool) {
		t.Helper()
		if got := f.accept(); got != want {
			t.Fatalf("accept: %v", got)
		}
	}
	take(true)
	take(true)
	take(false) // two that have not said who they are
	for n, want := range []bool{true, true, false} {
		if got := f.identify(id); got != want {
			t.Fatalf("connection %d of an identity: %v", n, got)
		}
	}
	take(true)
	take(true)
	take(false) // four in all
	f.leave(nil)
	take(true)
	f.leave(&id)
	f.leave(&id)
	f.leave(nil)
	f.leave(nil)
	if f.total != 0 || f.fresh != 0 {
		t.Errorf("%d connections, %d without a name are left", f.total, f.fresh)
	}
}
