package nvme

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"cvmstore/ioengine/device"
)

// Identity is what Identify Controller says (section 5.17.2.1), cut to what is used. All of it is the controller's word: it is shown
// to people and bounds transfers, and nothing that must be true rests on it (rows 22 and 24).
type Identity struct {
	Vendor         uint16
	Serial         string // escaped
	Model          string // escaped
	Firmware       string // escaped
	Version        string
	Namespaces     uint32            // the largest number that a namespace can have
	TransferBlocks device.BlockCount // MDTS, clamped
	WriteCache     bool              // VWC; nothing depends on it: we flush all the same (row 29)
	trim           bool              // ONCS: dataset management
}

// parseIdentity reads a private copy of the page.
func parseIdentity(page *[PageSize]byte) (Identity, error) {
	le := binary.LittleEndian
	version := le.Uint32(page[80:])
	id := Identity{
		Vendor: le.Uint16(page[0:]),
		Serial: printable(page[4:24]), Model: printable(page[24:64]), Firmware: printable(page[64:72]),
		Version:        fmt.Sprintf("%d.%d.%d", version>>16, version>>8&0xff, version&0xff),
		Namespaces:     le.Uint32(page[516:]),
		TransferBlocks: transferBlocks(page[77]),
		WriteCache:     page[525]&1 != 0,
		trim:           le.Uint16(page[520:])&(1<<2) != 0,
	}
	if sqes, cqes := page[512], page[513]; sqes&0xf > 6 || sqes>>4 < 6 || cqes&0xf > 4 || cqes>>4 < 4 { // row 30
		return id, fmt.Errorf("SQES %#02x, CQES %#02x: no queue entries of 64 and 16 bytes: %w", sqes, cqes, ErrUnusable)
	}
	return id, nil
}

// transferBlocks decodes MDTS: a power of two in units of the smallest page, 0 for no limit. The shift is clamped (row 16).
func transferBlocks(mdts uint8) device.BlockCount {
	if mdts == 0 || mdts > 9 {
		return transferBlocksMax
	}
	return min(device.BlockCount(1)<<mdts, transferBlocksMax)
}

// printable shows a string of the controller: without the padding, with everything but plain ASCII escaped (row 22).
func printable(b []byte) string {
	s := strings.Trim(string(b), " \x00")
	quoted := strconv.QuoteToASCII(s)
	return quoted[1 : len(quoted)-1]
}

// Geometry is the shape of a namespace. Two openings of one device compare it; the volume's own is in its sealed superblock.
type Geometry struct {
	Namespace    uint32
	Blocks       device.BlockCount // of 4096 bytes
	LogicalBytes int               // the controller's blocks: 512 or 4096
}

// perBlock is how many of the controller's blocks are one of ours.
func (g Geometry) perBlock() uint64 { return uint64(device.BlockSize / g.LogicalBytes) }

// parseNamespace reads a private copy of Identify Namespace (NVM Command Set Specification, section 4.1.5.1) (row 15).
func parseNamespace(page *[PageSize]byte, namespace uint32) (Geometry, error) {
	g := Geometry{Namespace: namespace}
	le := binary.LittleEndian
	refuse := func(format string, args ...any) (Geometry, error) {
		return Geometry{}, fmt.Errorf("namespace %d: %s: %w", namespace, fmt.Sprintf(format, args...), ErrUnusable)
	}
	size, formats, flbas := le.Uint64(page[0:]), int(page[25]), page[26]
	index := int(flbas & 0xf)
	if formats > 15 {
		index |= int(flbas>>5&3) << 4
	}
	if index > formats || index > 63 {
		return refuse("FLBAS %#02x: format %d of %d", flbas, index, formats+1)
	}
	format := le.Uint32(page[128+4*index:])
	metadata, shift := format&0xffff, format>>16&0xff
	switch {
	case size == 0:
		return refuse("it is not active")
	case metadata != 0:
		return refuse("%d bytes of metadata a block; format it without", metadata)
	case page[29]&7 != 0:
		return refuse("protection information is on (DPS %#02x); format it without", page[29])
	case shift != 9 && shift != 12:
		return refuse("LBADS %d: blocks of neither 512 nor 4096 bytes", shift)
	}
	g.LogicalBytes = 1 << shift
	// Every byte has an address below 2^63, so that no product of block numbers and sizes overflows.
	if size > math.MaxInt64>>shift {
		return refuse("NSZE %#x: more than 2^63 bytes", size)
	}
	g.Blocks = device.BlockCount(size / g.perBlock())
	if g.Blocks == 0 {
		return refuse("NSZE %#x: less than one block", size)
	}
	return g, nil
}

// parseActive reads a private copy of the list of active namespaces (section 5.17.2.2): rising numbers up to the first zero.
func parseActive(page *[PageSize]byte) ([]uint32, error) {
	var all []uint32
	for at := 0; at < PageSize; at += 4 {
		n := binary.LittleEndian.Uint32(page[at:])
		if n == 0 {
			break
		}
		if n == math.MaxUint32 || len(all) > 0 && n <= all[len(all)-1] {
			return nil, fmt.Errorf("list of namespaces: %#x in place %d: %w", n, len(all), ErrUnusable)
		}
		all = append(all, n)
	}
	return all, nil
}
