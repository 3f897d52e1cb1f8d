package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"

	"cvmstore/kvs/rdb"
)

// Source is something to load from.
type Source interface {
	// Load sends all items to l, which skips those that it has.
	Load(l *Loader) error
}

// RDB is a file in Redis' format.
type RDB struct{ In *bufio.Reader }

// Load implements Source.
func (s RDB) Load(l *Loader) error {
	f, err := rdb.NewFile(s.In)
	if err != nil {
		return err
	}
	return loadRDB(l, f)
}

// loadRDB sends what a file holds, up to its end; what follows there is not read.
func loadRDB(l *Loader, f *rdb.File) error {
	skipped := false
	for {
		p, err := f.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if p.First {
			skipped = l.Skipped()
		}
		if skipped {
			continue
		}
		if err := l.part(p); err != nil {
			return err
		}
		if !p.Last {
			continue
		}
		if err := l.Item(); err != nil {
			return err
		}
	}
}

// part sends a key's value, or a part of it.
func (l *Loader) part(p *rdb.Part) error {
	if err := l.Select(p.DB); err != nil {
		return err
	}
	about := fmt.Sprintf("key %.100q", p.Key)
	if p.First && l.Resumed() && p.Kind != rdb.KindString {
		if err := l.Do(about, []byte("DEL"), p.Key); err != nil {
			return err
		}
	}
	if err := l.Do(about, fill(p)...); err != nil {
		return err
	}
	if p.Last && p.Expiry != 0 {
		return l.Do(about, []byte("PEXPIREAT"), p.Key, strconv.AppendInt(nil, p.Expiry, 10))
	}
	return nil
}

// fill is the command that adds what a part holds.
func fill(p *rdb.Part) [][]byte {
	verb := map[rdb.Kind]string{rdb.KindString: "SET", rdb.KindList: "RPUSH", rdb.KindSet: "SADD", rdb.KindHash: "HSET", rdb.KindZSet: "ZADD"}[p.Kind]
	args := append(make([][]byte, 0, 2+2*len(p.Items)), []byte(verb), p.Key)
	for i, item := range p.Items {
		if p.Kind == rdb.KindZSet {
			args = append(args, strconv.AppendFloat(nil, p.Scores[i], 'g', -1, 64))
		}
		args = append(args, item)
	}
	return args
}
