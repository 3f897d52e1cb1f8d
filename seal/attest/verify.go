package attest

import (
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	spb "github.com/google/go-sev-guest/proto/sevsnp"
	"github.com/google/go-sev-guest/validate"
	"github.com/google/go-sev-guest/verify"
)

// Verifier accepts or refuses evidence by a policy.
type Verifier struct {
	Policy *Policy
	Now    func() time.Time // nil: the wall clock
	skip   string           // tests: the check that is left out
}

// Facts is what a verifier learned of a VM that it accepted.
type Facts struct {
	Kind        Kind
	Product     string
	Measurement []byte
	ChipID      []byte // zero where the host masks it
	ReportID    []byte // of this VM's life
	TCB         uint64
}

// subject is one piece of evidence under examination.
type subject struct {
	p    *SNPPolicy
	now  time.Time
	want [DataSize]byte
	att  *spb.Attestation
	r    *spb.Report

	policy   abi.SnpPolicy
	platform abi.SnpPlatformInfo
	signer   abi.SignerInfo
	product  string
	ek       *x509.Certificate // the chip's or the cloud's signing key: verified by the check "chain"
}

// check is one thing that evidence must fulfil. relax says what the library's validation is told when a check is left out.
type check struct {
	name  string
	holds func(s *subject) error
	relax func(o *validate.Options)
}

// Verify accepts evidence that binds b and fulfils the policy, or says why not (a *Refusal).
func (v *Verifier) Verify(e *Evidence, b *Binding) (*Facts, error) {
	refuse := func(check string, err error) (*Facts, error) { return nil, &Refusal{check, err} }
	if e.Kind != KindSNP {
		return refuse("kind", fmt.Errorf("evidence of kind %q; this policy is for %s", e.Kind, KindSNP))
	}
	now := time.Now
	if v.Now != nil {
		now = v.Now
	}
	s, err := open(e)
	if err != nil {
		return refuse("format", err)
	}
	s.p, s.now, s.want = &v.Policy.SNP, now(), b.Data()
	for i := range snpChecks {
		c := &snpChecks[i]
		if c.name == v.skip {
			continue
		}
		if err := c.holds(s); err != nil {
			return refuse(c.name, err)
		}
	}
	if v.skip != "consistency" {
		if err := v.library(s); err != nil {
			return refuse("consistency", err)
		}
	}
	return &Facts{
		Kind: KindSNP, Product: s.product, Measurement: s.r.GetMeasurement(), ChipID: s.r.GetChipId(),
		ReportID: s.r.GetReportId(), TCB: s.r.GetReportedTcb(),
	}, nil
}

// open decodes evidence. Lengths are exact: what follows a report is not ours.
func open(e *Evidence) (*subject, error) {
	if len(e.Report) != abi.ReportSize || len(e.Certs) > evidenceMax {
		return nil, fmt.Errorf("a report of %d bytes and certificates of %d, want %d and at most %d", len(e.Report), len(e.Certs), abi.ReportSize, evidenceMax)
	}
	if err := abi.ValidateReportFormat(e.Report); err != nil {
		return nil, err
	}
	r, err := abi.ReportToProto(e.Report)
	if err != nil {
		return nil, err
	}
	table := new(abi.CertTable)
	if err := table.Unmarshal(e.Certs); err != nil {
		return nil, fmt.Errorf("certificate table: %w", err)
	}
	s := &subject{r: r, att: &spb.Attestation{Report: r, CertificateChain: table.Proto()}}
	if s.policy, err = abi.ParseSnpPolicy(r.GetPolicy()); err != nil {
		return nil, err
	}
	if s.platform, err = abi.ParseSnpPlatformInfo(r.GetPlatformInfo()); err != nil {
		return nil, err
	}
	if s.signer, err = abi.ParseSignerInfo(r.GetSignerInfo()); err != nil {
		return nil, err
	}
	der := s.att.CertificateChain.GetVcekCert()
	if s.signer.SigningKey == abi.VlekReportSigner {
		der = s.att.CertificateChain.GetVlekCert()
	}
	if s.ek, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("the certificate of the signing key: %w", err)
	}
	ext, err := kds.CertificateExtensions(s.ek, s.signer.SigningKey)
	if err != nil {
		return nil, fmt.Errorf("the certificate of the signing key: %w", err)
	}
	s.product = kds.ProductLineOfProductName(ext.ProductName)
	if fms := r.GetCpuid1EaxFms(); fms != 0 { // version 3 says it itself, under the signature
		s.product = kds.ProductLineFromFms(fms)
	}
	return s, nil
}

