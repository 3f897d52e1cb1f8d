// Package archive moves data into and out of stores: RDB and AOF files of Redis, a running Redis, JSON lines and directories on one
// side, the commands of a server on the other.
//
// Both ends are streams. A Source reads what it is given and hands commands to a Loader, which sends them through a connection
// to a server (the command line's is a private one on the volume being sealed) and checks every reply. An Exporter asks such a
// server for all keys and writes them out. Nothing is held in memory that grows with the data: collections travel in parts,
// large strings are copied. What comes from files and from foreign servers is hostile until checked: lengths are bounded.
package archive
