// Package streams is the authenticated shared log: Redis streams, on a keyspace and its sealed volume.
//
// In come commands under the locks of their keys (keyspace.Tx) and, at recovery, records in any order. Out go records: an entry
// is one record, chained to the entry before it by that one's counter; a header holds what entries do not say (what was trimmed,
// the last ID, the numbers); a gap says which entries were deleted from the middle; groups, consumers and pending entries have
// a record each. What is in memory is a packed index (a few bytes an entry), gaps, and the state of groups; fields and values
// stay on the device, the newest ones in a cache as well.
//
// A missing entry, one that was moved, an older one or another stream's shows when a volume is opened and when an entry is
// read: its predecessor's counter must be that of the entry before it, or lie in a gap, or below what the header says was trimmed.
//
// The package knows nothing of RESP, of devices, or of other stores.
package streams
