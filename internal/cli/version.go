package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/cpu"

	"cvmstore/ioengine/aegis"
)

// Version is the released version; the build may set it with -ldflags "-X cvmstore/internal/cli.Version=...".
var Version = "0.1.0-dev"

type versionCommand struct {
	SBOM bool `name:"sbom" help:"Print what the program is made of, as CycloneDX JSON."`
}

// Run prints the version, what it was built with, and what of this processor it uses.
func (v *versionCommand) Run(s *streams) error {
	if v.SBOM {
		return writeSBOM(s)
	}
	_, err := fmt.Fprintf(s.out, "cvmstore %s%s\n%s %s/%s\naegis: %s\nprocessor: %s\n",
		Version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH, aegis.Implementation(), strings.Join(features(), " "))
	return err
}

// features lists what of the processor matters here.
func features() (list []string) {
	for _, f := range []struct {
		name string
		on   bool
	}{
		{"aes", cpu.X86.HasAES || cpu.ARM64.HasAES},
		{"pclmulqdq", cpu.X86.HasPCLMULQDQ},
		{"avx2", cpu.X86.HasAVX2},
		{"avx512f", cpu.X86.HasAVX512F},
		{"vaes", cpu.X86.HasAVX512VAES},
		{"rdseed", cpu.X86.HasRDSEED},
		{"rdrand", cpu.X86.HasRDRAND},
		{"sha2", cpu.ARM64.HasSHA2},
	} {
		if f.on {
			list = append(list, f.name)
		}
	}
	if len(list) == 0 {
		list = []string{"none of aes, avx2, avx512, vaes: sealing is slow"}
	}
	return list
}

// writeSBOM lists the modules that the build recorded.
func writeSBOM(s *streams) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("the build recorded no modules")
	}
	type component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
		Hashes  []any  `json:"hashes,omitempty"`
	}
	list := []component{{Type: "platform", Name: "go", Version: info.GoVersion, PURL: "pkg:generic/go@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
		list = append(list, c)
	}
	e := json.NewEncoder(s.out)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":   map[string]any{"component": component{Type: "application", Name: "cvmstore", Version: Version, PURL: "pkg:golang/cvmstore@" + Version}},
		"components": list,
	})
}

// revision is the source revision, if the build recorded it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	text := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			text = " (" + s.Value[:12] + ")" + text
		case s.Key == "vcs.modified" && s.Value == "true":
			text += " with local changes"
		}
	}
	return text
}
