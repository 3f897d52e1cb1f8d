package resp

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// HTTPS returns a configuration for other listeners of this process, with the certificates that clients of the TLS port see; nil: there
// are none. Certificates that are read again are used from then on.
func (s *Server) HTTPS() *tls.Config {
	if s.tls.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := s.tls.Load().Clone()
			c.ClientAuth, c.NextProtos = tls.NoClientCert, []string{"http/1.1"}
			return c, nil
		},
	}
}

// CertificateEnd is when the first of the certificates in use ends; zero: there are none.
func (s *Server) CertificateEnd() (end time.Time) {
	c := s.tls.Load()
	if c == nil {
		return end
	}
	for i := range c.Certificates {
		if len(c.Certificates[i].Certificate) == 0 {
			continue
		}
		leaf, err := x509.ParseCertificate(c.Certificates[i].Certificate[0])
		if err == nil && (end.IsZero() || leaf.NotAfter.Before(end)) {
			end = leaf.NotAfter
		}
	}
	return end
}
