package nvme

// prpLists are the lists of PRP entries (section 4.1.1) of one queue pair, one a tracker, preallocated in shared memory. A list lies
// inside one page, so none is chained: the largest transfer is bounded for that (transferBlocksMax).
type prpLists struct {
	memory Memory
	words  []uint64 // shared, written only
	stride int      // words a list: a power of two, so that no list crosses a page
}

const (
	listWords = PageSize / 8
	// A buffer begins at a page: PRP entry 1 is its first page, and a list of 511 has the rest of 512.
	transferBlocksMax = listWords
	// The shortest list has room for the ranges of a trim.
	listWordsMin = 8
)

// newLists makes lists for transfers of up to blocks pages.
func newLists(dma DMA, trackers, blocks int) (prpLists, error) {
	l := prpLists{stride: listWordsMin}
	for l.stride < blocks {
		l.stride *= 2
	}
	var err error
	if l.memory, err = dma.Alloc(PurposeLists, trackers*l.stride*8); err != nil {
		return l, err
	}
	l.words = wordsIn(l.memory, trackers*l.stride)
	return l, nil
}

// list returns the list of a tracker, and where the device finds it.
func (l *prpLists) list(tracker uint16) ([]uint64, uint64) {
	at := int(tracker) * l.stride
	return l.words[at : at+l.stride], l.memory.Pages[at/listWords] + uint64(at%listWords*8)
}

// describe writes PRP entries 1 and 2 of a buffer of n pages, the first of which is page first of r, into the command, and
// what does not fit into them into the tracker's list.
func (l *prpLists) describe(c *command, tracker uint16, r *region, first, n int) {
	c[3] = r.page(first)
	switch n {
	case 1:
		c[4] = 0
	case 2:
		c[4] = r.page(first + 1)
	default:
		list, address := l.list(tracker)
		if r.linear {
			at := c[3]
			for i := range n - 1 {
				at += PageSize
				list[i] = at
			}
		} else {
			copy(list, r.memory.Pages[first+1:first+n])
		}
		c[4] = address
	}
}
