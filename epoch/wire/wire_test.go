package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"

	"cvmstore/epoch"
)

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func samples() []Request {
	return []Request{
		{Op: OpCreate, Store: epoch.StoreID{1}, Owner: [32]byte{2}},
		{Op: OpOpen, Store: epoch.StoreID{1}, Nonce: Nonce{3}},
		{Op: OpRead, Store: epoch.StoreID{1}, Nonce: Nonce{3}},
		{Op: OpCommit, Store: epoch.StoreID{1}, Commit: epoch.CommitRequest{
			Store: epoch.StoreID{1}, Gen: 4, Expected: epoch.Tag{5}, Value: 6, Tag: epoch.Tag{7}, Opening: true, Parallel: true,
		}},
	}
}

func TestRequests(t *testing.T) {
	for _, r := range samples() {
		b := r.Append(nil)
		got, err := ParseRequest(r.Op, b)
		if err != nil || got != r {
			t.Errorf("%v: %+v, %v", r.Op, got, err)
		}
		for at := range offStore {
			if at == offFlags && r.Op == OpCommit {
				continue
			}
			bad := bytes.Clone(b)
			bad[at] ^= 0x80
			if _, err := ParseRequest(r.Op, bad); !errors.Is(err, ErrMalformed) {
				t.Errorf("%v: byte %d: %v", r.Op, at, err)
			}
		}
		for n := range len(b) {
			if _, err := ParseRequest(r.Op, b[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%v: %d bytes: %v", r.Op, n, err)
			}
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, r := range samples() {
		f.Add(byte(r.Op), r.Append(nil))
	}
	f.Fuzz(func(t *testing.T, op byte, b []byte) {
		r, err := ParseRequest(Op(op%4+1), b)
		if err != nil {
			return
		}
		if again := r.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x parsed, encoded as %x", b, again)
		}
	})
}

func TestStatement(t *testing.T) {
	s := Statement{
		Op: OpOpen, Frozen: true, Opener: Identity{1}, Instance: Instance{2}, Stamp: 3, Nonce: Nonce{4}, Random: [32]byte{5},
		Record: epoch.Record{
			Store: epoch.StoreID{6}, Gen: 7, Current: epoch.State{Value: 8, Tag: epoch.Tag{9}, Gen: 10},
			Before: epoch.State{Value: 11, Tag: epoch.Tag{12}, Gen: 13}, Floor: 14,
		},
	}
	b := s.Sign(key(1))
	if len(b) != StatementBytes {
		t.Fatalf("%d bytes", len(b))
	}
	got, err := OpenStatement(key(1).Public().(ed25519.PublicKey), b)
	if err != nil || got != s {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := OpenStatement(key(2).Public().(ed25519.PublicKey), b); !errors.Is(err, ErrSignature) {
		t.Errorf("another service: %v", err)
	}
	// Signed, but not by the rules: a later version, or reserved bytes in use.
	for _, at := range []int{8, stKind, stFlags, stReserved} {
		bad := bytes.Clone(b[:stSignature])
		bad[at] ^= 0x40
		bad = append(bad, ed25519.Sign(key(1), bad)...)
		if _, err := OpenStatement(key(1).Public().(ed25519.PublicKey), bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

func TestOrder(t *testing.T) {
	o := Order{Kind: OrderRollback, Store: epoch.StoreID{1}, Instance: Instance{2}, Gen: 3, Tag: epoch.Tag{4}, Value: 5, Target: epoch.Tag{6}}
	b := o.Sign(key(1))
	if got, err := ParseOrder(b); err != nil || got != o {
		t.Errorf("%+v, %v", got, err)
	}
	owner := key(1).Public().(ed25519.PublicKey)
	if err := VerifyOrder(owner, b); err != nil {
		t.Error(err)
	}
	for at := range b {
		bad := bytes.Clone(b)
		bad[at] ^= 1
		if err := VerifyOrder(owner, bad); !errors.Is(err, ErrOrder) {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
	if err := VerifyOrder(make([]byte, 32), b); !errors.Is(err, ErrOrder) {
		t.Errorf("a store without an owner: %v", err)
	}
	for _, at := range []int{0, 8, orKind, orReserved, orReserved + 4} {
		bad := bytes.Clone(b)
		bad[at] ^= 0x40
		if _, err := ParseOrder(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

func TestErrorsTravel(t *testing.T) {
	for _, c := range codes {
		status, body := EncodeError(fmt.Errorf("somewhere: %w", c.err))
		if got := DecodeError(status, []byte(body)); !errors.Is(got, c.err) || status != c.status {
			t.Errorf("%v came back as %v (%d)", c.err, got, status)
		}
	}
	status, body := EncodeError(errors.New("a secret path"))
	if got := DecodeError(status, []byte(body)); !errors.Is(got, ErrUnavailable) || bytes.Contains([]byte(body), []byte("secret")) {
		t.Errorf("an error without a word: %q, %v", body, got)
	}
	if got := DecodeError(502, []byte("\x1b[31mfenced: \x07")); errors.Is(got, epoch.ErrFenced) || bytes.ContainsRune([]byte(got.Error()), 27) {
		t.Errorf("control characters: %q", got)
	}
}
