package provision

import (
	"bytes"
	"context"
	"crypto/hpke"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"cvmstore/seal/attest"
)

// Client asks the trusted party for a store's keys.
type Client struct {
	URL      string   // https://host:port
	Party    Identity // the party's, pinned; part of what is measured
	Store    StoreID
	Attester attest.Attester
	Cert     tls.Certificate // of a fresh key: the VM's identity from now on
	Timeout  time.Duration   // of all; default 30 s
}

// Timing is how long the phases of a request took.
type Timing struct {
	Challenge, Attest, Release time.Duration
}

// Request attests and returns what the party releases. An error that wraps a *attest.Refusal is final; others may be tried
// again.
func (c *Client) Request(ctx context.Context) (*Release, Timing, error) {
	var took Timing
	timeout := c.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	ctx, done := context.WithTimeout(ctx, timeout)
	defer done()
	if !strings.HasPrefix(c.URL, "https://") {
		return nil, took, fmt.Errorf("provisioner %q: not of the form https://HOST:PORT", c.URL)
	}
	transport := &http.Transport{TLSClientConfig: TLS(c.Cert, func(id Identity) error {
		if id != c.Party {
			return fmt.Errorf("the provisioner has another key (identity %x) than the pinned one (%x)", id, c.Party)
		}
		return nil
	})}
	defer transport.CloseIdleConnections()
	h := &http.Client{Transport: transport}

	start := time.Now()
	var nonce challengeAnswer
	if err := c.post(ctx, h, pathChallenge, challengeRequest{c.Store}, &nonce); err != nil {
		return nil, took, err
	}
	took.Challenge = time.Since(start)

	start = time.Now()
	leaf, err := x509.ParseCertificate(c.Cert.Certificate[0])
	if err != nil {
		return nil, took, err
	}
	key, me, err := peerKey(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}})
	if err != nil {
		return nil, took, err
	}
	kem, kdf, aead := suite()
	private, err := kem.GenerateKey()
	if err != nil {
		return nil, took, err
	}
	q := releaseRequest{Store: c.Store, Nonce: nonce.Nonce, EncryptTo: private.PublicKey().Bytes()}
	if q.Evidence, err = c.Attester.Attest(binding(c.Store, q.Nonce, key, q.EncryptTo).Data()); err != nil {
		return nil, took, err
	}
	took.Attest = time.Since(start)

	start = time.Now()
	var answer releaseAnswer
	if err := c.post(ctx, h, pathRelease, q, &answer); err != nil {
		return nil, took, err
	}
	plain, err := hpke.Open(private, kdf, aead, sealInfo(c.Store, q.Nonce, me), answer.Sealed)
	if err != nil {
		return nil, took, fmt.Errorf("the release does not open: %w", err)
	}
	defer clear(plain)
	r := new(Release)
	if err := decode(plain, r); err != nil {
		return nil, took, errors.New("the release is malformed") // nothing of it belongs into an error
	}
	took.Release = time.Since(start)
	return r, took, nil
}

func (c *Client) post(ctx context.Context, h *http.Client, path string, q, answer any) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.Do(req)
	if err != nil {
		return fmt.Errorf("provisioner: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, requestMax))
	if err != nil {
		return fmt.Errorf("provisioner: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return decode(text, answer)
	}
	var no refusal
	if decode(text, &no) != nil || no.Error == "" {
		return fmt.Errorf("provisioner: status %d", resp.StatusCode)
	}
	return &attest.Refusal{Check: no.Check, Reason: fmt.Errorf("the provisioner says: %.500q", no.Error)}
}
