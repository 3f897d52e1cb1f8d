package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"cvmstore/files"
	"cvmstore/keyspace"
	"cvmstore/kvs"
)

// The commands on files. Their names are no keys: they live beside the databases, whichever is selected.

func fileCommands() []Command {
	const read, write = ReadOnly, Write | DenyOOM
	const g, since = "file", "0.10"
	one := func(c Command) Command { c.First, c.Last, c.Step = 1, 1, 1; return c }
	return []Command{
		one(Command{Name: "fput", Body: 2, Arity: -3, Flags: write, Group: g, Since: since, Summary: "Stores a file.", Syntax: "name data [NX|XX] [META key value [key value ...]]", Handler: cmdFPut}),
		one(Command{Name: "fget", Arity: -2, Flags: read, Group: g, Since: since, Summary: "Returns a file, or a part of it.", Syntax: "name [offset [length]]", Handler: cmdFGet}),
		one(Command{Name: "fstat", Arity: 2, Flags: read | Fast, Group: g, Since: since, Summary: "Returns size, times, chunk size, parts and metadata of a file.", Syntax: "name", Handler: cmdFStat}),
		one(Command{Name: "flen", Arity: 2, Flags: read | Fast, Group: g, Since: since, Summary: "Returns the size of a file.", Syntax: "name", Handler: cmdFLen}),
		one(Command{Name: "froot", Arity: 2, Flags: read, Group: g, Since: since, Summary: "Returns what stands for all of a file, the root of its trees, and its size.", Syntax: "name", Handler: cmdFRoot}),
		one(Command{Name: "fverify", Arity: 2, Flags: read | NoMulti, Group: g, Since: since, Summary: "Reads all of a file from the device and checks it.", Syntax: "name", Handler: cmdFVerify}),
		{Name: "fdel", Arity: -2, Flags: Write, Group: g, First: 1, Last: -1, Step: 1, Since: since, Summary: "Deletes files.", Syntax: "name [name ...]", Handler: cmdFDel},
		{Name: "fexists", Arity: -2, Flags: read | Fast, Group: g, First: 1, Last: -1, Step: 1, Since: since, Summary: "Counts which of the files exist.", Syntax: "name [name ...]", Handler: cmdFExists},
		{Name: "frename", Arity: -3, Flags: Write, Group: g, First: 1, Last: 2, Step: 1, Since: since, Summary: "Gives a file another name.", Syntax: "name newname [NX]", Handler: cmdFRename},
		{Name: "fscan", Arity: -2, Flags: read, Group: g, Locks: LockSelf, Since: since, Summary: "Goes through the names of files in steps.", Syntax: "cursor [MATCH pattern] [COUNT count]", Handler: cmdFScan},
		{Name: "fbegin", Arity: -2, Flags: write | NoMulti, Group: g, Locks: LockPlan, Since: since, Summary: "Begins an upload and returns its id.", Syntax: "name [SIZE bytes] [CHUNK bytes] [EX seconds]", Plan: planFBegin, Handler: cmdFBegin},
		{Name: "fwrite", Body: 3, Arity: 4, Flags: write | NoMulti, Group: g, Locks: LockPlan, Since: since, Summary: "Adds a piece to an upload.", Syntax: "id offset data", Plan: planFWrite, Handler: cmdFWrite},
		{Name: "fcommit", Arity: -2, Flags: write | NoMulti, Group: g, Locks: LockPlan, Since: since, Summary: "Makes an upload the file of its name.", Syntax: "id [NX|XX] [META key value [key value ...]]", Plan: planEnd(true), Handler: cmdFCommit},
		{Name: "fabort", Arity: 2, Flags: Write | NoMulti, Group: g, Locks: LockPlan, Since: since, Summary: "Throws an upload away.", Syntax: "id", Plan: planEnd(false), Handler: cmdFAbort},
		{Name: "fuploads", Arity: -1, Flags: ReadOnly | NoMulti, Group: g, Since: since, Summary: "Lists the uploads that are open, or what has come of one.", Syntax: "[id]", Handler: cmdFUploads},
	}
}

