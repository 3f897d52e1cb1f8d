//go:build !linux

package cli

func machine() []finding {
	return []finding{{"system", false, "not Linux", "The server runs on Linux only."}}
}
