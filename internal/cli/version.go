package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"cvmstore/ioengine/aegis"
)

// Version is the released version; the build may set it with -ldflags "-X cvmstore/internal/cli.Version=...".
var Version = "0.1.0-dev"

type versionCommand struct{}

// Run prints the version and what it was built with.
func (versionCommand) Run(s *streams) error {
	_, err := fmt.Fprintf(s.out, "cvmstore %s%s\n%s %s/%s\naegis: %s\n",
		Version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH, aegis.Implementation())
	return err
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
