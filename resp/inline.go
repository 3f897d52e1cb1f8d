package resp

import "bytes"

// inline parses a request typed as a line of words, with the quoting rules of Redis.
func (p *parser) inline(buf []byte) (int, status, error) {
	i := bytes.IndexByte(buf[p.scan:], '\n')
	if i < 0 {
		p.scan = len(buf)
		if len(buf) > lineMax {
			return 0, 0, protocolError("too big inline request")
		}
		return 0, statusMore, nil
	}
	end := p.scan + i
	line := buf[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	if len(line) > lineMax {
		return 0, 0, protocolError("too big inline request")
	}
	if !p.split(line) {
		return 0, 0, protocolError("unbalanced quotes in request")
	}
	p.textArgs = len(p.args)
	p.pos = end + 1
	if len(p.args) == 0 {
		return 0, statusEmpty, nil
	}
	return 0, statusCommand, nil
}

// split appends the words of line to text and args. A NUL ends the line, as it does for Redis.
func (p *parser) split(line []byte) bool {
	i := 0
	for {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i >= len(line) || line[i] == 0 {
			return true
		}
		start := len(p.text)
		var ok bool
		if i, ok = p.word(line, i); !ok {
			return false
		}
		p.args = append(p.args, span{uint32(start), uint32(len(p.text) - start)})
	}
}

// word unescapes one word, which may hold quoted parts, and returns where it ends.
func (p *parser) word(line []byte, i int) (int, bool) {
	for i < len(line) {
		switch c := line[i]; {
		case isSpace(c) || c == 0:
			return i, true
		case c == '"' || c == '\'':
			n, ok := p.quoted(line[i:])
			if !ok {
				return i, false
			}
			return i + n, true // a closing quote ends the word
		default:
			p.text = append(p.text, c)
			i++
		}
	}
	return i, true
}

// quoted unescapes the quoted part at the front of s and returns its length with both quotes. A closing quote must end a word.
func (p *parser) quoted(s []byte) (int, bool) {
	quote := s[0]
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == 0:
			return 0, false
		case c == quote:
			return i + 1, i+1 == len(s) || isSpace(s[i+1]) || s[i+1] == 0
		case c == '\\' && quote == '\'' && i+1 < len(s) && s[i+1] == '\'':
			p.text = append(p.text, '\'')
			i++
		case c == '\\' && quote == '"' && i+3 < len(s) && s[i+1] == 'x' && isHex(s[i+2]) && isHex(s[i+3]):
			p.text = append(p.text, unhex(s[i+2])<<4|unhex(s[i+3]))
			i += 3
		case c == '\\' && quote == '"' && i+1 < len(s) && s[i+1] != 0:
			i++
			p.text = append(p.text, unescape(s[i]))
		default:
			p.text = append(p.text, c)
		}
	}
	return 0, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
