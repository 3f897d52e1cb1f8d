package attest

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// What a server shows its clients (CVM.ATTEST, package ratls).
const (
	clientPurpose = "cvmstore client v1"
	// channelLabel is the exporter's label (RFC 8446, section 7.5) of the bytes that evidence binds. Both ends of a connection
	// can compute them, and nobody else: evidence that was asked for through another connection speaks for that one.
	channelLabel = "EXPORTER-cvmstore-attestation"
	channelBytes = 32
)

// ClientBinding is what the evidence of a server on a store must bind for a client: the client's nonce, the public key of the
// server's certificate (SubjectPublicKeyInfo), and the TLS connection between them.
func ClientBinding(store [16]byte, nonce, tlsKey []byte, channel *tls.ConnectionState) (*Binding, error) {
	if channel.Version < tls.VersionTLS13 || channel.DidResume {
		return nil, errors.New("evidence is for connections of TLS 1.3 that do not resume another one")
	}
	exported, err := channel.ExportKeyingMaterial(channelLabel, nil, channelBytes)
	if err != nil {
		return nil, fmt.Errorf("TLS exporter: %w", err)
	}
	return &Binding{Purpose: clientPurpose, Nonce: nonce, TLSKey: tlsKey, Extra: append(store[:], exported...)}, nil
}
