package rdb

import stdcrc "hash/crc64"

// The CRC of RDB files has the polynomial of David T. Jones, reflected, and neither an initial value nor a final inversion, which
// the standard library's has.
var crcTable = stdcrc.MakeTable(0x95ac9329ac4bc9b5)

func crc64(b []byte) uint64 { return ^stdcrc.Update(^uint64(0), crcTable, b) }
