package resp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// suites12 are the cipher suites of TLS 1.2: forward secrecy and authenticated encryption only. TLS 1.3 has no others.
var suites12 = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// tlsConfig reads the certificate, the key and the clients' authorities from their files. It returns nil if TLS is off. An
// attested server without these files uses its own certificate.
func (c *Config) tlsConfig(by *Attested) (*tls.Config, error) {
	if c.TLSPort == 0 {
		return nil, nil
	}
	if by != nil && c.TLSCert == "" && c.TLSKey == "" {
		t := by.attestedTLS()
		return t, c.clientCerts(t)
	}
	if c.TLSCert == "" || c.TLSKey == "" {
		return nil, errors.New("TLS needs a certificate and its key: set tls-cert-file and tls-key-file")
	}
	pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s with key %s: %w", c.TLSCert, c.TLSKey, err)
	}
	t := &tls.Config{
		Certificates: []tls.Certificate{pair}, CipherSuites: suites12,
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
	}
	protocols := strings.Fields(strings.ToLower(c.TLSProtocols))
	if len(protocols) > 0 && !slices.Contains(protocols, "tlsv1.2") {
		t.MinVersion = tls.VersionTLS13
	}
	if len(protocols) > 0 && !slices.Contains(protocols, "tlsv1.3") {
		t.MaxVersion = tls.VersionTLS12
	}
	return t, c.clientCerts(t)
}

// clientCerts says which certificates clients show.
func (c *Config) clientCerts(t *tls.Config) error {
	switch c.TLSAuthClients {
	case "yes":
		t.ClientAuth = tls.RequireAndVerifyClientCert
	case "optional":
		t.ClientAuth = tls.VerifyClientCertIfGiven
	default:
		return nil
	}
	if c.TLSCACert == "" {
		return errors.New("clients are asked for certificates: set tls-ca-cert-file, or tls-auth-clients no")
	}
	pem, err := os.ReadFile(c.TLSCACert)
	if err != nil {
		return fmt.Errorf("TLS authorities: %w", err)
	}
	t.ClientCAs = x509.NewCertPool()
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("TLS authorities: no certificate in %s", c.TLSCACert)
	}
	return nil
}

// ReloadTLS reads the certificate files again: connections from now on use them. On an error the old ones stay in use.
func (s *Server) ReloadTLS() error {
	s.configMu.Lock()
	defer s.configMu.Unlock()
	t, err := s.config.Load().tlsConfig(s.opts.Attested)
	if err == nil && t != nil {
		s.tls.Store(t)
	}
	return err
}

// applyTLS puts a new configuration of TLS into use if one of its parameters was set.
func (s *Server) applyTLS(next *Config, set map[string]bool) error {
	for name := range set {
		if !strings.HasPrefix(name, "tls-") {
			continue
		}
		t, err := next.tlsConfig(s.opts.Attested)
		if err != nil {
			s.log.Error().Err(err).Msg("TLS stays as it was")
			return configError(name, "Unable to update TLS configuration. Check server logs.")
		}
		if t != nil {
			s.tls.Store(t)
		}
		return nil
	}
	return nil
}

// tlsParams are redis.conf's parameters of TLS.
func tlsParams() []Param {
	return []Param{
		intParam("tls-port", 0, PortAny, 65535, false, func(c *Config) *int64 { return &c.TLSPort }, "TCP port for TLS; 0: none. With port 0, TLS is the only way in."),
		stringParam("tls-cert-file", "", true, func(c *Config) *string { return &c.TLSCert },
			"Certificate of the server, with its chain, PEM. Read again on SIGHUP and when it is set."),
		stringParam("tls-key-file", "", true, func(c *Config) *string { return &c.TLSKey }, "Private key of that certificate, PEM."),
		stringParam("tls-ca-cert-file", "", true, func(c *Config) *string { return &c.TLSCACert }, "Authorities that sign clients' certificates, PEM."),
		enumParam("tls-auth-clients", "yes", []string{"yes", "no", "optional"}, func(c *Config) *string { return &c.TLSAuthClients },
			"Whether clients must show a certificate, may, or are not asked."),
		tlsProtocolsParam(),
	}
}

func tlsProtocolsParam() Param {
	return Param{
		Name: "tls-protocols", Kind: KindString, Default: "TLSv1.2 TLSv1.3", Mutable: true, Help: "Versions of TLS, a list of TLSv1.2 and TLSv1.3.",
		get: func(c *Config) string { return c.TLSProtocols },
		set: func(c *Config, s string) error {
			for _, p := range strings.Fields(strings.ToLower(s)) {
				if p != "tlsv1.2" && p != "tlsv1.3" {
					return fmt.Errorf("argument must be a list of TLSv1.2 and TLSv1.3: older versions are not safe")
				}
			}
			c.TLSProtocols = s
			return nil
		},
	}
}
