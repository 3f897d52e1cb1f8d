package command

import (
	"slices"

	"cvmstore/kvs"
)

func sortCommands() []Command {
	const g = "generic"
	return []Command{
		{Name: "sort", Arity: -2, Flags: Write | DenyOOM | Dangerous, Group: g, First: 1, Last: 1, Step: 1, Movable: sortKeys, Roams: sortRoams, Since: "1.0.0", Summary: "Sorts a list, set or sorted set, and returns or stores the result.", Handler: cmdSort},
		{Name: "sort_ro", Arity: -2, Flags: ReadOnly | Dangerous, Group: g, First: 1, Last: 1, Step: 1, Roams: sortRoams, Since: "7.0.0", Summary: "Sorts a list, set or sorted set, and returns the result.", Handler: cmdSort},
	}
}

// sortOptions calls f for each option of a SORT with what follows it.
func sortOptions(args [][]byte, f func(option, val []byte)) {
	for i := 2; i < len(args); i++ {
		switch {
		case equalFold(args[i], "limit"):
			i += 2
		case i+1 >= len(args):
		case equalFold(args[i], "get"), equalFold(args[i], "by"), equalFold(args[i], "store"):
			f(args[i], args[i+1])
			i++
		}
	}
}

// sortKeys are what is sorted, and the last STORE.
func sortKeys(args [][]byte) [][]byte {
	if len(args) < 2 {
		return nil
	}
	keys := args[1:2:2]
	sortOptions(args, func(option, val []byte) {
		if equalFold(option, "store") {
			keys = append(keys[:1:1], val)
		}
	})
	return keys
}

// sortRoams: patterns make names of keys.
func sortRoams(args [][]byte) (roams bool) {
	sortOptions(args, func(option, val []byte) {
		roams = roams || !equalFold(option, "store") && kvs.SortsBy(val)
	})
	return roams
}

func cmdSort(c *Ctx) error {
	o := kvs.SortOptions{Count: -1}
	var dest []byte
	for args := c.Args[2:]; len(args) > 0; args = args[1:] {
		left := len(args) - 1
		switch {
		case equalFold(args[0], "asc"):
			o.Desc = false
		case equalFold(args[0], "desc"):
			o.Desc = true
		case equalFold(args[0], "alpha"):
			o.Alpha = true
		case equalFold(args[0], "limit") && left >= 2:
			var err error
			if o.Offset, o.Count, err = twoInts(args[1:]); err != nil {
				return err
			}
			args = args[2:]
		case equalFold(args[0], "store") && left >= 1 && c.Cmd.Name == "sort":
			dest, o.Store = args[1], true
			args = args[1:]
		case equalFold(args[0], "by") && left >= 1:
			o.By = args[1]
			o.Unsorted = o.Unsorted || !kvs.SortsBy(o.By)
			args = args[1:]
		case equalFold(args[0], "get") && left >= 1:
			o.Get = append(o.Get, args[1])
			args = args[1:]
		default:
			return errSyntax
		}
	}
	if err := mayRoam(c, &o); err != nil {
		return err
	}
	out, err := kvs.Sort(c.Tx, c.Args[1], o)
	if err != nil {
		return err
	}
	if o.Store {
		return storeSorted(c, dest, out)
	}
	c.Reply.Array(len(out))
	for _, v := range out {
		c.Reply.BulkOrNull(v.Val, v.OK)
	}
	return nil
}

// mayRoam refuses patterns of a user that may not read every key: the names that they make are not known before.
func mayRoam(c *Ctx, o *kvs.SortOptions) error {
	option := "GET"
	switch {
	case o.By != nil && kvs.SortsBy(o.By):
		option = "BY"
	case len(o.Get) == 0:
		return nil
	}
	if u := c.Srv.Users().Get(c.S.User); u != nil && u.ReadsAll(c.Cmd.Index) {
		return nil
	}
	return Error("ERR " + option + " option of SORT denied due to insufficient ACL permissions.")
}

// storeSorted makes a list of the result. Its values are copied: they may lie in what it replaces.
func storeSorted(c *Ctx, dest []byte, out []kvs.SortValue) error {
	vals := make([][]byte, len(out))
	for i := range out {
		vals[i] = slices.Concat(out[i].Val)
		if vals[i] == nil {
			vals[i] = []byte{}
		}
	}
	if _, err := c.Tx.Find(dest); err != nil {
		return err
	}
	err := kvs.StoreList(c.Tx, dest, vals, "sortstore")
	return intReply(c, int64(len(vals)), err)
}
