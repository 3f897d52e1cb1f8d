// Package kvs is the authenticated key-value store: Redis strings (and later the collections) on top of keyspace.
//
// What comes in: commands' arguments and a keyspace.Tx that holds the locks of their keys. What goes out: values, records of
// the volume, and errors in Redis' words. It knows neither RESP nor devices, and keeps no state of its own: everything is in
// the keyspace and on the volume.
//
// A function of this package is one command: it checks and reads, reserves its batch, then changes. An error means that
// nothing was changed; keyspace.ErrMiss asks the caller to fetch and run the command again (see package keyspace).
//
// Programs that embed the store use Store, which blocks and does all that by itself.
package kvs
