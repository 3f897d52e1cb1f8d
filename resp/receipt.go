package resp

import (
	"context"
	"time"

	counterwire "cvmstore/epoch/wire"
	"cvmstore/resp/command"
)

// Receipter has the counter service sign a claim; the command line's is made of the service's client and the VM's key.
type Receipter interface {
	Receipt(ctx context.Context, claim counterwire.Claim) ([]byte, error)
}

// receipt is one that a session waits for.
type receipt struct {
	done bool
	text []byte
	err  error
}

// receiptsMax bounds the receipts that one server asks for at the same time: each holds a goroutine and a connection's turn.
const receiptsMax = 16

func (v *view) ReplyTimeout() time.Duration { return v.l.config.ReplyTimeoutDuration() }

// Receipt begins to ask for a claim's receipt (the session parks until it is there), or, without a claim, says what came of it.
func (v *view) Receipt(c *command.Ctx, claim *counterwire.Claim) (text []byte, asked bool, err error) {
	s := v.l.sessions[c.S.FD]
	if claim == nil {
		r := s.receipt
		if r == nil || !r.done {
			return nil, false, nil
		}
		s.receipt = nil
		return r.text, true, r.err
	}
	if v.s.opts.Receipts == nil {
		return nil, false, command.Error("ERR receipts are signed by a counter service, and this server has none (--counter)")
	}
	if v.s.receipts.Add(1) > receiptsMax {
		v.s.receipts.Add(-1)
		return nil, false, command.Error("BUSY too many receipts are being signed; nothing was done, try again")
	}
	r, asked1 := &receipt{}, *claim
	s.receipt = r
	timeout := v.ReplyTimeout()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		text, err := v.s.opts.Receipts.Receipt(ctx, asked1)
		v.s.receipts.Add(-1)
		v.l.post(func(l *loop) {
			r.done, r.text, r.err = true, text, err
			if !s.closed && s.phase == phasePark && s.receipt == r {
				l.unpark(s, command.ResumeReady)
			}
		})
	}()
	return nil, false, nil
}
