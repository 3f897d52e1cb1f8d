// Package wire is the language of the trusted counter service: requests, signed statements, owner's orders and receipts, as
// bytes. It does no I/O and keeps no state; service and client both use it, so that they cannot differ. docs/COUNTER.md tells
// the protocol in words.
//
// In come bytes from the network or from a file, hostile until a decoder here accepted them: fixed sizes, known versions,
// reserved bytes zero. Out go values of package epoch.
package wire
