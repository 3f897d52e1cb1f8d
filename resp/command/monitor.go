package command

import "time"

// cmdMonitor makes this connection receive every command that any client has executed.
func cmdMonitor(c *Ctx) error {
	if !c.S.Monitor {
		c.S.Monitor = true
		c.Srv.Monitoring(+1)
	}
	c.Reply.OK()
	return nil
}

// AppendMonitor appends the line that MONITOR shows of a command; now is the wall clock. Passwords are left out.
func AppendMonitor(out []byte, now time.Time, s *Session, cmd *Command, args [][]byte) []byte {
	us := now.UnixMicro()
	out = append(out, '+')
	out = appendDecimal(out, us/1e6, 1)
	out = append(out, '.')
	out = appendDecimal(out, us%1e6, 6)
	out = append(out, " ["...)
	out = appendDecimal(out, int64(s.DB), 1)
	out = append(out, ' ')
	if s.Unix {
		out = append(out, "unix:"...)
	}
	out = append(out, s.Addr...)
	out = append(out, ']')
	for i, a := range args {
		out = append(out, ' ')
		if secretArg(cmd, args, i) {
			a = redacted
		}
		out = appendQuoted(out, a)
	}
	return append(out, '\r', '\n')
}

var redacted = []byte("(redacted)")

// secretArg reports whether an argument is a password, or the name that goes with one.
func secretArg(cmd *Command, args [][]byte, i int) bool {
	switch {
	case cmd.parent == nil && cmd.Name == "auth":
		return i > 0
	case cmd.parent == nil && cmd.Name == "hello":
		return i > 1 && equalFold(args[i-1], "auth") || i > 2 && equalFold(args[i-2], "auth")
	case cmd.Full() == "acl|setuser":
		return i > 1
	case cmd.Full() == "config|set":
		return i > 2 && i%2 == 1 && (equalFold(args[i-1], "requirepass") || equalFold(args[i-1], "masterauth"))
	}
	return false
}

func appendDecimal(out []byte, n int64, width int) []byte {
	var b [20]byte
	i := len(b)
	for n > 0 || width > 0 {
		i--
		b[i] = byte('0' + n%10)
		n /= 10
		width--
	}
	return append(out, b[i:]...)
}

// appendQuoted quotes as redis-cli reads it back.
func appendQuoted(out, b []byte) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for _, c := range b {
		switch {
		case c == '\\' || c == '"':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c == '\a':
			out = append(out, `\a`...)
		case c == '\b':
			out = append(out, `\b`...)
		case c < ' ' || c > '~':
			out = append(out, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
