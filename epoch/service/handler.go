package service

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"cvmstore/epoch"
	"cvmstore/epoch/wire"
)

// bodyMax bounds the operator's JSON; a store's requests have their own, smaller size.
const bodyMax = 4 << 10

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, op := range []wire.Op{wire.OpCreate, wire.OpOpen, wire.OpRead, wire.OpCommit} {
		mux.HandleFunc("POST "+wire.Path(op), func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, op) })
	}
	mux.HandleFunc("GET /v1/service", s.json(false, s.describe))
	mux.HandleFunc("GET /v1/stores", s.json(true, func(r *http.Request, _ operatorRequest) (any, error) {
		return s.service.Stores(r.Context(), r.URL.Query().Get("after"), limitOf(r))
	}))
	mux.HandleFunc("GET /v1/identities", s.json(true, func(r *http.Request, _ operatorRequest) (any, error) {
		return s.service.Identities(r.Context(), r.URL.Query().Get("after"), limitOf(r))
	}))
	for path, do := range operatorPaths {
		mux.HandleFunc("POST /v1/operator/"+path, s.json(true, func(r *http.Request, req operatorRequest) (any, error) {
			return struct{}{}, do(r.Context(), s.service, &req)
		}))
	}
	return mux
}

func limitOf(r *http.Request) int {
	n, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || n < 1 {
		return pageMax
	}
	return min(n, pageMax)
}

// serve answers one request of a store's server.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, op wire.Op) {
	who, err := s.begin(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	var buf [wire.RequestBytesMax + 1]byte
	n, err := io.ReadFull(http.MaxBytesReader(w, r.Body, int64(len(buf))), buf[:])
	if err == nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		s.refuse(w, r, fmt.Errorf("%w: a body of another size", wire.ErrMalformed))
		return
	}
	req, err := wire.ParseRequest(op, buf[:n])
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	answer, err := s.carryOut(r.Context(), who, &req)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	h := w.Header()
	h["Content-Type"] = octets
	h["Content-Length"] = []string{strconv.Itoa(len(answer))}
	h["Date"] = nil // host clocks are nobody's business; the stamp is the service's time
	_, _ = w.Write(answer)
}

var octets = []string{"application/octet-stream"}

func (s *Server) begin(r *http.Request) (Caller, error) {
	who, err := s.caller(r)
	if err != nil {
		return who, err
	}
	if !s.fair.take(r.Context(), who.ID) {
		return who, wire.ErrSlowDown
	}
	return who, nil
}

func (s *Server) carryOut(ctx context.Context, who Caller, req *wire.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.RequestWindow)
	defer cancel()
	var stamp epoch.Stamp
	var err error
	switch req.Op {
	case wire.OpOpen:
		return s.service.Open(ctx, who, req.Store, req.Nonce)
	case wire.OpRead:
		return s.service.Read(ctx, who, req.Store, req.Nonce)
	case wire.OpCreate:
		stamp, err = s.service.Create(ctx, who, req.Store, req.Owner)
	default:
		stamp, err = s.service.Commit(ctx, who, &req.Commit)
	}
	if err != nil {
		return nil, err
	}
	return wire.AppendAnswer(nil, stamp), nil
}

// refuse answers an error. What says that somebody tries something is logged, at a bounded rate.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, body := wire.EncodeError(err)
	l := s.log.Sample(refusalSampler)
	l.Warn().Err(err).Str("path", r.URL.Path).Int("status", status).Msg("refused")
	if errors.Is(err, wire.ErrMalformed) || errors.Is(err, wire.ErrSlowDown) {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// json wraps a handler whose answer is JSON; operator: only the operator may ask.
func (s *Server) json(operator bool, do func(*http.Request, operatorRequest) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := func() (any, error) {
			who, err := s.begin(r)
			if err != nil {
				return nil, err
			}
			if operator && who.Role != RoleOperator {
				return nil, fmt.Errorf("only the operator may ask that: %w", epoch.ErrForbidden)
			}
			var req operatorRequest
			if r.Method == http.MethodPost {
				body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
				if err != nil {
					return nil, fmt.Errorf("%w: body", wire.ErrMalformed)
				}
				if req, err = parseOperator(body); err != nil {
					return nil, err
				}
			}
			return do(r, req)
		}()
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// Description is what the service says of itself.
type Description struct {
	Version   int    `json:"version"`
	Instance  string `json:"instance"`
	PublicKey string `json:"public_key"`
}

func (s *Server) describe(*http.Request, operatorRequest) (any, error) {
	i := s.service.Instance()
	return Description{wire.Version, hex.EncodeToString(i[:]), hex.EncodeToString(s.service.PublicKey())}, nil
}

// operatorPaths are the operator's requests, posted as JSON.
var operatorPaths = map[string]func(context.Context, *Service, *operatorRequest) error{
	"enrol": func(ctx context.Context, s *Service, r *operatorRequest) error {
		id, err := ParseIdentity(r.Identity)
		if err != nil {
			return err
		}
		return s.Enrol(ctx, id, r.Name, r.Role)
	},
	"create": withStore(func(ctx context.Context, s *Service, r *operatorRequest, store epoch.StoreID) error {
		id, err := ParseIdentity(r.Identity)
		if err != nil {
			return err
		}
		owner, err := r.owner()
		if err != nil {
			return err
		}
		return s.CreateFor(ctx, store, id, r.Once, owner)
	}),
	"allow": withStore(func(ctx context.Context, s *Service, r *operatorRequest, store epoch.StoreID) error {
		id, err := ParseIdentity(r.Identity)
		if err != nil {
			return err
		}
		return s.Allow(ctx, store, id, r.Once)
	}),
	"disallow": withStore(func(ctx context.Context, s *Service, r *operatorRequest, store epoch.StoreID) error {
		id, err := ParseIdentity(r.Identity)
		if err != nil {
			return err
		}
		return s.Disallow(ctx, store, id)
	}),
	"freeze": withStore(func(ctx context.Context, s *Service, _ *operatorRequest, store epoch.StoreID) error {
		return s.Freeze(ctx, store, true)
	}),
	"thaw": withStore(func(ctx context.Context, s *Service, _ *operatorRequest, store epoch.StoreID) error {
		return s.Freeze(ctx, store, false)
	}),
	"order": func(ctx context.Context, s *Service, r *operatorRequest) error {
		order, err := hex.DecodeString(r.Order)
		if err != nil {
			return fmt.Errorf("%w: an order is hexadecimal digits", wire.ErrMalformed)
		}
		owner, err := r.owner()
		if err != nil {
			return err
		}
		var id wire.Identity
		if r.Identity != "" {
			if id, err = ParseIdentity(r.Identity); err != nil {
				return err
			}
		}
		return s.CarryOut(ctx, order, owner, id)
	},
}

func withStore(do func(context.Context, *Service, *operatorRequest, epoch.StoreID) error) func(context.Context, *Service, *operatorRequest) error {
	return func(ctx context.Context, s *Service, r *operatorRequest) error {
		store, err := ParseStore(r.Store)
		if err != nil {
			return err
		}
		return do(ctx, s, r, store)
	}
}
