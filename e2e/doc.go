// Package e2e holds no code, only tests that build the program and use it as people do: from outside, over its port, with
// signals and with its files.
package e2e
