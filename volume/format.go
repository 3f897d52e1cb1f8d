package volume

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"cvmstore/epoch"
	"cvmstore/ioengine/device"
)

// formatVersion is the version of every layout in this file, as it is written. Version 1 had no summaries: the fields that name
// one were zero, which says the same today, so volumes of that version are read, and become version 2 with the next superblock.
const (
	formatVersion    = 2
	formatVersionMin = 1
)

var le = binary.LittleEndian

var errFormat = errors.New("malformed")

// # Superblock
//
// Blocks 0 and 1, one slot each, written in turn by the rules of DESIGN.md 6.1 and 6.4.5. All of it lies in the first 512
// bytes of its block, the unit that devices write whole, so that a torn write is the old or the new one. The rest is zero.
//
//	0    8  magic "CVMSTORE"                  data of somebody else (at birth)
//	8    4  format version                    another format (authenticated: AD)
//	12   4  zero
//	16  16  store id                          another store's volume (authenticated: AD)
//	32  16  volume id                         another volume of this store; enters every key (authenticated: AD)
//	48  32  salt, fresh random a write        nonce reuse
//	80  16  tag                               any change
//	96 416  sealed body:
//	   0   8  sequence number                 which slot is newer
//	   8   8  generation that wrote it
//	  16   1  suite (1 aegis, 2 aes-256-gcm)  a weaker cipher
//	  17   1  slot                            a slot's content in the other slot
//	  18   2  zero
//	  20   4  block size
//	  24   8  blocks a segment                changed geometry
//	  32   8  blocks of the volume            changed geometry
//	  40   8  manifest's first block          0: a claim, written at birth before anything else; never a candidate
//	  48   8  manifest's blocks
//	  56  32  manifest's tag                  another or an older manifest at that place
//	  88 328  zero
type superblock struct {
	volume         [16]byte
	seq            uint64
	gen            epoch.Generation
	slot           int
	segmentBlocks  device.BlockCount
	blocks         device.BlockCount
	manifestLBA    device.LBA
	manifestBlocks device.BlockCount
	manifestTag    [32]byte
}

const (
	sbMagic   = "CVMSTORE"
	sbVersion = 8
	sbStore   = 16
	sbVolume  = 32
	sbSalt    = 48
	sbTag     = 80
	sbBody    = 96
	sbSize    = 512
	sbClear   = sbSalt // bytes authenticated as AD

	superblockSlots = 2
)

var suiteNumbers = map[string]byte{suiteAEGIS: 1, suiteGCM: 2}

// superblockHeader is what can be read of a slot without a key. Nothing of it is trusted.
type superblockHeader struct {
	store, volume [16]byte
	version       uint32
}

func parseSuperblockHeader(b []byte) (h superblockHeader, ours bool) {
	if len(b) < sbSize || string(b[:8]) != sbMagic {
		return h, false
	}
	h.version = le.Uint32(b[sbVersion:])
	copy(h.store[:], b[sbStore:])
	copy(h.volume[:], b[sbVolume:])
	return h, true
}

func (s *superblock) encode(k KeySource, salt [32]byte, block []byte) error {
	var out [sbSize]byte
	id := k.StoreID()
	copy(out[:], sbMagic)
	le.PutUint32(out[sbVersion:], formatVersion)
	copy(out[sbStore:], id[:])
	copy(out[sbVolume:], s.volume[:])
	copy(out[sbSalt:], salt[:])
	var p [sbSize - sbBody]byte
	le.PutUint64(p[0:], s.seq)
	le.PutUint64(p[8:], uint64(s.gen))
	p[16] = suiteNumbers[k.Suite()]
	p[17] = byte(s.slot)
	le.PutUint32(p[20:], device.BlockSize)
	le.PutUint64(p[24:], uint64(s.segmentBlocks))
	le.PutUint64(p[32:], uint64(s.blocks))
	le.PutUint64(p[40:], uint64(s.manifestLBA))
	le.PutUint64(p[48:], uint64(s.manifestBlocks))
	copy(p[56:], s.manifestTag[:])
	var tag [tagSize]byte
	if err := sealOnce(k, labelSuperblock, s.volume[:], salt[:], out[sbBody:], &tag, p[:], out[:sbClear]); err != nil {
		return err
	}
	copy(out[sbTag:], tag[:])
	clear(block)
	copy(block, out[:])
	return nil
}

