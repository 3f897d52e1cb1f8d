package resp

import (
	"bytes"
	"fmt"
)

// Bounds of the parser, as Redis has them. Until a client has authenticated, the stricter ones hold.
const (
	lineMax         = 64 << 10 // bytes of an inline request or of the line with a count
	countMax        = 1<<31 - 1
	countMaxUnauth  = 10
	bulkMaxUnauth   = 16384
	queryBufMaxHard = 1<<32 - 1 // spans hold 32-bit offsets
)

// parser takes commands out of a client's bytes. It is resumable: next is called with the same command's bytes, from its first
// one, each time that more have arrived, and goes on where it stopped without looking at a body twice. What it keeps is
// bounded by what has arrived, never by what a length announces.
type parser struct {
	bulkMax  int64 // proto-max-bulk-len
	unauth   bool  // the stricter limits hold
	body     bodyFunc
	args     []span
	textArgs int    // that many of args are spans of text, the others of the buffer
	text     []byte // unescaped arguments of an inline command; the head of a command whose body was handed over
	pos      int    // the first byte not parsed yet
	scan     int    // no '\r' (inline: '\n') before this offset
	left     int64  // arguments yet to come, -1 before the count is known
	bulk     int64  // length of the argument that is being read, -1 before it is known
	sink     bodySink
}

// span is a part of the query buffer (or of text), in bytes from the command's start.
type span struct{ off, size uint32 }

// bodyFunc is asked, for each argument, whether its body should be handed over as it arrives (the seam for large values):
// nil means no. head holds the arguments before it.
type bodyFunc func(p *parser, buf []byte, size int64) bodySink

// bodySink receives a body piece by piece, exactly as many bytes as were announced. The pieces are only borrowed. take returns how
// many bytes it took; with fewer than all the parser stops (statusFull) until it is called again. The argument itself is then
// empty for the command.
type bodySink interface{ take(piece []byte) int }

// status is what next found.
type status uint8

const (
	statusMore    status = iota // the command is not complete
	statusCommand               // args are complete
	statusEmpty                 // nothing to execute
	statusFull                  // the sink takes no more for now
)

// protocolError is the text after "Protocol error: ". The client gets it, then its connection ends.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

func (p *parser) reset() {
	p.args, p.text, p.textArgs = p.args[:0], p.text[:0], 0
	if cap(p.args) > 1024 {
		p.args = nil
	}
	if cap(p.text) > 4096 {
		p.text = nil
	}
	p.pos, p.scan, p.left, p.bulk, p.sink = 0, 0, -1, -1, nil
}

// footprint is the memory that parsed arguments take beyond the query buffer, also once they are executed.
func (p *parser) footprint() int { return len(p.args)*(8+24) + len(p.text) }

// next parses on. drop is the number of bytes at the front of buf that were handed over and are to be dropped at once, whatever
// the status. After statusCommand the arguments lie in what remains; once it is executed, and after statusEmpty, the caller
// drops size() bytes more and calls reset.
func (p *parser) next(buf []byte) (drop int, st status, err error) {
	if p.left < 0 {
		if len(buf) == 0 {
			return 0, statusMore, nil
		}
		if buf[0] != '*' {
			return p.inline(buf)
		}
		n, ok, err := p.number(buf, "too big mbulk count string")
		if !ok || err != nil {
			return 0, statusMore, err
		}
		if n > countMax {
			return 0, 0, protocolError("invalid multibulk length")
		}
		if n > countMaxUnauth && p.unauth {
			return 0, 0, protocolError("unauthenticated multibulk length")
		}
		if n <= 0 {
			return 0, statusEmpty, nil
		}
		p.left = n
	}
	return p.multibulk(buf)
}

func (p *parser) multibulk(buf []byte) (int, status, error) {
	dropped := 0
	for p.left > 0 {
		if p.bulk < 0 {
			if err := p.bulkHeader(buf[dropped:]); err != nil || p.bulk < 0 {
				return dropped, statusMore, err
			}
			if p.body != nil {
				if p.sink = p.body(p, buf[dropped:], p.bulk); p.sink != nil {
					dropped += p.detach(buf[dropped:])
				}
			}
		}
		if p.sink != nil {
			n, st := p.handOver(buf[dropped:])
			dropped += n
			if st != statusCommand {
				return dropped, st, nil
			}
			continue
		}
		if int64(len(buf)-dropped-p.pos) < p.bulk+2 {
			return dropped, statusMore, nil
		}
		p.args = append(p.args, span{uint32(p.pos), uint32(p.bulk)})
		p.pos += int(p.bulk) + 2
		p.bulk, p.scan = -1, p.pos
		p.left--
	}
	return dropped, statusCommand, nil
}

// size is the number of bytes of the buffer that have been parsed and not dropped.
func (p *parser) size() int { return p.pos }

