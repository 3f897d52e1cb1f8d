// Package files is the Merkle filesystem: files of any size, written once, named by any bytes, read whole or in ranges, each read
// proven against a record that the trusted counter protects (DESIGN.md section 7).
//
// What comes in: names and bytes, from resp or from a program that embeds the package; at recovery nothing but what keyspace tells.
// What goes out: records and blobs, through a keyspace transaction and volume's transfers. It knows neither RESP nor devices.
//
// Files live in a private database of the keyspace, beside those that clients SELECT: they share its locks, so a transaction may
// change files and keys at once, and its recovery and compaction; no command on keys reaches them. A file below the size of a
// blob is one record with its attributes and content, and such records are packed in frames. A larger one is a compound blob: its
// record has the attributes and lists the parts, each sealed once under a key of its own; a part's chunk tags are the leaves of a
// Merkle tree whose top stands in the record (volume/blobtree.go).
//
// A file that comes in pieces is an upload until it is committed (uploads.go): another private database, where each piece is a key
// of its own with the upload's deadline. The commit is one batch: the file's record comes, the upload's keys go. The parts' blobs
// stay where they are.
//
// The functions follow the rules of keyspace's transactions: begun with the names that they use, run again after ErrMiss and ErrBusy.
package files
