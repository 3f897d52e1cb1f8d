package command

import "cvmstore/kvs"

func bitmapCommands() []Command {
	const g = "bitmap"
	const write = Write | DenyOOM
	return []Command{
		{Name: "setbit", Arity: 4, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Since: "2.2.0", Summary: "Sets a bit and returns what it was.", Handler: cmdSetBit},
		{Name: "getbit", Arity: 3, Flags: ReadOnly | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "2.2.0", Summary: "Returns a bit.", Handler: cmdGetBit},
		{Name: "bitcount", Arity: -2, Flags: ReadOnly, Group: g, First: 1, Last: 1, Step: 1, Since: "2.6.0", Summary: "Counts the bits that are set.", Handler: cmdBitCount},
		{Name: "bitpos", Arity: -3, Flags: ReadOnly, Group: g, First: 1, Last: 1, Step: 1, Since: "2.8.7", Summary: "Finds the first bit that is set, or clear.", Handler: cmdBitPos},
		{Name: "bitop", Arity: -4, Flags: write, Group: g, First: 2, Last: -1, Step: 1, Since: "2.6.0", Summary: "Combines strings bit by bit into another key.", Handler: cmdBitOp},
		{Name: "bitfield", Arity: -2, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Since: "3.2.0", Summary: "Reads, sets and adds to numbers of any width within a string.", Handler: cmdBitField},
		{Name: "bitfield_ro", Arity: -2, Flags: ReadOnly | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "6.0.0", Summary: "Reads numbers of any width within a string.", Handler: cmdBitField},
	}
}

const (
	errBitOffset = Error("ERR bit offset is not an integer or out of range")
	errBit       = Error("ERR bit is not an integer or out of range")
)

// bitOffsetMax is the first bit that no string of 512 MiB has.
const bitOffsetMax = 8 * (512 << 20)

// bitOffset parses the number of a bit; "#n" is the n-th field of the given width, where one is given.
func bitOffset(arg []byte, width int64) (int64, error) {
	scale := int64(1)
	if width > 0 && len(arg) > 0 && arg[0] == '#' {
		arg, scale = arg[1:], width
	}
	n, err := parseInt(arg)
	if err != nil || n < 0 || n >= bitOffsetMax || n*scale >= bitOffsetMax {
		return 0, errBitOffset
	}
	return n * scale, nil
}

func cmdSetBit(c *Ctx) error {
	offset, err := bitOffset(c.Args[2], 0)
	if err != nil {
		return err
	}
	bit, err := parseInt(c.Args[3])
	if err != nil || bit < 0 || bit > 1 {
		return errBit
	}
	old, err := kvs.SetBit(c.Tx, c.Args[1], offset, int(bit))
	return intReply(c, int64(old), err)
}

func cmdGetBit(c *Ctx) error {
	offset, err := bitOffset(c.Args[2], 0)
	if err != nil {
		return err
	}
	bit, err := kvs.GetBit(c.Tx, c.Args[1], offset)
	return intReply(c, int64(bit), err)
}

// bitUnit parses what a range is measured in.
func bitUnit(arg []byte) (inBits bool, err error) {
	switch {
	case equalFold(arg, "bit"):
		return true, nil
	case equalFold(arg, "byte"):
		return false, nil
	}
	return false, errSyntax
}

func cmdBitCount(c *Ctx) (err error) {
	var r kvs.BitRange
	switch args := c.Args[2:]; len(args) {
	case 0:
		r.Whole = true
	case 2, 3:
		if r.Start, err = parseInt(args[0]); err != nil {
			return err
		}
		if r.End, err = parseInt(args[1]); err != nil {
			return err
		}
		if len(args) == 3 {
			if r.Bits, err = bitUnit(args[2]); err != nil {
				return err
			}
		}
	default:
		return errSyntax
	}
	n, err := kvs.BitCount(c.Tx, c.Args[1], r)
	return intReply(c, n, err)
}

func cmdBitPos(c *Ctx) error {
	bit, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	if bit != 0 && bit != 1 {
		return Error("ERR The bit argument must be 1 or 0.")
	}
	args := c.Args[3:]
	r := kvs.BitRange{Whole: len(args) == 0, Open: len(args) == 1}
	if len(args) > 3 {
		return errSyntax
	}
	if len(args) > 0 {
		if r.Start, err = parseInt(args[0]); err != nil {
			return err
		}
	}
	if len(args) == 3 {
		if r.Bits, err = bitUnit(args[2]); err != nil {
			return err
		}
	}
	if len(args) > 1 {
		if r.End, err = parseInt(args[1]); err != nil {
			return err
		}
	}
	p, err := kvs.BitPos(c.Tx, c.Args[1], int(bit), r)
	return intReply(c, p, err)
}

func cmdBitOp(c *Ctx) error {
	var op kvs.BitOperation
	switch name := c.Args[1]; {
	case equalFold(name, "and"):
		op = kvs.BitAnd
	case equalFold(name, "or"):
		op = kvs.BitOr
	case equalFold(name, "xor"):
		op = kvs.BitXor
	case equalFold(name, "not"):
		op = kvs.BitNot
	default:
		return errSyntax
	}
	if op == kvs.BitNot && len(c.Args) != 4 {
		return Error("ERR BITOP NOT must be called with a single source key.")
	}
	n, err := kvs.BitOp(c.Tx, op, c.Args[2], c.Args[3:])
	return intReply(c, int64(n), err)
}