// bulkHeader reads "$<length>\r\n"; p.bulk stays below 0 while the line is incomplete.
func (p *parser) bulkHeader(buf []byte) error {
	if p.pos >= len(buf) {
		return nil
	}
	if c := buf[p.pos]; c != '$' {
		return protocolError(fmt.Sprintf("expected '$', got '%c'", c))
	}
	n, ok, err := p.number(buf, "too big bulk count string")
	if !ok || err != nil {
		return err
	}
	if n < 0 || n > p.bulkMax || n > queryBufMaxHard {
		return protocolError("invalid bulk length")
	}
	if n > bulkMaxUnauth && p.unauth {
		return protocolError("unauthenticated bulk length")
	}
	p.bulk = n
	return nil
}

// number reads the line at pos, a type byte and a decimal, and moves pos behind it. ok is false while the line is incomplete.
func (p *parser) number(buf []byte, tooBig protocolError) (n int64, ok bool, err error) {
	// The usual line is short and complete.
	for i := p.pos + 1; i < len(buf) && i < p.pos+10; i++ {
		c := buf[i]
		if c == '\r' && i > p.pos+1 && i+1 < len(buf) && (buf[p.pos+1] != '0' || i == p.pos+2) {
			p.pos = i + 2
			p.scan = p.pos
			return n, true, nil
		}
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
	}
	p.scan = max(p.scan, p.pos)
	i := bytes.IndexByte(buf[p.scan:], '\r')
	if i < 0 || p.scan+i+1 >= len(buf) {
		if i < 0 {
			p.scan = len(buf)
		} else {
			p.scan += i
		}
		if len(buf)-p.pos > lineMax {
			return 0, false, tooBig
		}
		return 0, false, nil
	}
	end := p.scan + i
	n, valid := parseInt(buf[p.pos+1 : end])
	if !valid {
		if buf[p.pos] == '*' {
			return 0, false, protocolError("invalid multibulk length")
		}
		return 0, false, protocolError("invalid bulk length")
	}
	p.pos = end + 2
	p.scan = p.pos
	return n, true, nil
}

// need tells how many bytes the buffer must hold before the argument that is being read is complete; 0: unknown.
func (p *parser) need() int64 {
	if p.bulk < 0 || p.sink != nil {
		return 0
	}
	return int64(p.pos) + p.bulk + 2
}

// detach copies the arguments before a body that is to be handed over out of the query buffer, and returns how many bytes of
// the buffer are done with.
func (p *parser) detach(buf []byte) int {
	for i := p.textArgs; i < len(p.args); i++ {
		a := p.args[i]
		p.args[i].off = uint32(len(p.text))
		p.text = append(p.text, buf[a.off:a.off+a.size]...)
	}
	p.args = append(p.args, span{uint32(len(p.text)), 0})
	p.textArgs = len(p.args)
	n := p.pos
	p.pos, p.scan = 0, 0
	p.bulk += 2 // and its line end
	return n
}

// handOver gives what has arrived of the body to the sink. statusCommand: the body is complete.
func (p *parser) handOver(buf []byte) (n int, st status) {
	if payload := min(p.bulk-2, int64(len(buf))); payload > 0 {
		n = p.sink.take(buf[:payload])
		p.bulk -= int64(n)
		if int64(n) < payload {
			return n, statusFull
		}
	}
	end := int(min(p.bulk, int64(len(buf)-n))) // of its line end, what is there
	if p.bulk > 2 {
		return n, statusMore
	}
	p.bulk -= int64(end)
	n += end
	if p.bulk > 0 {
		return n, statusMore
	}
	p.sink, p.bulk = nil, -1
	p.left--
	return n, statusCommand
}

// bodyLeft is how many bytes of a body the sink has not been given.
func (p *parser) bodyLeft() int64 {
	if p.sink == nil {
		return 0
	}
	return max(p.bulk-2, 0)
}

// sank says that n bytes of a body reached the sink without passing through the buffer.
func (p *parser) sank(n int) { p.bulk -= int64(n) }

// arg returns an argument that is complete.
func (p *parser) arg(buf []byte, i int) []byte {
	a := p.args[i]
	if i < p.textArgs {
		buf = p.text
	}
	return buf[a.off : a.off+a.size]
}

// argv appends the arguments of a complete command to out. They are slices of buf and text, valid until either changes.
func (p *parser) argv(buf []byte, out [][]byte) [][]byte {
	for i, a := range p.args {
		from := buf
		if i < p.textArgs {
			from = p.text
		}
		out = append(out, from[a.off:a.off+a.size:a.off+a.size])
	}
	return out
}

// parseInt parses a decimal as strictly as Redis does: no sign but '-', no leading zeros, nothing around it.
func parseInt(b []byte) (int64, bool) {
	neg := len(b) > 1 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 || (b[0] == '0' && (len(b) > 1 || neg)) {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case neg && n <= 1<<63:
		return -int64(n), true
	case !neg && n < 1<<63:
		return int64(n), true
	}
	return 0, false
}
