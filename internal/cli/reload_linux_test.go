package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/files"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/seal"
	sharedlog "cvmstore/streams"
	"cvmstore/volume"
)

// selfSigned writes a certificate and its key into dir.
func selfSigned(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestHangupReloadsTheCertificate(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	keys, err := seal.GenerateKeys(seal.SuiteAEGIS)
	if err != nil {
		t.Fatal(err)
	}
	counter := epochtest.NewMemory(epochtest.Options{})
	if err := counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	o := defaultOptions()
	o.server.Port, o.server.TLSPort, o.server.TLSAuthClients = 0, -1, "no"
	o.server.TLSCert, o.server.TLSKey = selfSigned(t, t.TempDir())
	reload := make(chan os.Signal)
	o.reload = reload
	space := keyspace.New(keyspace.Options{Databases: int(o.server.Databases)})
	kvs.NewCollections(space, 1<<20)
	files.New(space)
	sharedlog.New(space, 1<<20)
	v, err := volume.Open(ctx, volume.Options{
		Device:  memdev.New(memdev.Options{Blocks: 4096, BlocksMax: 1 << 20}),
		Counter: counter, Keys: keys, SegmentBlocks: device.BlockCount(64),
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: space},
	})
	if err != nil {
		t.Fatal(err)
	}
	space.Attach(v)
	lines := make(logLines, 100)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, &o, zerolog.New(lines), v, space, nil) }()
	expect := func(want string) {
		t.Helper()
		for {
			select {
			case line := <-lines:
				if strings.Contains(line, want) {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("the log does not say %q", want)
			}
		}
	}
	expect(`"tls":"127.0.0.1:`)
	reload <- syscall.SIGHUP
	expect("certificates reloaded")
	if err := os.WriteFile(o.server.TLSCert, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload <- syscall.SIGHUP
	expect("certificates not reloaded")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
