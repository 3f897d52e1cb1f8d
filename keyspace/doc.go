// Package keyspace knows which key is what: type, expiry, database, place of its record, version. It holds the index of all
// databases in memory, takes the locks of a command's keys, and turns each change into a record of the volume, an element
// of the multiset hash and a counter that replies wait for (DESIGN.md 4.3, 4.7, 6.4 and section 7).
//
// What comes in: keys as bytes, from resp or from a program that embeds kvs; at recovery, the records that volume replays.
// What goes out: records to volume, and to the caller the values that are cached, the fetches that it still has to make, and
// the counter that its reply depends on. It does no I/O, starts no goroutine, and knows neither RESP nor devices.
//
// # One command
//
//	var t keyspace.Tx                                  // one a session, reused
//	space.Begin(&t, db, keys)                          // or BeginAll, or space.Scan, which locks for itself
//	val, ok, err := kvs.Get(&t, key)                   // checks, reads, Reserve, changes; or t.Expire, t.Del, ...
//	... copy what the reply needs ...                  // values are valid until End
//	t.End()
//	seen := t.Seen()                                   // the reply leaves when volume.Reached(seen, level)
//
// Errors of a command, all of them with nothing changed:
//   - ErrMiss: fetch all t.Misses(), Supply each, and run the command again from Begin on.
//   - volume.ErrBusy (wrapped): run it again after the next Step.
//   - ErrWrongType, and kvs' errors whose text begins with "ERR " or "OOM ": the text is the reply. It depends on Seen.
//   - anything else (volume.ErrFull, ErrFenced, ErrFailed, ErrCorrupt, wrapped): the caller words the reply.
//
// A command that found a key expired has appended its delete before it returns, whatever it returns: running it again is
// harmless.
//
// # Structure
//
// Keys are spread by a seeded 64-bit hash over 256 stripes (its top 8 bits). A stripe has one lock, for its part of every
// database, and one ring of cached values. A stripe's part of a database is an extendible-hash directory of shards: small
// open-addressing tables that split one at a time, so no insertion pays for a long rehash. A shard holds its entries and
// keys in slices without pointers, which the garbage collector does not look into.
//
// Lock order: stripes in ascending order, then volume's append lock (Reserve to End). A table's sum and counts are changed
// with both held, so whoever holds all stripes reads them.
package keyspace
