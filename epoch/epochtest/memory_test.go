package epochtest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
)

var store = epoch.StoreID{7}

func opened(t *testing.T, o epochtest.Options) *epochtest.Memory {
	t.Helper()
	m := epochtest.NewMemory(o)
	if err := m.Create(context.Background(), store); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Open(context.Background(), store); err != nil {
		t.Fatal(err)
	}
	return m
}

func request(v epoch.Counter) epoch.CommitRequest {
	r := epoch.CommitRequest{Store: store, Gen: 1, Value: v, Tag: epoch.Tag{byte(v)}}
	if v > 1 {
		r.Expected = epoch.Tag{byte(v - 1)}
	}
	return r
}

func value(t *testing.T, m *epochtest.Memory) epoch.Counter {
	t.Helper()
	r, err := m.Read(context.Background(), store)
	if err != nil {
		t.Fatal(err)
	}
	return r.Current.Value
}

func TestPowerCutLosesOnlyWhatWasNotFlushed(t *testing.T) {
	seen := map[epoch.Counter]bool{}
	for seed := range uint64(200) {
		m := opened(t, epochtest.Options{Lagging: true})
		for v := epoch.Counter(1); v <= 5; v++ {
			m.Commit(request(v), func(_ epoch.Stamp, err error) {
				if err != nil {
					t.Fatal(err)
				}
			})
			if v == 2 {
				if err := m.Sync(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		}
		m.PowerCut(rand.New(rand.NewPCG(seed, 1)))
		seen[value(t, m)] = true
	}
	for v := epoch.Counter(0); v <= 6; v++ {
		if want := v >= 2 && v <= 5; seen[v] != want {
			t.Errorf("counter %d after a power cut: seen %v, want %v", v, seen[v], want)
		}
	}
}

func TestDurableServiceLosesNothing(t *testing.T) {
	m := opened(t, epochtest.Options{})
	m.Commit(request(1), func(epoch.Stamp, error) {})
	m.PowerCut(rand.New(rand.NewPCG(1, 1)))
	if v := value(t, m); v != 1 {
		t.Errorf("counter %d, want 1", v)
	}
}

func TestAsyncCommitsWaitForDeliver(t *testing.T) {
	m := opened(t, epochtest.Options{Async: true})
	answers := 0
	m.Commit(request(1), func(_ epoch.Stamp, err error) {
		if err != nil {
			t.Error(err)
		}
		answers++
	})
	if answers != 0 || value(t, m) != 0 {
		t.Fatal("the commit did not wait")
	}
	if !m.Deliver() || answers != 1 || value(t, m) != 1 {
		t.Fatal("Deliver did not deliver")
	}
	m.Commit(request(2), func(epoch.Stamp, error) { t.Error("a dead process got an answer") })
	m.Kill()
	if !m.Deliver() || value(t, m) != 2 || m.Deliver() {
		t.Error("a commit of a dead process did not arrive exactly once")
	}
}

func TestFaults(t *testing.T) {
	fault := epochtest.FaultNone
	m := opened(t, epochtest.Options{Fault: func(epochtest.Call) epochtest.Fault { return fault }})
	send := func() (got error) {
		m.Commit(request(1), func(_ epoch.Stamp, err error) { got = err })
		return got
	}
	fault = epochtest.FaultLost
	if err := send(); !errors.Is(err, epochtest.ErrInjected) {
		t.Errorf("lost request: %v", err)
	}
	fault = epochtest.FaultNone
	if v := value(t, m); v != 0 {
		t.Errorf("a lost request took effect: %d", v)
	}
	fault = epochtest.FaultAnswer
	if err := send(); !errors.Is(err, epochtest.ErrInjected) {
		t.Errorf("lost answer: %v", err)
	}
	if _, err := m.Open(context.Background(), store); !errors.Is(err, epochtest.ErrInjected) {
		t.Errorf("lost answer of Open: %v", err)
	}
	fault = epochtest.FaultNone
	if v := value(t, m); v != 1 {
		t.Errorf("a request whose answer was lost did not take effect: %d", v)
	}
	if err := send(); !errors.Is(err, epoch.ErrFenced) {
		t.Errorf("the lost Open did not cost a generation: %v", err)
	}
	if commits, faults := m.Counts(); commits != 1 || faults != 3 {
		t.Errorf("%d commits and %d faults counted, want 1 and 3", commits, faults)
	}
}

func TestSnapshotRestore(t *testing.T) {
	m := opened(t, epochtest.Options{})
	old := m.Snapshot()
	m.Commit(request(1), func(epoch.Stamp, error) {})
	m.Restore(old)
	if v := value(t, m); v != 0 {
		t.Errorf("counter %d after the rollback, want 0", v)
	}
}
