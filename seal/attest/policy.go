package attest

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-sev-guest/kds"
	"github.com/google/go-sev-guest/verify/trust"
)

// Policy says which VMs are accepted. Every field must be given: where anything is fine, it says "any". A field that is left out
// is an error, because an empty field that checks nothing is how policies fail.
type Policy struct {
	SNP SNPPolicy
	dir string // relative paths start here
}

// SNPPolicy is the [sev-snp] table of a policy file. configs/policy.toml explains each field.
type SNPPolicy struct {
	Products        []string                         // product lines: Milan, Genoa (Turin lays out its TCB otherwise than the library reads it)
	Roots           map[string][]*trust.AMDRootCerts // by product line
	Signers         []string                         // vcek, vlek
	RevocationLists []*x509.RevocationList
	NoRevocation    bool // "any": no list is looked at

	Measurements Bytes
	HostData     Bytes
	ChipIDs      Bytes
	FamilyIDs    Bytes
	ImageIDs     Bytes
	IDKeys       Bytes // SHA-384 of the keys
	AuthorKeys   Bytes

	Debug, MigrationAgent, SMT bool // allowed
	CXL                        bool // allowed
	SingleSocket               bool // required
	CiphertextHiding           bool // required
	ABIMinimum                 [2]uint8
	VMPL                       uint32

	MinimumTCB, MinimumLaunchTCB kds.TCBParts
	MinimumBuild                 uint32
	MinimumFirmware              [2]uint32
	ProvisionalFirmware          bool // allowed: not yet committed, so it can be taken back
	MinimumGuestSVN              uint32
	MaskedChipKey                bool // allowed

	PlatformSMT  bool // the host may have SMT on
	PlatformTSME bool // transparent encryption of all host memory is required

	ClockSkew time.Duration // how far outside a certificate's dates our clock may be
}

// Bytes is a list of accepted values, or any.
type Bytes struct {
	Any    bool
	Values [][]byte
}

// has says whether b is accepted.
func (v Bytes) has(b []byte) bool {
	return v.Any || slices.ContainsFunc(v.Values, func(x []byte) bool { return string(x) == string(b) })
}

const anything = "any"

// ReadPolicy reads a policy file.
func ReadPolicy(path string) (*Policy, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	p, err := ParsePolicy(text, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	return p, nil
}

// ParsePolicy reads a policy's text; files that it names are relative to dir.
func ParsePolicy(text []byte, dir string) (*Policy, error) {
	var tables map[string]map[string]any
	if err := toml.Unmarshal(text, &tables); err != nil {
		return nil, err
	}
	p := &Policy{dir: dir}
	snp, ok := tables[string(KindSNP)]
	if !ok {
		return nil, fmt.Errorf("there is no table [%s]", KindSNP)
	}
	r := &fields{table: snp, dir: dir}
	r.snp(&p.SNP)
	for name := range tables {
		if name != string(KindSNP) {
			r.fail(name, errors.New("no such table"))
		}
	}
	for name := range snp {
		if !slices.Contains(r.read, name) {
			r.fail(name, errors.New("no such field"))
		}
	}
	return p, errors.Join(r.errs...)
}

func (r *fields) snp(p *SNPPolicy) {
	p.Products = r.words("products", "Milan", "Genoa")
	p.Signers = r.words("signers", "vcek", "vlek")
	p.Roots = r.roots("roots", p.Products)
	p.RevocationLists, p.NoRevocation = r.revocations("revocation_lists")
	p.Measurements = r.bytes("measurements", 48)
	p.HostData = r.bytes("host_data", 32)
	p.ChipIDs = r.bytes("chip_ids", 64)
	p.FamilyIDs = r.bytes("family_ids", 16)
	p.ImageIDs = r.bytes("image_ids", 16)
	p.IDKeys = r.bytes("id_keys", 48)
	p.AuthorKeys = r.bytes("author_keys", 48)
	p.Debug = r.bool("debug_allowed")
	p.MigrationAgent = r.bool("migration_agent_allowed")
	p.SMT = r.bool("smt_allowed")
	p.CXL = r.bool("cxl_allowed")
	p.SingleSocket = r.bool("single_socket_required")
	p.CiphertextHiding = r.bool("ciphertext_hiding_required")
	p.ABIMinimum = [2]uint8(r.pair("minimum_abi"))
	p.VMPL = uint32(r.number("vmpl", 3))
	p.MinimumTCB = r.tcb("minimum_tcb")
	p.MinimumLaunchTCB = r.tcb("minimum_launch_tcb")
	p.MinimumBuild = uint32(r.number("minimum_build", 255))
	fw := r.pair("minimum_firmware")
	p.MinimumFirmware = [2]uint32{uint32(fw[0]), uint32(fw[1])}
	p.ProvisionalFirmware = r.bool("provisional_firmware_allowed")
	p.MinimumGuestSVN = uint32(r.number("minimum_guest_svn", 1<<31))
	p.MaskedChipKey = r.bool("masked_chip_key_allowed")
	p.PlatformSMT = r.bool("platform_smt_allowed")
	p.PlatformTSME = r.bool("platform_tsme_required")
	p.ClockSkew = r.duration("clock_skew", 24*time.Hour)
}

// fields reads a table, and keeps what is wrong with it.
type fields struct {
	table map[string]any
	dir   string
	read  []string
	errs  []error
}

func (r *fields) fail(name string, err error) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w", name, err))
}

func (r *fields) get(name string) (any, bool) {
	r.read = append(r.read, name)
	v, ok := r.table[name]
	if !ok {
		r.fail(name, errors.New(`it is missing; each field must be given, if need be as "any"`))
	}
	return v, ok
}

