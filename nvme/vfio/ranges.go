package vfio

import "encoding/binary"

// rangesMax bounds how many capabilities and ranges are looked at.
const rangesMax = 64

// walkRanges reads the list of device address ranges out of the kernel's answer to VFIO_IOMMU_GET_INFO: a chain of
// capabilities (id 16 bits, version 16, next 32), of which number 1 holds a count, four unused bytes, and pairs of first and
// last address.
func walkRanges(b []byte, at int) []span {
	le := binary.LittleEndian
	for range rangesMax {
		if at <= 0 || at+16 > len(b) {
			return nil
		}
		if le.Uint16(b[at:]) == 1 {
			var all []span
			for i := range min(int(le.Uint32(b[at+8:])), rangesMax) {
				p := at + 16 + 16*i
				if p+16 > len(b) {
					break
				}
				all = append(all, span{le.Uint64(b[p:]), le.Uint64(b[p+8:])})
			}
			return all
		}
		at = int(le.Uint32(b[at+4:]))
	}
	return nil
}
