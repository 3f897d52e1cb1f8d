// Package simulated makes evidence of a platform that does not exist, for tests and for trying things out: reports in the
// format of AMD SEV-SNP with the real data, signed by a chain of certificates whose private keys are published with
// google/go-sev-guest. Anybody can sign with them. So only a policy that names this platform's certificates as its roots
// accepts them, and such a policy protects nothing.
package simulated

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha512"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	amd "github.com/google/go-sev-guest/testing"

	"cvmstore/seal/attest"
)

// Files of a platform's directory.
const (
	RootsFile = "roots.pem" // ASK and ARK, as a policy names them
	certsFile = "certs"     // the certificate table
	chipFile  = "chip"      // the chip's ID
)

// Product is the product line that the platform says it is.
const Product = "Milan"

// TCB is the platform's, everywhere.
var TCB = kds.TCBParts{BlSpl: 3, TeeSpl: 0, SnpSpl: 8, UcodeSpl: 115}

// Offsets in a report (SNP ABI, Table 23) that the platform fills.
const (
	offVersion     = 0x000
	offPolicy      = 0x008
	offSigAlgo     = 0x034
	offCurrentTCB  = 0x038
	offSigner      = 0x048
	offReportData  = 0x050
	offMeasurement = 0x090
	offReportID    = 0x140
	offReportIDMA  = 0x160
	offReportedTCB = 0x180
	offChipID      = 0x1a0
	offCommitted   = 0x1e0
	offBuilds      = 0x1e8 // current build, minor, major, 0, committed build, minor, major, 0
	offLaunchTCB   = 0x1f0
)

// Platform is an attester.
type Platform struct {
	Measurement [48]byte
	// Change, if set, changes a report before it is signed. If that makes it one of a cloud's key, that key signs.
	Change func(report []byte)

	certs    []byte
	chip     [64]byte
	reportID [32]byte
}

// Create makes the directory of a platform: its certificates, and a chip ID.
func Create(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s, chip, err := Signer(time.Now().Add(-time.Hour), nil)
	if err != nil {
		return err
	}
	table, err := s.CertTableBytes()
	if err != nil {
		return err
	}
	var roots []byte
	for _, c := range [][]byte{s.Ask.Raw, s.Ark.Raw} {
		roots = append(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})...)
	}
	for name, content := range map[string][]byte{RootsFile: roots, certsFile: table, chipFile: chip[:]} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Signer makes a chain of certificates that was valid from a time on. change, if set, changes what it is built from.
func Signer(from time.Time, change func(*amd.AmdSignerBuilder)) (*amd.AmdSigner, [64]byte, error) {
	tcb, err := kds.ComposeTCBParts(TCB)
	if err != nil {
		return nil, [64]byte{}, err
	}
	b := &amd.AmdSignerBuilder{
		Keys: amd.DefaultAmdKeys(), ProductName: Product + "-B0", CSPID: "simulated", TCB: tcb,
		ArkCreationTime: from, AskCreationTime: from, AsvkCreationTime: from, VcekCreationTime: from, VlekCreationTime: from,
	}
	if _, err := rand.Read(b.HWID[:]); err != nil {
		return nil, b.HWID, err
	}
	if change != nil {
		change(b)
	}
	parts := kds.DecomposeTCBVersion(b.TCB)
	b.VcekCustom.Extensions = amd.CustomExtensions(parts, b.HWID[:], "", b.ProductName)
	b.VlekCustom.Extensions = amd.CustomExtensions(parts, nil, b.CSPID, b.ProductName)
	s, err := b.TestOnlyCertChain()
	return s, b.HWID, err
}

// Open reads a platform's directory. The measurement is the hash of the running program, so another program has another one.
func Open(dir string) (*Platform, error) {
	p := &Platform{}
	var err error
	if p.certs, err = os.ReadFile(filepath.Join(dir, certsFile)); err != nil {
		return nil, fmt.Errorf("simulated platform: %w", err)
	}
	chip, err := os.ReadFile(filepath.Join(dir, chipFile))
	if err != nil || len(chip) != len(p.chip) {
		return nil, errors.Join(fmt.Errorf("simulated platform %s: no chip ID of %d bytes", dir, len(p.chip)), err)
	}
	p.chip = [64]byte(chip)
	if p.Measurement, err = measureSelf(); err != nil {
		return nil, err
	}
	_, err = rand.Read(p.reportID[:])
	return p, err
}

// New is a platform of a signer, in memory.
func New(s *amd.AmdSigner, chip [64]byte) (*Platform, error) {
	p := &Platform{chip: chip}
	var err error
	p.certs, err = s.CertTableBytes()
	return p, err
}

func measureSelf() (m [48]byte, err error) {
	path, err := os.Executable()
	if err != nil {
		return m, err
	}
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha512.New384()
	if _, err := io.Copy(h, f); err != nil {
		return m, err
	}
	return [48]byte(h.Sum(nil)), nil
}

// Name implements attest.Attester.
func (*Platform) Name() string {
	return "a SIMULATED platform, whose signing keys are published: it proves nothing"
}

// Attest implements attest.Attester.
func (p *Platform) Attest(data [attest.DataSize]byte) (attest.Evidence, error) {
	r := make([]byte, abi.ReportSize)
	le := binary.LittleEndian
	le.PutUint32(r[offVersion:], 2)
	le.PutUint64(r[offPolicy:], abi.SnpPolicyToBytes(abi.SnpPolicy{ABIMajor: 1, ABIMinor: 51, SMT: true}))
	le.PutUint32(r[offSigAlgo:], 1) // ECDSA P-384 with SHA-384
	tcb, err := kds.ComposeTCBParts(TCB)
	if err != nil {
		return attest.Evidence{}, err
	}
	for _, off := range []int{offCurrentTCB, offReportedTCB, offCommitted, offLaunchTCB} {
		le.PutUint64(r[off:], uint64(tcb))
	}
	copy(r[offReportData:], data[:])
	copy(r[offMeasurement:], p.Measurement[:])
	copy(r[offReportID:], p.reportID[:])
	for i := range 32 {
		r[offReportIDMA+i] = 0xff // no migration agent
	}
	copy(r[offChipID:], p.chip[:])
	copy(r[offBuilds:], []byte{4, 53, 1, 0, 4, 53, 1, 0})
	if p.Change != nil {
		p.Change(r)
	}
	h := sha512.New384()
	h.Write(abi.SignedComponent(r))
	key := amd.DefaultVcek()
	if info, err := abi.ParseSignerInfo(le.Uint32(r[offSigner:])); err == nil && info.SigningKey == abi.VlekReportSigner {
		key = amd.DefaultVlek()
	}
	x, y, err := ecdsa.Sign(rand.Reader, key, h.Sum(nil))
	if err != nil {
		return attest.Evidence{}, err
	}
	if err := abi.SetSignature(x, y, r); err != nil {
		return attest.Evidence{}, err
	}
	return attest.Evidence{Kind: attest.KindSNP, Report: r, Certs: p.certs}, nil
}
