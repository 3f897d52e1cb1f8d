package cli

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"cvmstore/resp"
	"cvmstore/volume"
)

// options is the server's whole configuration: what resp's table of parameters holds, and what concerns the volume.
type options struct {
	server resp.Config

	volume, keyFile, counterFile string // empty: in the directory, under the names below

	counterURL, counterCert, counterPin string // of the counter service; empty: the embedded counter

	// Where the keys come from, if not from a file: the party's address and identity, the store, and what attests.
	provision, provisionPin, store, attester, attestCerts string

	volumeSize   int64 // bytes; 0: as far as the file system goes
	segmentSize  int64 // bytes, of a new volume
	cacheSize    int64 // bytes
	blobSize     int64 // bytes; 0: no blobs
	cipher       string
	epochLength  time.Duration
	epochBytes   int64
	epochMode    string
	commitOrder  string
	formatOver   string // the volume whose foreign data may be overwritten at birth
	insecurePort bool

	nvme                        nvmeOptions // a volume on an NVMe controller
	epochOps, epochsUncommitted int
	freshLease                  int // ms

	logLevel, logFile, logFormat string

	httpAddr, httpToken string // metrics and the status page

	startup    *startup                                      // what the start takes
	configFile string                                        // the file that was read; empty: none
	reopen     func(context.Context) (*volume.Volume, error) // opens the volume, again for DEBUG RELOAD
	reload     <-chan os.Signal                              // asks for the certificates to be read again; nil: never
}

// Names of the files that a store consists of, in its directory.
const (
	dirDefault      = "./cvmstore-data"
	volumeName      = "volume.cvm"
	keyFileName     = "key"
	counterFileName = "counter"
	identityName    = "identity.pem"
)

// defaultOptions returns what no flags and no file result in.
func defaultOptions() options {
	o := options{server: resp.DefaultConfig()}
	o.server.Dir = dirDefault
	for _, s := range ownSettings() {
		if err := s.set(&o, s.def); err != nil {
			panic("internal error: default of " + s.name + ": " + err.Error())
		}
	}
	return o
}

// volumePath is the file of the volume, or the name of the device that it is on.
func (o *options) volumePath() string {
	if o.nvme.address != "" {
		return o.nvme.address
	}
	return o.pathOr(o.volume, volumeName)
}

func (o *options) keyPath() string     { return o.pathOr(o.keyFile, keyFileName) }
func (o *options) counterPath() string { return o.pathOr(o.counterFile, counterFileName) }

func (o *options) identityPath() string {
	return o.pathOr(o.counterCert, identityName)
}

func (o *options) pathOr(path, name string) string {
	if path != "" {
		return path
	}
	return filepath.Join(o.server.Dir, name)
}
