// Package script runs the Lua scripts and functions of clients, with the libraries and the sandbox that Redis gives them.
//
// In comes source text, with keys and arguments; out go commands, one at a time, through the small interface Host, and in the end
// one reply. The package knows RESP replies, since a script sees those as Lua values, and nothing of keys, stores or devices.
//
// Scripts are hostile until they have ended: each instruction passes the hook (hook.go), which ends a script that was killed,
// or holds more memory than it may; functions that make long strings in one step are bounded by themselves. What every script
// shares (libraries, metatables) cannot be written to.
//
// An Engine is used by one goroutine at a time; the caller sees to that.
package script
