package attest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"cvmstore/seal/attest"
)

func policyText(fields map[string]string) []byte {
	var text strings.Builder
	fmt.Fprintln(&text, "[sev-snp]")
	for field, value := range fields {
		fmt.Fprintf(&text, "%s = %s\n", field, value)
	}
	return []byte(text.String())
}

func amdPolicy() map[string]string {
	fields := accepted().policy
	fields["roots"] = `"amd"`
	return fields
}

func TestEveryFieldOfAPolicyMustBeGiven(t *testing.T) {
	if _, err := attest.ParsePolicy(policyText(amdPolicy()), ""); err != nil {
		t.Fatal(err)
	}
	for field := range amdPolicy() {
		fields := amdPolicy()
		delete(fields, field)
		if _, err := attest.ParsePolicy(policyText(fields), ""); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("a policy without %s: %v", field, err)
		}
		for _, empty := range []string{`""`, `[]`, `[""]`, `{}`} {
			fields[field] = empty
			if _, err := attest.ParsePolicy(policyText(fields), ""); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("a policy with %s = %s: %v", field, empty, err)
			}
		}
	}
	fields := amdPolicy()
	fields["measurement"] = hexes(48, 1)
	if _, err := attest.ParsePolicy(policyText(fields), ""); err == nil {
		t.Error("a field that does not exist is accepted")
	}
}

func TestTheExamplePolicyIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../configs/policy.toml")
	if err != nil {
		t.Fatal(err)
	}
	example := strings.ReplaceAll(string(text), `["milan.crl", "genoa.crl"]`, `"any"`) // the files are the user's
	if example == string(text) {
		t.Fatal("the example names no revocation lists")
	}
	if _, err := attest.ParsePolicy([]byte(example), ""); err != nil {
		t.Error(err)
	}
}

func FuzzEvidence(f *testing.F) {
	w := accepted()
	policy, err := attest.ParsePolicy(policyText(amdPolicy()), "")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(make([]byte, 1184), []byte{})
	f.Add([]byte(strings.Repeat("\x02\x00\x00\x00", 296)), make([]byte, 24))
	v := attest.Verifier{Policy: policy}
	_ = w
	f.Fuzz(func(t *testing.T, report, certs []byte) {
		if _, err := v.Verify(&attest.Evidence{Kind: attest.KindSNP, Report: report, Certs: certs}, &attest.Binding{Purpose: "x"}); err == nil {
			t.Fatal("accepted without a signature by AMD")
		}
	})
}