// library runs the library's own validation with all of the policy: it also holds a report's parts against each other, and the
// certificate's TCB against the report's.
func (v *Verifier) library(s *subject) error {
	p := s.p
	vmpl := int(p.VMPL)
	o := &validate.Options{
		GuestPolicy: abi.SnpPolicy{
			ABIMajor: p.ABIMinimum[0], ABIMinor: p.ABIMinimum[1], Debug: p.Debug, MigrateMA: p.MigrationAgent, SMT: p.SMT,
			CXLAllowed: p.CXL, SingleSocket: p.SingleSocket, CipherTextHidingDRAM: p.CiphertextHiding,
		},
		MinimumGuestSvn: p.MinimumGuestSVN, ReportData: s.want[:], VMPL: &vmpl,
		MinimumBuild: uint8(p.MinimumBuild), MinimumVersion: uint16(p.MinimumFirmware[0]<<8 | p.MinimumFirmware[1]),
		MinimumTCB: p.MinimumTCB, MinimumLaunchTCB: p.MinimumLaunchTCB, PermitProvisionalFirmware: p.ProvisionalFirmware,
	}
	for i := range snpChecks {
		if c := &snpChecks[i]; c.name == v.skip && c.relax != nil {
			c.relax(o)
		}
	}
	return validate.SnpAttestation(s.att, o)
}

// chain verifies the processor's signature and its key's certificates up to the policy's root.
func (s *subject) chain() error {
	product, err := kds.ParseProductLine(s.product)
	if err != nil {
		return err
	}
	now := s.now
	for _, c := range s.certificates() {
		now = within(now, c, s.p.ClockSkew)
	}
	return verify.SnpAttestation(s.att, &verify.Options{
		DisableCertFetching: true, Now: now, TrustedRoots: s.p.Roots, Product: product,
	})
}

// certificates are the chain's: the signing key's, and those of the policy above it.
func (s *subject) certificates() []*x509.Certificate {
	list := []*x509.Certificate{s.ek}
	for _, r := range s.p.Roots[s.product] {
		for _, c := range []*x509.Certificate{r.ProductCerts.Ask, r.ProductCerts.Asvk, r.ProductCerts.Ark} {
			if c != nil {
				list = append(list, c)
			}
		}
	}
	return list
}

// within moves a time into a certificate's dates, if our clock's skew may explain that it is not there.
func within(now time.Time, c *x509.Certificate, skew time.Duration) time.Time {
	if d := c.NotBefore.Sub(now); d > 0 && d <= skew {
		return c.NotBefore
	}
	if d := now.Sub(c.NotAfter); d > 0 && d <= skew {
		return c.NotAfter
	}
	return now
}

// revoked looks for the certificates in the policy's lists, which must be signed by the policy's root and not be out of date.
func (s *subject) revoked() error {
	if s.p.NoRevocation {
		return nil
	}
	root := s.p.Roots[s.product]
	if len(root) == 0 {
		return fmt.Errorf("no root for product line %s", s.product)
	}
	usable := 0
	for _, list := range s.p.RevocationLists {
		if list.CheckSignatureFrom(root[0].ProductCerts.Ark) != nil {
			continue // another product line's
		}
		usable++
		if !list.NextUpdate.IsZero() && s.now.After(list.NextUpdate.Add(s.p.ClockSkew)) {
			return fmt.Errorf("the revocation list is out of date since %v: fetch a new one", list.NextUpdate)
		}
		for _, entry := range list.RevokedCertificateEntries {
			if c := s.named(entry.SerialNumber); c != nil {
				return fmt.Errorf("%s is revoked since %v", c.Subject.CommonName, entry.RevocationTime)
			}
		}
	}
	if usable == 0 {
		return errors.New("none of the revocation lists is signed by the root")
	}
	return nil
}

// named returns the certificate of the chain that has this serial number, or nil. AMD gives all its chips' certificates the
// number 0 and revokes them by their intermediate.
func (s *subject) named(serial *big.Int) *x509.Certificate {
	for _, c := range s.certificates() {
		if serial.Cmp(c.SerialNumber) == 0 && serial.Sign() > 0 {
			return c
		}
	}
	return nil
}
