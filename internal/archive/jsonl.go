package archive

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"cvmstore/kvs/rdb"
)

// line is one line of JSON: a key and its value.
//
//	{"key": "k", "type": "string", "value": "v", "db": 0, "expiry": 1893456000000}
//	{"key": "l", "type": "list", "value": ["a", "b"]}
//	{"key": "s", "type": "set", "value": ["a", "b"]}
//	{"key": "h", "type": "hash", "value": ["field", "value", "field", "value"]}
//	{"key": "z", "type": "zset", "value": ["a", "b"], "scores": [1, 2.5]}
//
//	{"key": "dir/name", "type": "file", "value": "content", "meta": ["key", "value"]}
//
//	{"key": "x", "type": "command", "value": ["XADD", "x", "1-1", "field", "value"]}
//
// The last form is how streams travel: the key is deleted, then the commands that make it are carried out. expiry is in milliseconds since 1970. "more": true says that the line adds to the key of the line before, as large collections are
// written. "base64": true says that key and values are in base64, for bytes that are no text. Infinite scores are 1e999.
type line struct {
	DB     int             `json:"db,omitempty"`
	Key    string          `json:"key"`
	Type   string          `json:"type"`
	Base64 bool            `json:"base64,omitempty"`
	More   bool            `json:"more,omitempty"`
	Expiry int64           `json:"expiry,omitempty"`
	Value  json.RawMessage `json:"value"`
	Scores []json.Number   `json:"scores,omitempty"`
	Meta   []string        `json:"meta,omitempty"`
}

// lineMax bounds one line, in bytes: the largest string in base64, and some.
const lineMax = 768 << 20

var kindNames = map[string]rdb.Kind{"string": rdb.KindString, "list": rdb.KindList, "set": rdb.KindSet, "hash": rdb.KindHash, "zset": rdb.KindZSet}

// JSONLines is a file of JSON lines.
type JSONLines struct{ In *bufio.Reader }

