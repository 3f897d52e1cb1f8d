package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// certificates are what a comparison over TLS needs: one self-signed certificate, which is the authority too. nil: plaintext.
type certificates struct{ cert, key string }

// makeCertificates writes them into a directory. Their paths are absolute: redis-server changes its directory first.
func makeCertificates(dir string) (*certificates, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	c := &certificates{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	if err := os.WriteFile(c.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600); err != nil {
		return nil, err
	}
	return c, os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}

// flags are those of either server, which have the same names.
func (c *certificates) flags(port int) []string {
	if c == nil {
		return []string{"--port", strconv.Itoa(port)}
	}
	return []string{
		"--port", "0", "--tls-port", strconv.Itoa(port), "--tls-cert-file", c.cert, "--tls-key-file", c.key,
		"--tls-ca-cert-file", c.cert, "--tls-auth-clients", "no",
	}
}

// client are redis-benchmark's.
func (c *certificates) client() []string {
	if c == nil {
		return nil
	}
	return []string{"--tls", "--cacert", c.cert}
}
