package resp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"cvmstore/resp/command"
)

// Attested is how a server in a confidential VM shows what it is to clients (CVM.ATTEST).
type Attested struct {
	// Cert is the VM's own certificate, whose key never leaves its memory. The TLS port uses it where no file is named.
	Cert tls.Certificate
	// Attest returns evidence that binds the nonce, the public key of this connection's certificate (SubjectPublicKeyInfo), and
	// the connection itself. Called from goroutines.
	Attest func(ctx context.Context, nonce, tlsKey []byte, channel *tls.ConnectionState) (*command.Evidence, error)
}

// attestsMax bounds the sessions that wait for reports, whose making costs the processor's firmware milliseconds.
const attestsMax = 256

// attestation is one that a session waits for.
type attestation struct {
	done     bool
	evidence *command.Evidence
	err      error
}

// Attest begins to ask for evidence (the session parks until it is there), or, without a nonce, says what came of it.
func (v *view) Attest(c *command.Ctx, nonce []byte) (*command.Evidence, bool, error) {
	s := v.l.sessions[c.S.FD]
	if nonce == nil {
		a := s.attestation
		if a == nil || !a.done {
			return nil, false, nil
		}
		s.attestation = nil
		return a.evidence, true, a.err
	}
	by := v.s.opts.Attested
	if by == nil {
		return nil, false, command.Error("ERR this server has no evidence to show: it did not get its keys by attestation (--provision)")
	}
	secured, ok := s.conn.(*secure)
	if !ok {
		return nil, false, command.Error("ERR evidence speaks for a TLS connection, and this is none: it would be worth nothing")
	}
	channel := secured.tls.ConnectionState()
	if channel.Version < tls.VersionTLS13 {
		return nil, false, command.Error("ERR evidence needs TLS 1.3")
	}
	if v.s.attests.Add(1) > attestsMax {
		v.s.attests.Add(-1)
		return nil, false, command.Error("BUSY the processor is making other reports; nothing was done, try again")
	}
	a := &attestation{}
	s.attestation = a
	timeout := v.ReplyTimeout()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		evidence, err := by.Attest(ctx, nonce, secured.key, &channel)
		v.s.attests.Add(-1)
		v.l.post(func(l *loop) {
			a.done, a.evidence, a.err = true, evidence, err
			if !s.closed && s.phase == phasePark && s.attestation == a {
				l.unpark(s, command.ResumeReady)
			}
		})
	}()
	return nil, false, nil
}

// publicKey is the SubjectPublicKeyInfo of a configuration's certificate.
func publicKey(t *tls.Config) ([]byte, error) {
	if len(t.Certificates) == 0 || len(t.Certificates[0].Certificate) == 0 {
		return nil, errors.New("no certificate")
	}
	leaf, err := x509.ParseCertificate(t.Certificates[0].Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("own certificate: %w", err)
	}
	return leaf.RawSubjectPublicKeyInfo, nil
}

// attestedTLS is the configuration for clients that check evidence: it has the VM's own certificate, which no file holds. No
// connection resumes another one's, so each is bound by evidence of its own.
func (a *Attested) attestedTLS() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.Cert}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true}
}
