package command

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"cvmstore/kvs"
	"cvmstore/kvs/hll"
)

func hyperloglogCommands() []Command {
	const g = "hyperloglog"
	return []Command{
		{Name: "pfadd", Arity: -2, Flags: Write | DenyOOM | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "2.8.9", Summary: "Adds elements to a HyperLogLog.", Handler: cmdPFAdd},
		{Name: "pfcount", Arity: -2, Flags: ReadOnly, Group: g, First: 1, Last: -1, Step: 1, Since: "2.8.9", Summary: "Estimates how many elements were added to HyperLogLogs.", Handler: cmdPFCount},
		{Name: "pfmerge", Arity: -2, Flags: Write | DenyOOM, Group: g, First: 1, Last: -1, Step: 1, Since: "2.8.9", Summary: "Merges HyperLogLogs into the first one.", Handler: cmdPFMerge},
		{Name: "pfdebug", Arity: 3, Flags: Write | DenyOOM | Admin, Group: g, First: 2, Last: 2, Step: 1, Since: "2.8.9", Summary: "Shows the inside of a HyperLogLog.", Handler: cmdPFDebug},
		{Name: "pfselftest", Arity: 1, Flags: Admin | NoLevel, Group: g, Since: "2.8.9", Summary: "Tests the HyperLogLog code for about a second.", Handler: cmdPFSelfTest},
	}
}

// sparseMax is hll-sparse-max-bytes.
func sparseMax(c *Ctx) int { return c.Srv.HLLSparseMax() }

func cmdPFAdd(c *Ctx) error {
	changed, err := kvs.PFAdd(c.Tx, c.Args[1], c.Args[2:], sparseMax(c))
	return intReply(c, boolInt(changed), err)
}

func cmdPFCount(c *Ctx) error {
	n, err := kvs.PFCount(c.Tx, c.Args[1:])
	return intReply(c, int64(n), err)
}

func cmdPFMerge(c *Ctx) error {
	if err := kvs.PFMerge(c.Tx, c.Args[1:], sparseMax(c)); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdPFDebug(c *Ctx) error {
	key := c.Args[2]
	h, err := kvs.PFLoad(c.Tx, key)
	if err != nil {
		return err
	}
	if h == nil {
		return Error("ERR The specified key does not exist")
	}
	switch {
	case equalFold(c.Args[1], "getreg"):
		if h, _, err = kvs.PFToDense(c.Tx, key); err != nil {
			return err
		}
		regs := hll.NewRegisters()
		if err := h.Registers(regs); err != nil {
			return err
		}
		c.Reply.Array(len(regs))
		for _, v := range regs {
			c.Reply.Int(int64(v))
		}
	case equalFold(c.Args[1], "decode"):
		if !h.Sparse() {
			return Error("ERR HLL encoding is not sparse")
		}
		return decodeHLL(c, h)
	case equalFold(c.Args[1], "encoding"):
		c.Reply.Simple(map[bool]string{true: "sparse", false: "dense"}[h.Sparse()])
	case equalFold(c.Args[1], "todense"):
		_, changed, err := kvs.PFToDense(c.Tx, key)
		return intReply(c, boolInt(changed), err)
	default:
		return Error("ERR Unknown PFDEBUG subcommand '" + clip(c.Args[1], 128) + "'")
	}
	return nil
}

func decodeHLL(c *Ctx, h hll.HLL) error {
	var words []string
	err := h.Runs(func(value byte, n int, long bool) {
		switch {
		case value > 0:
			words = append(words, "v:"+strconv.Itoa(int(value))+","+strconv.Itoa(n))
		case long:
			words = append(words, "Z:"+strconv.Itoa(n))
		default:
			words = append(words, "z:"+strconv.Itoa(n))
		}
	})
	if err != nil {
		return err
	}
	c.Reply.String(strings.Join(words, " "))
	return nil
}

// selfTestElements is how many elements PFSELFTEST adds.
const selfTestElements = 1_000_000

// cmdPFSelfTest adds elements to a sparse and a dense HyperLogLog, and checks at each power of ten that they agree and err by
// less than six times the standard error.
func cmdPFSelfTest(c *Ctx) error {
	limit := sparseMax(c)
	sparse := hll.New()
	dense, err := hll.New().Dense()
	if err != nil {
		return err
	}
	seed := rand.Uint64()
	next := 1
	var element [8]byte
	for n := 1; n <= selfTestElements; n++ {
		binary.LittleEndian.PutUint64(element[:], uint64(n)^seed)
		if sparse, _, err = sparse.Add(element[:], limit); err != nil {
			return err
		}
		if dense, _, err = dense.Add(element[:], limit); err != nil {
			return err
		}
		if n != next {
			continue
		}
		next *= 10
		a, err := sparse.Count()
		if err != nil {
			return err
		}
		b, err := dense.Count()
		if err != nil {
			return err
		}
		switch {
		case n < limit/2 && !sparse.Sparse():
			return Error("ERR TESTFAILED sparse encoding not used")
		case a != b:
			return Error("ERR TESTFAILED dense/sparse disagree")
		case math.Abs(float64(n)-float64(a)) > math.Max(1, math.Ceil(1.04/128*6*float64(n))):
			return Error("ERR TESTFAILED Too big error. card:" + strconv.Itoa(n) + " estimate:" + strconv.FormatUint(a, 10))
		}
	}
	c.Reply.OK()
	return nil
}
