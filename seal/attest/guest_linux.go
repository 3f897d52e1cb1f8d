package attest

import (
	"fmt"
	"os"

	"github.com/google/go-sev-guest/abi"
	sev "github.com/google/go-sev-guest/client"
	tdx "github.com/google/go-tdx-guest/client"
)

// Where the kernel offers reports.
const (
	configfsTSM = "/sys/kernel/config/tsm/report"
	sevGuest    = "/dev/sev-guest"
	tdxGuest    = "/dev/tdx_guest"
)

// Guest returns this VM's attester: SEV-SNP through configfs-tsm, else through /dev/sev-guest; else TDX. certs names a file with
// the certificate table that goes with an SNP report where the host gives none; empty: none. ErrUnsupported says what was
// looked for.
func Guest(certs string) (Attester, error) {
	if p, err := sev.GetQuoteProvider(); err == nil && p.IsSupported() {
		return &snpGuest{provider: p, certs: certs}, nil
	}
	if _, err := os.Stat(tdxGuest); err == nil {
		p, err := tdx.GetQuoteProvider()
		if err == nil {
			err = p.IsSupported()
		}
		if err != nil {
			return nil, fmt.Errorf("%s is there, but %s gives no quotes: %w", tdxGuest, configfsTSM, err)
		}
		return &tdxGuestDevice{provider: p}, nil
	}
	return nil, fmt.Errorf("%w: looked for %s (Linux 6.7 and later, with configfs mounted), %s (the driver sev-guest) and %s; "+
		"is this a confidential VM, and are its kernel's drivers loaded?", ErrUnsupported, configfsTSM, sevGuest, tdxGuest)
}

type snpGuest struct {
	provider sev.QuoteProvider
	certs    string
}

func (*snpGuest) Name() string { return "AMD SEV-SNP" }

func (g *snpGuest) Attest(data [DataSize]byte) (Evidence, error) {
	raw, err := g.provider.GetRawQuote(data)
	if err != nil {
		return Evidence{}, fmt.Errorf("SEV-SNP report: %w", err)
	}
	if len(raw) < abi.ReportSize {
		return Evidence{}, fmt.Errorf("SEV-SNP report: %d bytes, want %d", len(raw), abi.ReportSize)
	}
	e := Evidence{Kind: KindSNP, Report: raw[:abi.ReportSize], Certs: raw[abi.ReportSize:]}
	if g.certs != "" {
		if e.Certs, err = os.ReadFile(g.certs); err != nil {
			return Evidence{}, fmt.Errorf("certificates of the SEV-SNP report: %w", err)
		}
	}
	return e, nil
}

type tdxGuestDevice struct {
	provider *tdx.LinuxConfigFsQuoteProvider
}

func (*tdxGuestDevice) Name() string { return "Intel TDX" }

func (g *tdxGuestDevice) Attest(data [DataSize]byte) (Evidence, error) {
	raw, err := g.provider.GetRawQuote(data)
	if err != nil {
		return Evidence{}, fmt.Errorf("TDX quote: %w", err)
	}
	return Evidence{Kind: KindTDX, Report: raw}, nil
}
