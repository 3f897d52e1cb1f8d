package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"github.com/rs/zerolog"

	"cvmstore/epoch/etcdstore"
	"cvmstore/epoch/service"
)

// openEtcd uses an etcd cluster as the service's back end.
func (c *counterServe) openEtcd(log zerolog.Logger) (service.Store, error) {
	log.Warn().Strs("etcd", c.Etcd).Msg("the counters are in etcd: whoever restores a snapshot on a majority of its members rolls every " +
		"store back. Keep the members in separate trust domains (docs/OPERATIONS.md)")
	config, err := c.etcdTLS()
	if err != nil {
		return nil, err
	}
	return etcdstore.Open(etcdstore.Options{Endpoints: c.Etcd, TLS: config})
}

func (c *counterServe) etcdTLS() (*tls.Config, error) {
	if c.EtcdCA == "" {
		for _, e := range c.Etcd {
			host, _, err := net.SplitHostPort(e)
			if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
				return nil, usageErrorf("--etcd %s: plaintext beyond loopback; give --etcd-ca and --etcd-cert", e)
			}
		}
		return nil, nil
	}
	ca, err := os.ReadFile(c.EtcdCA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(ca) {
		return nil, usageErrorf("--etcd-ca %s: no certificate in it", c.EtcdCA)
	}
	if c.EtcdCert != "" {
		cert, err := tls.LoadX509KeyPair(c.EtcdCert, c.EtcdCert)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cert: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}
