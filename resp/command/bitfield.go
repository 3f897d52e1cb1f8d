package command

import "cvmstore/kvs"

const errFieldType = Error("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")

func cmdBitField(c *Ctx) error {
	ops, writes, err := fieldOps(c.Args[2:])
	if err != nil {
		return err
	}
	if writes && c.Cmd.Flags&ReadOnly != 0 {
		return Error("ERR BITFIELD_RO only supports the GET subcommand")
	}
	res, err := kvs.BitField(c.Tx, c.Args[1], ops, make([]kvs.FieldResult, 0, len(ops)))
	if err != nil {
		return err
	}
	c.Reply.Array(len(res))
	for _, r := range res {
		if r.OK {
			c.Reply.Int(r.Value)
		} else {
			c.Reply.Null()
		}
	}
	return nil
}

// fieldOps parses the operations of a BITFIELD.
func fieldOps(args [][]byte) (ops []kvs.FieldOp, writes bool, err error) {
	overflow := kvs.OverflowWrap
	for len(args) > 0 {
		op := kvs.FieldOp{Overflow: overflow}
		n := 4 // arguments that the operation takes, with its name
		switch {
		case equalFold(args[0], "get") && len(args) >= 3:
			n = 3
		case equalFold(args[0], "set") && len(args) >= 4:
			op.Kind, writes = kvs.FieldSet, true
		case equalFold(args[0], "incrby") && len(args) >= 4:
			op.Kind, writes = kvs.FieldIncr, true
		case equalFold(args[0], "overflow") && len(args) >= 2:
			if overflow, err = fieldOverflow(args[1]); err != nil {
				return nil, false, err
			}
			args = args[2:]
			continue
		default:
			return nil, false, errSyntax
		}
		if op.Signed, op.Bits, err = fieldType(args[1]); err != nil {
			return nil, false, err
		}
		if op.Offset, err = bitOffset(args[2], int64(op.Bits)); err != nil {
			return nil, false, err
		}
		if n == 4 {
			if op.Arg, err = parseInt(args[3]); err != nil {
				return nil, false, err
			}
		}
		ops = append(ops, op)
		args = args[n:]
	}
	return ops, writes, nil
}

func fieldOverflow(arg []byte) (kvs.Overflow, error) {
	switch {
	case equalFold(arg, "wrap"):
		return kvs.OverflowWrap, nil
	case equalFold(arg, "sat"):
		return kvs.OverflowSat, nil
	case equalFold(arg, "fail"):
		return kvs.OverflowFail, nil
	}
	return 0, Error("ERR Invalid OVERFLOW type specified")
}

// fieldType parses "i16" or "u8".
func fieldType(arg []byte) (signed bool, bits int, err error) {
	if len(arg) == 0 || arg[0] != 'i' && arg[0] != 'u' {
		return false, 0, errFieldType
	}
	signed = arg[0] == 'i'
	n, err := parseInt(arg[1:])
	if err != nil || n < 1 || n > 64 || n > 63 && !signed {
		return false, 0, errFieldType
	}
	return signed, int(n), nil
}
