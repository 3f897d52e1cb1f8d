package attest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	"github.com/google/go-sev-guest/validate"
)

// vmplHost is what the field says when the host asked for the report, and not the guest (SNP ABI, Table 23).
const vmplHost = 0xffffffff

// snpChecks are all that a report must fulfil, in this order: first whose it is, then whether the processor signed it, then each
// field against the policy.
var snpChecks = []check{
	{"report data", func(s *subject) error {
		if !bytes.Equal(s.r.GetReportData(), s.want[:]) {
			return errors.New("it binds another nonce, purpose, connection or key: a replay, or a relay of another VM's report")
		}
		return nil
	}, func(o *validate.Options) { o.ReportData = nil }},
	{"product", func(s *subject) error {
		return unless(slices.Contains(s.p.Products, s.product), "product line %q is none of %v", s.product, s.p.Products)
	}, nil},
	{"signer", func(s *subject) error {
		name := map[abi.ReportSigner]string{abi.VcekReportSigner: "vcek", abi.VlekReportSigner: "vlek"}[s.signer.SigningKey]
		return unless(slices.Contains(s.p.Signers, name), "signed by %s, want one of %v", s.signer.SigningKey, s.p.Signers)
	}, nil},
	{"masked chip key", func(s *subject) error {
		return unless(s.p.MaskedChipKey || !s.signer.MaskChipKey, "the host masks the chip's key")
	}, nil},
	{"chain", (*subject).chain, nil},
	{"revocation", (*subject).revoked, nil},
	{"measurement", func(s *subject) error {
		return s.p.Measurements.check(s.r.GetMeasurement(), "this is another program, or another command line, than those that the policy knows")
	}, nil},
	{"debug", func(s *subject) error {
		return unless(s.p.Debug || !s.policy.Debug, "the host may read this VM's memory")
	}, func(o *validate.Options) { o.GuestPolicy.Debug = true }},
	{"migration agent", func(s *subject) error {
		return unless(s.p.MigrationAgent || !s.policy.MigrateMA, "a migration agent may copy this VM, with all its memory")
	}, func(o *validate.Options) { o.GuestPolicy.MigrateMA = true }},
	{"SMT", func(s *subject) error {
		return unless(s.p.SMT || !s.policy.SMT, "the guest policy allows SMT")
	}, func(o *validate.Options) { o.GuestPolicy.SMT = true }},
	{"CXL", func(s *subject) error {
		return unless(s.p.CXL || !s.policy.CXLAllowed, "the guest policy allows CXL memory")
	}, func(o *validate.Options) { o.GuestPolicy.CXLAllowed = true }},
	{"single socket", func(s *subject) error {
		return unless(!s.p.SingleSocket || s.policy.SingleSocket, "the guest policy allows several sockets")
	}, func(o *validate.Options) { o.GuestPolicy.SingleSocket = false }},
	{"ciphertext hiding", func(s *subject) error {
		return unless(!s.p.CiphertextHiding || s.policy.CipherTextHidingDRAM, "the guest policy does not ask for hidden ciphertext")
	}, func(o *validate.Options) { o.GuestPolicy.CipherTextHidingDRAM = false }},
	{"ABI", func(s *subject) error {
		got, least := [2]uint8{s.policy.ABIMajor, s.policy.ABIMinor}, s.p.ABIMinimum
		return unless(got[0] > least[0] || got[0] == least[0] && got[1] >= least[1], "the guest policy accepts ABI %d.%d, want at least %d.%d", got[0], got[1], least[0], least[1])
	}, func(o *validate.Options) { o.GuestPolicy.ABIMajor, o.GuestPolicy.ABIMinor = 0, 0 }},
	{"host request", func(s *subject) error {
		return unless(s.r.GetVmpl() != vmplHost, "the host asked for this report, not the guest")
	}, func(o *validate.Options) { o.VMPL = nil }},
	{"VMPL", func(s *subject) error {
		return unless(s.r.GetVmpl() == s.p.VMPL || s.r.GetVmpl() == vmplHost, "privilege level %d, want %d", s.r.GetVmpl(), s.p.VMPL)
	}, func(o *validate.Options) { o.VMPL = nil }},
	{
		"TCB", func(s *subject) error { return atLeast("reported", s.r.GetReportedTcb(), s.p.MinimumTCB) },
		func(o *validate.Options) { o.MinimumTCB = kds.TCBParts{} },
	},
	{
		"launch TCB", func(s *subject) error { return atLeast("launch", s.r.GetLaunchTcb(), s.p.MinimumLaunchTCB) },
		func(o *validate.Options) { o.MinimumLaunchTCB = kds.TCBParts{} },
	},
	{"firmware build", func(s *subject) error {
		return unless(s.r.GetCurrentBuild() >= s.p.MinimumBuild, "firmware build %d, want at least %d", s.r.GetCurrentBuild(), s.p.MinimumBuild)
	}, func(o *validate.Options) { o.MinimumBuild = 0 }},
	{"firmware version", func(s *subject) error {
		major, minor, least := s.r.GetCurrentMajor(), s.r.GetCurrentMinor(), s.p.MinimumFirmware
		return unless(major > least[0] || major == least[0] && minor >= least[1], "firmware %d.%d, want at least %d.%d", major, minor, least[0], least[1])
	}, func(o *validate.Options) { o.MinimumVersion = 0 }},
	{"provisional firmware", func(s *subject) error {
		r := s.r
		committed := r.GetCommittedTcb() == r.GetCurrentTcb() && r.GetCommittedBuild() == r.GetCurrentBuild() &&
			r.GetCommittedMajor() == r.GetCurrentMajor() && r.GetCommittedMinor() == r.GetCurrentMinor()
		return unless(s.p.ProvisionalFirmware || committed, "the firmware is not committed: the host can go back to an older one")
	}, func(o *validate.Options) { o.PermitProvisionalFirmware = true }},
	{"guest SVN", func(s *subject) error {
		return unless(s.r.GetGuestSvn() >= s.p.MinimumGuestSVN, "guest security version %d, want at least %d", s.r.GetGuestSvn(), s.p.MinimumGuestSVN)
	}, func(o *validate.Options) { o.MinimumGuestSvn = 0 }},
	{"chip", func(s *subject) error { return s.p.ChipIDs.check(s.r.GetChipId(), "another machine") }, nil},
	{"host data", func(s *subject) error {
		return s.p.HostData.check(s.r.GetHostData(), "the host started it with other data")
	}, nil},
	{"family", func(s *subject) error { return s.p.FamilyIDs.check(s.r.GetFamilyId(), "another family") }, nil},
	{"image", func(s *subject) error { return s.p.ImageIDs.check(s.r.GetImageId(), "another image") }, nil},
	{"ID key", func(s *subject) error {
		return s.p.IDKeys.check(s.r.GetIdKeyDigest(), "its ID block is signed by another key, or by none")
	}, nil},
	{"author key", func(s *subject) error {
		if !s.p.AuthorKeys.Any && !s.signer.AuthorKeyEn {
			return errors.New("it has no author key")
		}
		return s.p.AuthorKeys.check(s.r.GetAuthorKeyDigest(), "another author key")
	}, nil},
	{"platform SMT", func(s *subject) error {
		return unless(s.p.PlatformSMT || !s.platform.SMTEnabled, "the host has SMT on")
	}, nil},
	{"platform TSME", func(s *subject) error {
		return unless(!s.p.PlatformTSME || s.platform.TSMEEnabled, "the host does not encrypt all its memory")
	}, nil},
}

func unless(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func (v Bytes) check(got []byte, means string) error {
	return unless(v.has(got), "%x is not in the policy: %s", got, means)
}

func atLeast(what string, got uint64, least kds.TCBParts) error {
	parts := kds.DecomposeTCBVersion(kds.TCBVersion(got))
	return unless(kds.TCBPartsLE(least, parts), "%s TCB bootloader %d tee %d snp %d microcode %d, want at least %d %d %d %d",
		what, parts.BlSpl, parts.TeeSpl, parts.SnpSpl, parts.UcodeSpl, least.BlSpl, least.TeeSpl, least.SnpSpl, least.UcodeSpl)
}
