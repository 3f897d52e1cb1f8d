package command

import "encoding/hex"

// Attestations is what commands need to attest.
type Attestations interface {
	// Attest asks for evidence that binds the nonce and this connection, after which the command returns ErrPark with Park.Answer;
	// without a nonce, resumed, it returns what came of it.
	Attest(c *Ctx, nonce []byte) (evidence *Evidence, asked bool, err error)
}

// Evidence is what a confidential VM shows: a report of its processor, and what speaks for the report's signature.
type Evidence struct {
	Kind   string
	Store  [16]byte
	Report []byte
	Certs  []byte
}

// attestNonce is the size of the asker's nonce, in bytes.
const attestNonce = 32

func attestCommands() []Command {
	return []Command{
		{Name: "cvm.attest", Arity: 2, Flags: NoAuth | NoScript | Loading | Stale | NoLevel, Group: "cvm", Since: "1.0.0", Summary: "Returns evidence of the confidential VM that binds a nonce and this TLS connection: kind, store, report and certificates.", Handler: cmdAttest},
	}
}

// cmdAttest needs no password: who asks wants to know whom the password would be given to.
func cmdAttest(c *Ctx) error {
	if c.Multi {
		return Error("ERR this command waits for the processor, which a transaction cannot")
	}
	switch c.Resume {
	case ResumeReady:
		e, asked, err := c.Srv.Attest(c, nil)
		if err != nil {
			return err
		}
		if asked {
			c.Reply.Array(4)
			c.Reply.String(e.Kind)
			c.Reply.String(hex.EncodeToString(e.Store[:]))
			c.Reply.Bulk(e.Report)
			c.Reply.Bulk(e.Certs)
			return nil
		}
	case ResumeTimeout:
		return Error("ERR the processor has not answered in time; nothing was done")
	}
	nonce := make([]byte, attestNonce)
	if n, err := hex.Decode(nonce, c.Args[1][:min(len(c.Args[1]), 2*attestNonce)]); err != nil || n != attestNonce || len(c.Args[1]) != 2*attestNonce {
		return Error("ERR the nonce is not 64 hexadecimal digits")
	}
	if _, _, err := c.Srv.Attest(c, nonce); err != nil {
		return err
	}
	c.Park = Park{Answer: true, Until: c.Now + int64(c.Srv.ReplyTimeout())}
	return ErrPark
}