// Load implements Source.
func (s JSONLines) Load(l *Loader) error {
	skipped := false
	for n := 1; ; n++ {
		text, err := readText(s.In)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		p, file, err := parseLine(text)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if p.First {
			skipped = l.Skipped()
		}
		if skipped {
			continue
		}
		if file != nil {
			err = l.jsonCommand(p, file)
		} else {
			err = l.jsonPart(p)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// jsonCommand sends a command, which may be one of several that make a key.
func (l *Loader) jsonCommand(p *rdb.Part, args [][]byte) error {
	about := fmt.Sprintf("%s of %.100q", args[0], p.Key)
	err := l.Select(p.DB)
	if err == nil && p.First && string(args[0]) != "FPUT" {
		err = l.Do(about, []byte("DEL"), p.Key)
	}
	if err == nil {
		err = l.Do(about, args...)
	}
	if err == nil && p.First {
		err = l.Item()
	}
	return err
}

// jsonPart sends a line's part. A line may name a key that an earlier one named: it replaces it.
func (l *Loader) jsonPart(p *rdb.Part) error {
	if err := l.Select(p.DB); err != nil {
		return err
	}
	if p.First && p.Kind != rdb.KindString {
		if err := l.Do(fmt.Sprintf("key %.100q", p.Key), []byte("DEL"), p.Key); err != nil {
			return err
		}
	}
	for len(p.Items) > 0 { // in commands of bounded length
		q := *p
		n := min(len(p.Items), jsonBatch)
		q.Items, p.Items = p.Items[:n], p.Items[n:]
		if p.Kind == rdb.KindZSet {
			q.Scores, p.Scores = p.Scores[:n], p.Scores[n:]
		}
		q.First, q.Last = false, len(p.Items) == 0
		if err := l.part(&q); err != nil {
			return err
		}
	}
	if p.First {
		return l.Item()
	}
	return nil
}

// jsonBatch is how many items one command carries; even, for pairs.
const jsonBatch = 512

// readText reads a line of any length up to lineMax.
func readText(in *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case len(text) > lineMax:
			return nil, errors.New("longer than any value can be")
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(text) > 0:
			return text, nil
		}
		return text, err
	}
}

// parseLine reads a line. A file's is the command that stores it.
func parseLine(text []byte) (p *rdb.Part, file [][]byte, err error) {
	var in line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, nil, err
	}
	if d.More() {
		return nil, nil, errors.New("more than one value")
	}
	kind, ok := kindNames[in.Type]
	if !ok && in.Type != fileType && in.Type != commandType {
		return nil, nil, fmt.Errorf("type %.20q: want string, list, set, hash, zset, file or command", in.Type)
	}
	p = &rdb.Part{DB: in.DB, Expiry: in.Expiry, First: !in.More, Last: true, Value: rdb.Value{Kind: kind}}
	var items []string
	if in.Type == "string" || in.Type == fileType {
		var one string
		if err := json.Unmarshal(in.Value, &one); err != nil {
			return nil, nil, fmt.Errorf("value: %w", err)
		}
		items = append([]string{one}, in.Meta...)
	} else if err := json.Unmarshal(in.Value, &items); err != nil {
		return nil, nil, fmt.Errorf("value: %w", err)
	}
	for i, s := range append([]string{in.Key}, items...) {
		b := []byte(s)
		if in.Base64 {
			var err error
			if b, err = base64.StdEncoding.DecodeString(s); err != nil {
				return nil, nil, err
			}
		}
		if i == 0 {
			p.Key = b
			continue
		}
		p.Items = append(p.Items, b)
	}
	if in.Type == commandType {
		if in.Expiry != 0 || len(in.Scores)+len(in.Meta) > 0 || len(p.Items) < 2 || !madeOf(p) {
			return nil, nil, errors.New("not a command that makes a stream of that key")
		}
		return p, p.Items, nil
	}
	if in.Type != fileType {
		if len(in.Meta) > 0 {
			return nil, nil, errors.New("meta is for files")
		}
		return p, nil, complete(p, in.Scores)
	}
	if in.DB != 0 || in.More || in.Expiry != 0 || len(in.Scores) > 0 || len(in.Meta)%2 != 0 {
		return nil, nil, errors.New("a file has content and pairs of meta, nothing else")
	}
	return p, putFile(p.Key, p.Items[0], p.Items[1:]), nil
}

const (
	fileType    = "file"
	commandType = "command"
)

// madeOf reports whether a command is one of those that make the stream of p's key.
func madeOf(p *rdb.Part) bool {
	at, ok := map[string]int{"XADD": 1, "XSETID": 1, "XGROUP": 2, "XCLAIM": 1, "PEXPIREAT": 1, "TYPE": 1}[string(p.Items[0])]
	return ok && len(p.Items) > at && bytes.Equal(p.Items[at], p.Key)
}

// putFile is the command that stores a file.
func putFile(name, content []byte, meta [][]byte) [][]byte {
	args := [][]byte{[]byte("FPUT"), name, content}
	if len(meta) > 0 {
		args = append(append(args, []byte("META")), meta...)
	}
	return args
}

// complete adds the scores, and says what does not fit.
func complete(p *rdb.Part, scores []json.Number) error {
	for _, n := range scores {
		f, err := n.Float64()
		if err != nil && !math.IsInf(f, 0) || math.IsNaN(f) {
			return fmt.Errorf("score %.40q: %w", n, err)
		}
		p.Scores = append(p.Scores, f)
	}
	switch {
	case p.DB < 0:
		return errors.New("a negative database")
	case p.Kind == rdb.KindString && !p.First:
		return errors.New("a string is not written in parts")
	case len(p.Items) == 0:
		return errors.New("an empty collection is none")
	case p.Kind == rdb.KindHash && len(p.Items)%2 != 0:
		return errors.New("a field without a value")
	case p.Kind == rdb.KindZSet && len(p.Scores) != len(p.Items), p.Kind != rdb.KindZSet && len(p.Scores) > 0:
		return errors.New("as many scores as members, and for sorted sets only")
	}
	return nil
}
