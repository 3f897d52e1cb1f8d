package archive

import (
	"strconv"

	"cvmstore/kvs/rdb"
)

// A stream leaves as the commands that make it: XADD for each entry, XSETID for what it remembers of those that are gone, and for each
// group XGROUP CREATE, its consumers, and XCLAIM for each entry that waits for its acknowledgement.

// stream exports one.
func (e *Exporter) stream(p *rdb.Part, sink Sink) error {
	key := string(p.Key)
	info, err := e.fields("XINFO", "STREAM", key)
	if err != nil {
		return err
	}
	emit := func(args ...string) error {
		list := make([][]byte, len(args))
		for i, a := range args {
			list[i] = []byte(a)
		}
		err := sink.Command(p, list)
		p.First = false
		return err
	}
	if info["length"].number == 0 { // made with an entry that goes again: nothing else makes an empty stream without a group
		if err := emit("XADD", key, "MAXLEN", "0", "0-1", "f", "v"); err != nil {
			return err
		}
	}
	if err := e.entries(p, sink); err != nil {
		return err
	}
	err = emit("XSETID", key, string(info["last-generated-id"].text), "ENTRIESADDED", strconv.FormatInt(info["entries-added"].number, 10),
		"MAXDELETEDID", string(info["max-deleted-entry-id"].text))
	if err != nil {
		return err
	}
	groups, err := e.ask("XINFO", "GROUPS", key)
	if err != nil {
		return err
	}
	for _, g := range groups.list {
		if err := e.group(key, pairs(g), emit); err != nil {
			return err
		}
	}
	p.Last = true
	if p.Expiry != 0 {
		return emit("PEXPIREAT", key, strconv.FormatInt(p.Expiry, 10))
	}
	return emit("TYPE", key) // something has to be last, and this changes nothing
}

// entries exports them in pages.
func (e *Exporter) entries(p *rdb.Part, sink Sink) error {
	for from := "-"; ; {
		page, err := e.ask("XRANGE", string(p.Key), from, "+", "COUNT", strconv.Itoa(pageItems))
		if err != nil {
			return err
		}
		for _, entry := range page.list {
			if len(entry.list) != 2 {
				return errReply
			}
			args := [][]byte{[]byte("XADD"), p.Key, entry.list[0].text}
			for _, f := range entry.list[1].list {
				args = append(args, f.text)
				e.Bytes.Add(int64(len(f.text)))
			}
			if err := sink.Command(p, args); err != nil {
				return err
			}
			p.First, from = false, "("+string(entry.list[0].text)
		}
		if len(page.list) < pageItems {
			return nil
		}
	}
}

// group exports a group, its consumers, and what waits.
func (e *Exporter) group(key string, g map[string]reply, emit func(...string) error) error {
	name, last := string(g["name"].text), string(g["last-delivered-id"].text)
	create := []string{"XGROUP", "CREATE", key, name, last}
	if read, ok := g["entries-read"]; ok && !read.null {
		create = append(create, "ENTRIESREAD", strconv.FormatInt(read.number, 10))
	}
	if err := emit(create...); err != nil {
		return err
	}
	consumers, err := e.ask("XINFO", "CONSUMERS", key, name)
	if err != nil {
		return err
	}
	for _, c := range consumers.list {
		if err := emit("XGROUP", "CREATECONSUMER", key, name, string(pairs(c)["name"].text)); err != nil {
			return err
		}
	}
	for from := "-"; ; {
		page, err := e.ask("XPENDING", key, name, from, "+", strconv.Itoa(pageItems))
		if err != nil {
			return err
		}
		for _, w := range page.list {
			if len(w.list) != 4 {
				return errReply
			}
			id := string(w.list[0].text)
			err := emit("XCLAIM", key, name, string(w.list[1].text), "0", id, "IDLE", strconv.FormatInt(w.list[2].number, 10),
				"RETRYCOUNT", strconv.FormatInt(w.list[3].number, 10), "FORCE", "JUSTID", "LASTID", last)
			if err != nil {
				return err
			}
			from = "(" + id
		}
		if len(page.list) < pageItems {
			return nil
		}
	}
}

// fields asks for a reply of names and values in turn.
func (e *Exporter) fields(args ...string) (map[string]reply, error) {
	r, err := e.ask(args...)
	return pairs(r), err
}

func pairs(r reply) map[string]reply {
	m := map[string]reply{}
	for i := 0; i+1 < len(r.list); i += 2 {
		m[string(r.list[i].text)] = r.list[i+1]
	}
	return m
}