func (r *fields) bool(name string) bool {
	v, ok := r.get(name)
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		r.fail(name, errors.New("not true or false"))
	}
	return b
}

func (r *fields) number(name string, most int64) int64 {
	v, ok := r.get(name)
	if !ok || v == anything {
		return 0
	}
	n, ok := v.(int64)
	if !ok || n < 0 || n > most {
		r.fail(name, fmt.Errorf("not a number from 0 to %d", most))
		return 0
	}
	return n
}

// list returns the words of a field: one string, or several.
func (r *fields) list(name string) []string {
	v, ok := r.get(name)
	if !ok {
		return nil
	}
	var words []string
	switch v := v.(type) {
	case string:
		words = []string{v}
	case []any:
		for _, x := range v {
			s, _ := x.(string)
			words = append(words, s)
		}
	}
	if len(words) == 0 || slices.Contains(words, "") {
		r.fail(name, errors.New(`empty, or not a list of strings; write "any" if that is meant`))
		return nil
	}
	return words
}

func (r *fields) words(name string, known ...string) []string {
	words := r.list(name)
	if slices.Equal(words, []string{anything}) {
		return known
	}
	for _, w := range words {
		if !slices.Contains(known, w) {
			r.fail(name, fmt.Errorf("%q is none of %s", w, strings.Join(known, ", ")))
		}
	}
	return words
}

func (r *fields) bytes(name string, size int) (v Bytes) {
	words := r.list(name)
	if slices.Equal(words, []string{anything}) {
		return Bytes{Any: true}
	}
	for _, w := range words {
		b, err := hex.DecodeString(w)
		if err != nil || len(b) != size {
			r.fail(name, fmt.Errorf("a value is not %d bytes in hexadecimal", size))
			continue
		}
		v.Values = append(v.Values, b)
	}
	return v
}

func (r *fields) pair(name string) (p [2]uint8) {
	v, ok := r.get(name)
	if !ok || v == anything {
		return p
	}
	s, _ := v.(string)
	if n, err := fmt.Sscanf(s, "%d.%d", &p[0], &p[1]); n != 2 || err != nil || fmt.Sprintf("%d.%d", p[0], p[1]) != s {
		r.fail(name, errors.New(`not of the form "1.55"`))
	}
	return p
}

func (r *fields) tcb(name string) (t kds.TCBParts) {
	v, ok := r.get(name)
	if !ok || v == anything {
		return t
	}
	parts, _ := v.(map[string]any)
	for part, at := range map[string]*uint8{"bootloader": &t.BlSpl, "tee": &t.TeeSpl, "snp": &t.SnpSpl, "microcode": &t.UcodeSpl} {
		n, ok := parts[part].(int64)
		if !ok || n < 0 || n > 255 {
			r.fail(name, fmt.Errorf("%s is missing or not from 0 to 255", part))
		}
		*at = uint8(n)
	}
	if len(parts) > 4 {
		r.fail(name, errors.New("it has more than bootloader, tee, snp, microcode"))
	}
	return t
}

func (r *fields) duration(name string, most time.Duration) time.Duration {
	words := r.list(name)
	if len(words) != 1 {
		return 0
	}
	d, err := time.ParseDuration(words[0])
	if err != nil || d < 0 || d > most {
		r.fail(name, fmt.Errorf("not a duration from 0s to %v", most))
	}
	return d
}

// file reads a file that a policy names.
func (r *fields) file(name, path string) []byte {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		r.fail(name, err)
	}
	return b
}

// roots reads the processor vendor's certificates of each product line: "amd" for those that the library has, else a table with a
// PEM file, or several, a product line; each has ASK (or ASVK) first and ARK second, as the vendor's server gives them.
func (r *fields) roots(name string, products []string) map[string][]*trust.AMDRootCerts {
	v, ok := r.get(name)
	if !ok {
		return nil
	}
	roots := map[string][]*trust.AMDRootCerts{}
	add := func(line string, pemBytes []byte) {
		certs := trust.AMDRootCertsProduct(line)
		err := certs.FromKDSCertBytes(pemBytes)
		if err == nil && certs.ProductCerts.Ark == nil {
			err = errors.New("no ARK")
		}
		if err != nil {
			r.fail(name, fmt.Errorf("product line %s: %w", line, err))
			return
		}
		roots[line] = append(roots[line], certs)
	}
	switch v := v.(type) {
	case map[string]any:
		for line, files := range v {
			for _, path := range (&fields{table: map[string]any{name: files}}).list(name) {
				add(line, r.file(name, path))
			}
		}
	case string:
		if v == "amd" {
			add("Milan", trust.AskArkMilanVcekBytes)
			add("Milan", trust.AskArkMilanVlekBytes)
			add("Genoa", trust.AskArkGenoaVcekBytes)
			add("Genoa", trust.AskArkGenoaVlekBytes)
		}
	}
	for _, line := range products {
		if len(roots[line]) == 0 {
			r.fail(name, fmt.Errorf("no certificates for product line %s", line))
		}
	}
	return roots
}

func (r *fields) revocations(name string) (list []*x509.RevocationList, any bool) {
	words := r.list(name)
	if slices.Equal(words, []string{anything}) {
		return nil, true
	}
	for _, w := range words {
		text := r.file(name, w)
		if block, _ := pem.Decode(text); block != nil {
			text = block.Bytes
		}
		crl, err := x509.ParseRevocationList(text)
		if err != nil {
			r.fail(name, err)
			continue
		}
		list = append(list, crl)
	}
	return list, false
}
