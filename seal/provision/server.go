package provision

import (
	"context"
	"crypto/hpke"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/seal/attest"
)

// Registrar registers VMs at the trusted counter. Both calls may be repeated.
type Registrar interface {
	// Admit lets a VM's identity open a store, once, and makes the store's record first if born is false.
	Admit(ctx context.Context, store StoreID, vm Identity, born bool) error
}

// Server decides who gets keys.
type Server struct {
	Keys      *KeyStore
	Verifier  *attest.Verifier
	Audit     *Audit
	Registrar Registrar // nil: stores with an embedded counter only
	Log       zerolog.Logger

	mu         sync.Mutex
	challenges map[[nonceSize]byte]challenge
}

// challenge is a nonce that was given out.
type challenge struct {
	store StoreID
	vm    Identity
	until time.Time
}

// challengesMax bounds what waits for an answer; a flood of questions can make others ask again, no more.
const challengesMax = 4096

// Handler serves the protocol. The listener must be TLS with this package's configuration.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathChallenge, s.serve("challenge", s.challenge))
	mux.HandleFunc("POST "+pathRelease, s.serve("release", s.release))
	return http.MaxBytesHandler(mux, requestMax)
}

// caller is who asks.
type caller struct {
	key []byte
	id  Identity
}

func (s *Server) serve(event string, do func(context.Context, *caller, []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := func() (any, error) {
			key, id, err := peerKey(r.TLS)
			if err != nil {
				return nil, err
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			return do(r.Context(), &caller{key, id}, body)
		}()
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			s.Log.Warn().Str("event", event).Str("from", r.RemoteAddr).Err(err).Msg("refused")
			w.WriteHeader(http.StatusForbidden)
			answer = refusal{Error: err.Error(), Check: checkOf(err)}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			s.Log.Debug().Err(err).Msg("the answer could not be sent")
		}
	}
}

func checkOf(err error) string {
	var r *attest.Refusal
	if errors.As(err, &r) {
		return r.Check
	}
	return ""
}

func (s *Server) challenge(_ context.Context, who *caller, body []byte) (any, error) {
	var q challengeRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	var nonce [nonceSize]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.challenges == nil {
		s.challenges = map[[nonceSize]byte]challenge{}
	}
	for n, c := range s.challenges {
		if len(s.challenges) >= challengesMax || now.After(c.until) {
			delete(s.challenges, n)
		}
	}
	s.challenges[nonce] = challenge{q.Store, who.id, now.Add(challengeIn)}
	return challengeAnswer{Nonce: nonce[:]}, nil
}

// spend takes a nonce away, whatever comes of it, and says whether it was this caller's for this store.
func (s *Server) spend(nonce []byte, store StoreID, vm Identity) error {
	if len(nonce) != nonceSize {
		return &attest.Refusal{Check: "nonce", Reason: fmt.Errorf("%d bytes", len(nonce))}
	}
	s.mu.Lock()
	c, known := s.challenges[[nonceSize]byte(nonce)]
	delete(s.challenges, [nonceSize]byte(nonce))
	s.mu.Unlock()
	switch {
	case !known:
		return &attest.Refusal{Check: "nonce", Reason: errors.New("never given out, or used already")}
	case time.Now().After(c.until):
		return &attest.Refusal{Check: "nonce", Reason: errors.New("too old: ask again")}
	case c.vm != vm || c.store != store:
		return &attest.Refusal{Check: "nonce", Reason: errors.New("given out for another store or to another connection's key")}
	}
	return nil
}

func (s *Server) release(ctx context.Context, who *caller, body []byte) (any, error) {
	var q releaseRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	entry := Entry{Event: "release", Store: hex.EncodeToString(q.Store[:]), Identity: hex.EncodeToString(who.id[:])}
	var took decision
	sealed, err := s.decide(ctx, who, &q, &entry, &took)
	entry.Granted, entry.KeyStore = err == nil, s.Keys.Seq()
	if err != nil {
		entry.Check, entry.Reason = checkOf(err), err.Error()
	}
	// A release that the log does not hold is not given.
	if auditErr := s.Audit.Append(entry); auditErr != nil {
		return nil, errors.Join(err, auditErr)
	}
	if err != nil {
		return nil, err
	}
	s.Log.Info().Str("store", entry.Store).Str("identity", entry.Identity).Str("measurement", entry.Measured).Dur("verify_ms", took.verify).
		Dur("register_ms", took.register).Dur("seal_ms", took.seal).Msg("released keys")
	return releaseAnswer{Sealed: sealed}, nil
}

// decision is how long its parts took.
type decision struct{ verify, register, seal time.Duration }

// decide runs all checks, registers the VM, and seals its release.
func (s *Server) decide(ctx context.Context, who *caller, q *releaseRequest, entry *Entry, took *decision) ([]byte, error) {
	began := time.Now()
	if err := s.spend(q.Nonce, q.Store, who.id); err != nil {
		return nil, err
	}
	facts, err := s.Verifier.Verify(&q.Evidence, binding(q.Store, q.Nonce, who.key, q.EncryptTo))
	if err != nil {
		return nil, err
	}
	took.verify = time.Since(began)
	entry.Measured = hex.EncodeToString(facts.Measurement)
	kem, kdf, aead := suite()
	to, err := kem.NewPublicKey(q.EncryptTo)
	if err != nil {
		return nil, fmt.Errorf("the key to encrypt to: %w", err)
	}
	release, born, err := s.Keys.release(q.Store)
	if err != nil {
		return nil, err
	}
	if release.Counter.URLs != "" {
		if s.Registrar == nil {
			return nil, errors.New("this provisioner knows no counter service")
		}
		began = time.Now()
		if err := s.Registrar.Admit(ctx, q.Store, who.id, born); err != nil {
			return nil, fmt.Errorf("register at the counter: %w", err)
		}
		took.register = time.Since(began)
		if !born {
			if err := s.Keys.Change(func(m map[StoreID]*Held) error { m[q.Store].Born = true; return nil }); err != nil {
				return nil, err
			}
		}
	}
	began = time.Now()
	defer func() { took.seal = time.Since(began) }()
	plain, err := json.Marshal(release)
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	return hpke.Seal(to, kdf, aead, sealInfo(q.Store, q.Nonce, who.id), plain)
}
