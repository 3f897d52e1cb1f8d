package command

func debugDenyScripts(c *Ctx) error {
	c.Srv.ScriptsMayDebug(string(c.Args[2]) == "1")
	c.Reply.OK()
	return nil
}

// debugProtocol shows each kind of reply once: for tests of clients.
func debugProtocol(c *Ctx) error {
	r := &c.Reply
	switch kind := string(c.Args[2]); kind {
	case "string":
		r.String("Hello World")
	case "integer":
		r.Int(12345)
	case "double":
		r.Double(3.141)
	case "null":
		r.Null()
	case "array", "set":
		if kind == "set" {
			r.Set(3)
		} else {
			r.Array(3)
		}
		for i := range 3 {
			r.Int(int64(i))
		}
	case "map":
		r.Map(3)
		for i := range 3 {
			r.Int(int64(i))
			r.Bool(i == 1)
		}
	case "attrib":
		debugAttribute(r)
	case "push":
		r.Push(2)
		r.String("server-cpu-usage")
		r.Int(42)
	case "verbatim":
		r.Verbatim("txt", "This is a verbatim\nstring")
	case "true", "false":
		r.Bool(kind == "true")
	case "bignum":
		const n = "1234567999999999999999999999999999999"
		if r.Proto == 3 {
			r.Buf = append(r.Buf, "("+n+"\r\n"...)
		} else {
			r.String(n)
		}
	default:
		return Error("ERR Wrong protocol type name. Please use one of the following: string|integer|double|null|array|set|map|attrib|push|verbatim|true|false")
	}
	return nil
}

// debugAttribute is a reply with an attribute before it, which RESP2 has no room for.
func debugAttribute(r *Reply) {
	if r.Proto == 3 {
		r.Buf = append(r.Buf, "|1\r\n"...)
		r.String("key-popularity")
		r.Array(2)
		r.String("key:123")
		r.Int(90)
	}
	r.String("Some real reply following the attribute")
}
