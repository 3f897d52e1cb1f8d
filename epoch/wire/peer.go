package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// PeerIdentity returns who the other end of a TLS connection is: whose key its certificate holds. TLS has checked that the peer
// has that key; nothing else in the certificate counts.
func PeerIdentity(c *tls.ConnectionState) (Identity, error) {
	if len(c.PeerCertificates) == 0 {
		return Identity{}, errors.New("no certificate")
	}
	return IdentityOf(c.PeerCertificates[0].PublicKey)
}

// PinnedTLS returns a client's configuration that trusts the one service whose key has this identity, and shows cert.
func PinnedTLS(cert tls.Certificate, service Identity) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // instead of names and dates, the key is checked:
		VerifyConnection: func(c tls.ConnectionState) error {
			id, err := PeerIdentity(&c)
			if err == nil && id != service {
				err = fmt.Errorf("the counter service has another key (identity %x) than the one that was provisioned (%x)", id, service)
			}
			return err
		},
	}
}
