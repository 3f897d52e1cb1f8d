// Package resp is the Redis-protocol front end: event loops on epoll, a bounded resumable parser, sessions as state machines,
// and reply queues that let a reply leave when everything it saw has reached the level of its connection (DESIGN.md 4.1, 4.3).
//
// In come bytes from sockets; out go bytes to sockets. One loop runs to completion: read sockets, parse, execute
// (resp/command), volume.Step once, release replies by watermark, write sockets. There is no goroutine a connection and no hop
// between threads on the way of a command. The package knows keyspace and volume through their exported API only and may not
// touch devices, keys or formats.
package resp
