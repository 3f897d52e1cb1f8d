// Package command holds the command table, the one source of what this server answers to (name, arity, flags, categories, keys,
// help), and the handlers, one file a command family.
//
// In come the arguments of one command and the session that sent it (Ctx); out go reply bytes, changes of the session, and an
// error for what could not be done. Handlers run on an event loop: they never block, and a command that must wait says so with
// an error that makes the loop park the session and run the whole command again. The package knows keyspace and kvs, and of
// the server only the small interface Server.
package command