// decodeSuperblock opens a private copy of a slot.
func decodeSuperblock(k KeySource, b []byte, slot int) (*superblock, error) {
	h, ours := parseSuperblockHeader(b)
	switch {
	case !ours:
		return nil, fmt.Errorf("superblock slot %d: no superblock there: %w", slot, ErrCorrupt)
	case h.version < formatVersionMin || h.version > formatVersion:
		return nil, fmt.Errorf("superblock slot %d: format version %d, this program reads %d to %d: use a release that reads it",
			slot, h.version, formatVersionMin, formatVersion)
	case h.store != k.StoreID():
		return nil, fmt.Errorf("superblock slot %d: it belongs to store %x: %w", slot, h.store, ErrForeign)
	}
	var p [sbSize - sbBody]byte
	var tag [tagSize]byte
	copy(tag[:], b[sbTag:])
	if err := openOnce(k, labelSuperblock, h.volume[:], b[sbSalt:sbTag], p[:], b[sbBody:sbSize], &tag, b[:sbClear]); err != nil {
		return nil, fmt.Errorf("superblock slot %d: does not authenticate with this key and cipher: %w", slot, ErrCorrupt)
	}
	s := &superblock{
		volume: h.volume, seq: le.Uint64(p[0:]), gen: epoch.Generation(le.Uint64(p[8:])), slot: int(p[17]),
		segmentBlocks: device.BlockCount(le.Uint64(p[24:])), blocks: device.BlockCount(le.Uint64(p[32:])),
		manifestLBA: device.LBA(le.Uint64(p[40:])), manifestBlocks: device.BlockCount(le.Uint64(p[48:])),
	}
	copy(s.manifestTag[:], p[56:])
	if p[16] != suiteNumbers[k.Suite()] || s.slot != slot || le.Uint32(p[20:]) != device.BlockSize ||
		!zero(p[18:20]) || !zero(p[88:]) || !zero(b[12:16]) {
		return nil, fmt.Errorf("superblock slot %d: suite, slot, block size or reserved bytes are off: %w", slot, ErrCorrupt)
	}
	if s.segmentBlocks < segmentBlocksMin || s.segmentBlocks > 1<<20 || s.blocks > 1<<48 || s.manifestLBA > 1<<48 ||
		s.manifestBlocks > mfBlocksMax {
		return nil, fmt.Errorf("superblock slot %d: impossible geometry: %w", slot, ErrCorrupt)
	}
	return s, nil
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// # Manifest
//
// A run of blocks of its own, copy on write, named by its tag in the superblock and in a frame of the chain (DESIGN.md 6.1).
//
//	0   32  salt, fresh random a write        nonce reuse
//	32  16  tag                               any change
//	48   n  sealed body, to the end of the last block:
//	   0   8  generation that wrote it
//	   8   8  number of segments
//	  16  48  zero
//	  64 160  each segment, in chain order, then zeros:
//	     0   8  first block                   a segment elsewhere
//	     8   8  generation                    enters the key
//	    16  32  life (DESIGN.md 6)            enters the key
//	    48   4  end in blocks, 0 while open   frames cut off or added at the end
//	    52   4  zero
//	    56  32  last chain tag, if closed     another segment's frames
//	    88   8  the summary's first block    0: none yet, or still open
//	    96   4  the summary's blocks
//	   100   4  records that it lists
//	   104  16  the summary's salt           enters its key
//	   120  16  the summary's tag            another or an older summary at that place
//	   136   8  last counter of its frames, if it has a summary
//	   144  16  zero
//
// The manifest's tag is HMAC-SHA-256 over salt and body, under a key of its own: 256 bits, because frames and superblock
// name it.
type manifest struct {
	gen      epoch.Generation
	segments []manifestSegment
}

type manifestSegment struct {
	lba     device.LBA
	gen     epoch.Generation
	life    [32]byte
	end     device.BlockCount // 0: open
	lastTag epoch.Tag
	summary summaryRef
	last    Counter // with a summary
}

const (
	mfTag       = 32
	mfBody      = 48
	mfHead      = 64
	mfSegment   = 160
	mfBlocksMax = 1 << 16 // bounds what a manifest may ask to be read: 256 MiB
)

func manifestBlocks(segments int) device.BlockCount {
	return blocksOf(mfBody + mfHead + segments*mfSegment)
}

func (m *manifest) encode(k KeySource, volume [16]byte, salt [32]byte, out []byte) (tag [32]byte, err error) {
	body := make([]byte, len(out)-mfBody)
	le.PutUint64(body[0:], uint64(m.gen))
	le.PutUint64(body[8:], uint64(len(m.segments)))
	for i, s := range m.segments {
		p := body[mfHead+i*mfSegment:]
		le.PutUint64(p[0:], uint64(s.lba))
		le.PutUint64(p[8:], uint64(s.gen))
		copy(p[16:48], s.life[:])
		le.PutUint32(p[48:], uint32(s.end))
		copy(p[56:88], s.lastTag[:])
		if s.summary.lba != 0 {
			le.PutUint64(p[88:], uint64(s.summary.lba))
			le.PutUint32(p[96:], uint32(s.summary.blocks))
			le.PutUint32(p[100:], uint32(s.summary.records))
			copy(p[104:120], s.summary.salt[:])
			copy(p[120:136], s.summary.tag[:])
			le.PutUint64(p[136:], uint64(s.last))
		}
	}
	var t [tagSize]byte
	if err := sealOnce(k, labelManifest, volume[:], salt[:], out[mfBody:], &t, body, []byte(labelManifest)); err != nil {
		return tag, err
	}
	copy(out, salt[:])
	copy(out[mfTag:], t[:])
	return manifestTag(k, volume, salt, body), nil
}

func manifestTag(k KeySource, volume [16]byte, salt [32]byte, body []byte) (tag [32]byte) {
	var key [32]byte
	k.Derive(key[:], labelManifestTag, volume[:])
	h := hmac.New(sha256.New, key[:])
	h.Write(salt[:])
	h.Write(body)
	h.Sum(tag[:0])
	return tag
}

// decodeManifest opens the manifest that sb names from shared memory, which it reads once.
func decodeManifest(k KeySource, sb *superblock, shared []byte) (*manifest, error) {
	var salt [32]byte
	var t [tagSize]byte
	copy(salt[:], shared)
	copy(t[:], shared[mfTag:])
	body := make([]byte, len(shared)-mfBody)
	if err := openOnce(k, labelManifest, sb.volume[:], salt[:], body, shared[mfBody:], &t, []byte(labelManifest)); err != nil {
		return nil, fmt.Errorf("manifest at block %d: does not authenticate: %w", sb.manifestLBA, ErrCorrupt)
	}
	if tag := manifestTag(k, sb.volume, salt, body); !hmac.Equal(tag[:], sb.manifestTag[:]) {
		return nil, fmt.Errorf("manifest at block %d: not the one that the superblock names: %w", sb.manifestLBA, ErrCorrupt)
	}
	m := &manifest{gen: epoch.Generation(le.Uint64(body[0:]))}
	n := le.Uint64(body[8:])
	if n > uint64((len(body)-mfHead)/mfSegment) || !zero(body[16:mfHead]) || !zero(body[mfHead+int(n)*mfSegment:]) {
		return nil, fmt.Errorf("manifest at block %d: %w: %w", sb.manifestLBA, errFormat, ErrCorrupt)
	}
	for i := range int(n) {
		p := body[mfHead+i*mfSegment:][:mfSegment]
		s := manifestSegment{
			lba: device.LBA(le.Uint64(p[0:])), gen: epoch.Generation(le.Uint64(p[8:])),
			end: device.BlockCount(le.Uint32(p[48:])),
		}
		copy(s.life[:], p[16:48])
		copy(s.lastTag[:], p[56:88])
		s.summary = summaryRef{
			lba: device.LBA(le.Uint64(p[88:])), blocks: device.BlockCount(le.Uint32(p[96:])), records: int(le.Uint32(p[100:])),
		}
		copy(s.summary.salt[:], p[104:120])
		copy(s.summary.tag[:], p[120:136])
		s.last = Counter(le.Uint64(p[136:]))
		blocks := s.end
		if blocks == 0 {
			blocks = sb.segmentBlocks
		}
		if s.end > sb.segmentBlocks || !zero(p[52:56]) || !zero(p[144:]) ||
			s.lba < superblockSlots || s.lba > 1<<48 || uint64(s.lba)+uint64(blocks) > uint64(sb.blocks) ||
			!s.summary.plausible(sb) || s.summary.lba != 0 && s.end == 0 {
			return nil, fmt.Errorf("manifest at block %d, segment %d: %w: %w", sb.manifestLBA, i, errFormat, ErrCorrupt)
		}
		m.segments = append(m.segments, s)
	}
	return m, nil
}

// plausible says whether a summary lies on the volume and within bounds, or is none at all.
func (r *summaryRef) plausible(sb *superblock) bool {
	if r.lba == 0 {
		return *r == summaryRef{}
	}
	return r.lba >= superblockSlots && r.lba < 1<<48 && r.blocks > 0 && r.blocks <= summaryBlocksMax &&
		uint64(r.lba)+uint64(r.blocks) <= uint64(sb.blocks)
}

// # Frame
//
// A run of whole blocks in a segment (DESIGN.md 3). All private memory but for what the sealing writes out.
//
//	0    16  tag of the header
//	16  240  sealed header:
//	    0   4  magic "frm1"
//	    4   1  flags: 1 opening frame
//	    5   3  zero
//	    8   8  generation                     a suffix of a later generation (6.4.2)
//	   16   8  number in the generation, from 0
//	   24   8  first counter that may be inside
//	   32   8  last counter: what a commit of this frame's tag carries
//	   40   8  complete: the last counter of a batch that has ended
//	   48   8  epoch
//	   56   8  store time, ms (4.7)
//	   64   4  records                        missing or added records
//	   68   4  end of the last record, bytes from the frame's start
//	   72   4  blocks
//	   76   4  zero
//	   80  32  chain tag of the predecessor   spliced, reordered, replayed frames
//	  112  32  tag of the manifest named here, or zero (6.1)
//	  144  32  multiset hash after this frame (6.4.4)
//	  176   8  opening frame: the predecessor's first block
//	  184  56  zero
//	256  32  chain tag: HMAC-SHA-256 under the segment's chain key over offset in the segment, header, and (length, tag) of
//	         each record in order; 256 bits (DESIGN.md 3)
//	288   n  records, back to back:
//	    0  16  tag
//	   16   4  length of what follows (authenticated: AD)
//	   20   n  sealed: store 1, kind 1, flags 1 (1: part of a batch that other frames hold too), zero 1, counter 8, payload
//	         zeros to the end of the block, which nothing reads
type frameHeader struct {
	opening     bool
	gen         epoch.Generation
	seq         uint64
	first, last Counter
	complete    Counter
	epoch       epoch.Epoch
	time        int64
	records     int
	end         int
	blocks      device.BlockCount
	prev        epoch.Tag
	manifest    [32]byte
	set         Sum
	prevLBA     device.LBA
}

const (
	fhMagic      = "frm1"
	fhSize       = 240
	frChain      = 256
	frRecords    = 288
	recPrefix    = tagSize + 4
	recEnvelope  = 12
	recOverhead  = recPrefix + recEnvelope
	recPart      = 1 // flag
	frameOpening = 1 // flag
)

func (h *frameHeader) encode(p *[fhSize]byte) {
	*p = [fhSize]byte{}
	copy(p[:], fhMagic)
	if h.opening {
		p[4] = frameOpening
	}
	le.PutUint64(p[8:], uint64(h.gen))
	le.PutUint64(p[16:], h.seq)
	le.PutUint64(p[24:], uint64(h.first))
	le.PutUint64(p[32:], uint64(h.last))
	le.PutUint64(p[40:], uint64(h.complete))
	le.PutUint64(p[48:], uint64(h.epoch))
	le.PutUint64(p[56:], uint64(h.time))
	le.PutUint32(p[64:], uint32(h.records))
	le.PutUint32(p[68:], uint32(h.end))
	le.PutUint32(p[72:], uint32(h.blocks))
	copy(p[80:], h.prev[:])
	copy(p[112:], h.manifest[:])
	h.set.put(p[144:])
	le.PutUint64(p[176:], uint64(h.prevLBA))
}

func decodeFrameHeader(p *[fhSize]byte) (h frameHeader, err error) {
	h = frameHeader{
		opening: p[4]&frameOpening != 0, gen: epoch.Generation(le.Uint64(p[8:])), seq: le.Uint64(p[16:]),
		first: Counter(le.Uint64(p[24:])), last: Counter(le.Uint64(p[32:])), complete: Counter(le.Uint64(p[40:])),
		epoch: epoch.Epoch(le.Uint64(p[48:])), time: int64(le.Uint64(p[56:])),
		records: int(le.Uint32(p[64:])), end: int(le.Uint32(p[68:])), blocks: device.BlockCount(le.Uint32(p[72:])),
		set: sumFrom(p[144:]), prevLBA: device.LBA(le.Uint64(p[176:])),
	}
	copy(h.prev[:], p[80:])
	copy(h.manifest[:], p[112:])
	if string(p[:4]) != fhMagic || p[4]&^frameOpening != 0 || !zero(p[5:8]) || !zero(p[76:80]) || !zero(p[184:]) ||
		h.end < frRecords || blocksOf(h.end) != h.blocks || h.records > h.end/recOverhead {
		return h, errFormat
	}
	return h, nil
}

// putEnvelope writes the head of a record's plaintext.
func putEnvelope(p []byte, s Store, k Kind, flags byte, c Counter) {
	p[0], p[1], p[2], p[3] = byte(s), byte(k), flags, 0
	le.PutUint64(p[4:], uint64(c))
}

// record is one opened record.
type record struct {
	store   Store
	kind    Kind
	flags   byte
	counter Counter
	payload []byte
}

func parseRecord(p []byte) (r record, err error) {
	if len(p) < recEnvelope || p[3] != 0 || p[2]&^recPart != 0 {
		return r, errFormat
	}
	return record{Store(p[0]), Kind(p[1]), p[2], Counter(le.Uint64(p[4:])), p[recEnvelope:]}, nil
}

// The volume's own records: the marks of a batch that is larger than a frame (DESIGN.md 4.8).
const (
	kindBegin Kind = 1 // payload: 8 bytes, zero
	kindEnd   Kind = 2 // payload: number of parts, 8 bytes
)
