// Package cli is the command line of cvmstore: it reads flags and the configuration file, prepares the directory, opens the
// parts of the server and joins them, and turns what went wrong into a sentence that says what to do and an exit code. It
// holds no logic of the store itself. Main returns the exit code; only package main exits.
package cli