func cmdFPut(c *Ctx) error {
	o, err := putOptions(c.Args[3:])
	if err != nil {
		return err
	}
	o.Body = c.Body
	done, err := files.Put(c.Tx, c.Args[1], c.Args[2], o)
	return c.okOrNull(done, err)
}

func (c *Ctx) okOrNull(ok bool, err error) error {
	switch {
	case err != nil:
		return err
	case ok:
		c.Reply.OK()
	default:
		c.Reply.Null()
	}
	return nil
}

// putOptions parses [NX|XX] [META key value ...].
func putOptions(args [][]byte) (o files.PutOptions, err error) {
	for i := 0; i < len(args); i++ {
		switch {
		case equalFold(args[i], "nx") && !o.XX:
			o.NX = true
		case equalFold(args[i], "xx") && !o.NX:
			o.XX = true
		case equalFold(args[i], "meta") && len(args) > i+1 && (len(args)-i)%2 == 1:
			for i++; i < len(args); i += 2 {
				if len(args[i]) > 1<<16-1 {
					return o, Error("ERR a metadata key exceeds 65535 bytes")
				}
				o.Meta = append(o.Meta, files.Pair{Key: args[i], Value: args[i+1]})
			}
			return o, nil
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

func cmdFGet(c *Ctx) error {
	offset, length := int64(0), int64(-1)
	var err error
	if len(c.Args) > 4 {
		return errSyntax
	}
	if len(c.Args) > 2 {
		if offset, err = parseInt(c.Args[2]); err != nil {
			return err
		}
	}
	if len(c.Args) > 3 {
		if length, err = parseInt(c.Args[3]); err != nil {
			return err
		}
		if length < 0 {
			return files.ErrLength
		}
	}
	r, err := files.View(c.Tx, c.Args[1], offset, length)
	if err != nil {
		return err
	}
	v := kvs.Value{OK: r.OK, Bytes: r.Bytes, Blob: r.Blob, From: r.From, To: r.To}
	if v.Blob != nil && v.To-v.From <= int64(v.Blob.ChunkBytes()) { // read before the reply begins, so that damage is an ordinary error
		v.Bytes, err = r.Load(c.Tx, c.Args[1])
		v.Blob = nil
	}
	if err != nil {
		return err
	}
	return c.value(c.Args[1], v)
}

func cmdFStat(c *Ctx) error {
	i, err := files.Stat(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	if !i.OK {
		c.Reply.Null()
		return nil
	}
	r := &c.Reply
	r.Map(6)
	r.String("size")
	r.Int(i.Size)
	r.String("begun")
	r.Int(i.Begun)
	r.String("committed")
	r.Int(i.Committed)
	r.String("chunk")
	r.Int(int64(i.Chunk))
	r.String("parts")
	r.Int(int64(i.Parts))
	r.String("meta")
	r.Map(len(i.Meta))
	for _, p := range i.Meta {
		r.Bulk(p.Key)
		r.Bulk(p.Value)
	}
	return nil
}

func cmdFLen(c *Ctx) error {
	i, err := files.Stat(c.Tx, c.Args[1])
	switch {
	case err != nil:
		return err
	case i.OK:
		c.Reply.Int(i.Size)
	default:
		c.Reply.Null()
	}
	return nil
}

func cmdFRoot(c *Ctx) error {
	root, size, ok, err := files.Root(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	if !ok {
		c.Reply.NullArray()
		return nil
	}
	c.Reply.Array(2)
	c.Reply.String(hex.EncodeToString(root[:]))
	c.Reply.Int(size)
	return nil
}

func cmdFVerify(c *Ctx) error {
	size, err := files.Verify(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Int(size)
	return nil
}

func cmdFDel(c *Ctx) error {
	n, err := files.Delete(c.Tx, c.Args[1:])
	return intReply(c, int64(n), err)
}

func cmdFExists(c *Ctx) error {
	n, err := files.Exists(c.Tx, c.Args[1:])
	return intReply(c, int64(n), err)
}

func cmdFRename(c *Ctx) error {
	nx := len(c.Args) == 4 && equalFold(c.Args[3], "nx")
	if len(c.Args) > 3 && !nx {
		return errSyntax
	}
	done, err := files.Rename(c.Tx, c.Args[1], c.Args[2], nx)
	return c.okOrNull(done, err)
}

func cmdFScan(c *Ctx) error {
	return scanReply(c, func(cursor uint64, emit func([]byte)) (uint64, error) {
		o, err := scanOptions(c.Args[2:])
		if err != nil {
			return 0, err
		}
		return files.Scan(c.Space, c.Tx, cursor, o, emit)
	})
}

// errNoFiles is the answer of a server that was built without.
const errNoFiles = Error("ERR this server keeps no files")

func (c *Ctx) uploads() (*files.Uploads, error) {
	if u := files.Of(c.Space); u != nil {
		return u, nil
	}
	return nil, errNoFiles
}

// errUploadID is the answer to an id that none can be.
const errUploadID = Error("ERR the id of an upload has 16 hexadecimal digits")

func (c *Ctx) uploadID() (files.ID, error) {
	id, ok := files.ParseID(bytes.ToLower(c.Args[1]))
	if !ok {
		return 0, errUploadID
	}
	return id, nil
}

func beginOptions(args [][]byte) (o files.BeginOptions, err error) {
	o.Size = -1
	if len(args)%2 != 0 {
		return o, errSyntax
	}
	for ; len(args) > 0; args = args[2:] {
		n, err := parseInt(args[1])
		switch {
		case err != nil:
			return o, err
		case equalFold(args[0], "size"):
			if o.Size = n; n < 0 {
				return o, files.ErrSize
			}
		case equalFold(args[0], "chunk"):
			if o.Chunk = int(n); n < 0 || n > 1<<20 {
				return o, files.ErrChunk
			}
		case equalFold(args[0], "ex"):
			if n <= 0 || n > int64(100*365*24*time.Hour/time.Second) {
				return o, Error("ERR invalid expire time in 'fbegin' command")
			}
			o.Lifetime = time.Duration(n) * time.Second
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

func planFBegin(c *Ctx) (*files.Plan, error) {
	u, err := c.uploads()
	if err != nil {
		return nil, err
	}
	o, err := beginOptions(c.Args[2:])
	if err != nil {
		return nil, err
	}
	return u.PlanBegin(c.Args[1], c.Srv.Volume().Now(), o)
}

func cmdFBegin(c *Ctx) error {
	u, err := c.uploads()
	if err != nil {
		return err
	}
	o, err := beginOptions(c.Args[2:])
	if err != nil {
		return err
	}
	id, err := u.Begin(c.Tx, c.Planned, o)
	if err != nil {
		return err
	}
	c.Reply.String(id.String())
	return nil
}

func planFWrite(c *Ctx) (*files.Plan, error) {
	u, err := c.uploads()
	if err != nil {
		return nil, err
	}
	id, err := c.uploadID()
	if err != nil {
		return nil, err
	}
	offset, err := parseInt(c.Args[2])
	if err != nil {
		return nil, err
	}
	length := int64(len(c.Args[3]))
	if c.Body != nil {
		length = c.Body.Size()
	}
	return u.PlanWrite(id, offset, length)
}

func cmdFWrite(c *Ctx) error {
	u, err := c.uploads()
	if err == nil {
		err = u.Write(c.Tx, c.Planned, c.Args[3], c.Body)
	}
	return c.okOrNull(true, err)
}

func planEnd(commit bool) func(*Ctx) (*files.Plan, error) {
	return func(c *Ctx) (*files.Plan, error) {
		u, err := c.uploads()
		if err != nil {
			return nil, err
		}
		id, err := c.uploadID()
		if err != nil {
			return nil, err
		}
		return u.PlanEnd(id, commit)
	}
}

func cmdFCommit(c *Ctx) error {
	u, err := c.uploads()
	if err != nil {
		return err
	}
	o, err := putOptions(c.Args[2:])
	if err != nil {
		return err
	}
	done, err := u.Commit(c.Tx, c.Planned, o)
	return c.okOrNull(done, err)
}

func cmdFAbort(c *Ctx) error {
	u, err := c.uploads()
	if err == nil {
		err = u.Abort(c.Tx, c.Planned)
	}
	return c.okOrNull(true, err)
}

func cmdFUploads(c *Ctx) error {
	u, err := c.uploads()
	if err != nil {
		return err
	}
	var only files.ID
	switch {
	case len(c.Args) > 2:
		return errSyntax
	case len(c.Args) == 2:
		if only, err = c.uploadID(); err != nil {
			return err
		}
	}
	c.dependOnAll()
	list := u.List(c.Srv.Volume().Now(), only)
	if only != 0 && len(list) == 0 {
		return files.ErrNoUpload
	}
	r := &c.Reply
	if only == 0 {
		r.Array(len(list))
	}
	for i := range list {
		x := &list[i]
		r.Map(8)
		r.String("id")
		r.String(x.ID.String())
		r.String("name")
		r.Bulk(x.Name)
		r.String("size")
		r.Int(x.Size)
		r.String("bytes")
		r.Int(x.Bytes)
		r.String("parts")
		r.Int(int64(x.Parts))
		r.String("begun")
		r.Int(x.Begun)
		r.String("expires")
		r.Int(x.Deadline)
		r.String("ranges")
		writeSpans(r, x.Spans, only != 0)
	}
	return nil
}

// writeSpans answers with pairs of numbers: from, up to. A listing of all uploads has how many there are.
func writeSpans(r *Reply, list []files.Span, all bool) {
	if !all {
		r.Int(int64(len(list)))
		return
	}
	r.Array(len(list))
	for _, s := range list {
		r.Array(2)
		r.Int(s.From)
		r.Int(s.To)
	}
}

// dependOnAll makes the reply wait for everything that was applied.
func (c *Ctx) dependOnAll() {
	applied, _, _ := c.Srv.Volume().Watermarks()
	c.Depends = max(c.Depends, applied)
}

// Planning makes the plan of a command with LockPlan, and returns the keys to lock. What is refused here depends on all that was
// applied: an upload that is not there may have been ended by what is not committed yet.
func (c *Ctx) Planning() (keys [][]byte, err error) {
	if c.Planned, err = c.Cmd.Plan(c); err != nil {
		if errors.Is(err, files.ErrNoUpload) {
			c.dependOnAll()
		}
		return nil, err
	}
	return c.Planned.Keys, nil
}

// FileBody says of an argument that TakesBody whether it is a part of a file, and in which chunks that is to be sealed; 0: by its
// size. id is the command's first argument.
func FileBody(u *files.Uploads, name, id []byte) (file bool, chunk int) {
	c := find(name)
	if c == nil || c.Group != "file" {
		return false, 0
	}
	if x, ok := files.ParseID(bytes.ToLower(id)); ok && u != nil && c.Name == "fwrite" {
		return true, u.Chunk(x)
	}
	return true, 0
}

func infoFiles(t *infoText) {
	c := t.c
	v := c.Srv.Volume()
	if c.Space == nil || v == nil || v.Err() != nil || files.Of(c.Space) == nil {
		return
	}
	c.Space.BeginAll(c.Tx, c.S.DB)
	n, _ := c.Tx.Info(c.Space.Private(keyspace.PrivateFiles))
	c.Tx.End()
	c.Loose = false
	t.num("files", int64(n))
	t.num("uploads_open", int64(files.Of(c.Space).Count()))
	t.str("upload_lifetime", strconv.FormatInt(int64(files.DeadlineDefault/time.Second), 10))
}
