package keyspace

// A directory is one stripe's part of one table: an extendible hash. The bits of the hash below the stripe's choose a
// shard; a full shard is split in two and only the directory's pointers change, so no insertion pays for a rehash of more
// than shardEntriesMax entries.
type directory struct {
	shards []*shard // 1<<depth; a shard of less depth stands at several neighbouring indices
	expiry int64    // no key expires before this
	depth  uint8
}

const (
	stripeBits  = 8
	stripeCount = 1 << stripeBits
	depthMax    = 20 // 256 stripes of a million shards: beyond any memory
)

func newDirectory() *directory {
	return &directory{shards: []*shard{{expiry: never}}, expiry: never}
}

// index returns where in shards a hash belongs.
func (d *directory) index(h uint32) int { return int(h << stripeBits >> (32 - d.depth)) }

func (d *directory) shard(h uint32) *shard { return d.shards[d.index(h)] }

// span is at how many indices a shard stands.
func (d *directory) span(sh *shard) int { return 1 << (d.depth - sh.depth) }

// insert adds an entry for a key that is not there. Indices and pointers into the shard do not survive it.
func (d *directory) insert(h uint32, key []byte) (*shard, int) {
	sh := d.shard(h)
	for len(sh.entries) >= shardEntriesMax && sh.depth < depthMax {
		d.split(h)
		sh = d.shard(h)
	}
	return sh, sh.insert(h, key)
}

// split replaces the shard of hash h by its two halves. It doubles the pointers first if the shard stands at one index only.
func (d *directory) split(h uint32) {
	sh := d.shard(h)
	if sh.depth == d.depth {
		shards := make([]*shard, 2*len(d.shards))
		for i, s := range d.shards {
			shards[2*i], shards[2*i+1] = s, s
		}
		d.shards = shards
		d.depth++
	}
	span := d.span(sh)
	first := d.index(h) &^ (span - 1)
	halves := sh.split()
	for i := range span {
		d.shards[first+i] = halves[i*2/span]
	}
}

// each calls f once for each shard, in hash order, until f returns false.
func (d *directory) each(f func(sh *shard) bool) {
	for i := 0; i < len(d.shards); i += d.span(d.shards[i]) {
		if !f(d.shards[i]) {
			return
		}
	}
}
