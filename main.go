// Command cvmstore is a Redis-protocol server on an authenticated, rollback-proof volume. See README.md.
package main

import (
	"os"

	"cvmstore/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
}
