package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"strings"

	"cvmstore/epoch/wire"
)

// Files of the counter service and of its clients. An identity is an Ed25519 key with a certificate that carries it into TLS;
// who holds the key is who the certificate is of, so it is signed by itself and its dates count for nothing.

// identityFile is a key pair read from a file.
type identityFile struct {
	cert tls.Certificate
	key  ed25519.PrivateKey
	id   wire.Identity
}

// readIdentity reads a PEM file with a certificate and its Ed25519 key.
func readIdentity(path string) (*identityFile, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(b, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := cert.PrivateKey.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: the key is not an Ed25519 key; make one with: cvmstore counter identity --out FILE", path)
	}
	id, err := wire.IdentityOf(key.Public())
	return &identityFile{cert: cert, key: key, id: id}, err
}

// newIdentity makes one that is in memory only.
func newIdentity(name string) (*identityFile, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	if err != nil {
		return nil, err
	}
	id, err := wire.IdentityOf(public)
	return &identityFile{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, key: private, id: id}, err
}

// createIdentity makes such a file, which must not exist.
func createIdentity(path, name string) (*identityFile, error) {
	f, err := newIdentity(name)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(f.key)
	if err != nil {
		return nil, err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.cert.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	if err := writeNew(path, text); err != nil {
		return nil, err
	}
	return readIdentity(path)
}

// identityAt reads the file, or makes it.
func identityAt(path, name string) (f *identityFile, made bool, err error) {
	f, err = readIdentity(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, false, err
	}
	f, err = createIdentity(path, name)
	return f, true, err
}

// writeNew writes a secret to a new file, durably.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// pin is what a client must know of the service beforehand: who it is in TLS, and what its statements are signed with.
type pin struct {
	identity wire.Identity
	key      ed25519.PublicKey
	instance wire.Instance // which database; only for orders
}

func (p *pin) text() []byte {
	return fmt.Appendf(nil, "# The trusted counter service, as clients must know it (--counter-pin). Not a secret, but it must not be replaced.\n"+
		"identity = %x\nkey = %x\ninstance = %x\n", p.identity[:], []byte(p.key), p.instance[:])
}

func readPin(path string) (*pin, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parsePin(path, b)
}

func parsePin(path string, b []byte) (*pin, error) {
	values := map[string][]byte{}
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(line, "=")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		v, err := hex.DecodeString(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, strings.TrimSpace(name), err)
		}
		values[strings.TrimSpace(name)] = v
	}
	p := &pin{key: values["key"]}
	if copy(p.identity[:], values["identity"]) != len(p.identity) || len(p.key) != ed25519.PublicKeySize ||
		copy(p.instance[:], values["instance"]) != len(p.instance) {
		return nil, fmt.Errorf("%s: it lacks identity, key or instance; it is the service's file service.pin", path)
	}
	return p, nil
}
