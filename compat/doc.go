// Package compat holds no code, only tests of the server with other people's client libraries.
package compat
