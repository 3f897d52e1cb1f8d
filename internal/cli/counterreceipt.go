package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"cvmstore/epoch/wire"
)

// Run checks the receipt and prints what it proves.
func (c *counterVerifyReceipt) Run(s *streams) error {
	p, err := readPin(c.Pin)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(c.Receipt)
	if err != nil {
		return err
	}
	b, err := hex.DecodeString(strings.Trim(strings.TrimSpace(string(text)), `"`))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", c.Receipt, wire.ErrReceipt, err)
	}
	claim, read, err := wire.VerifyReceipt(p.key, b)
	if err != nil {
		return err
	}
	if c.Name != "" && sha256.Sum256([]byte(c.Name)) != claim.Name {
		return fmt.Errorf("%w: it is about another name", wire.ErrReceipt)
	}
	if c.Object != "" {
		object, err := os.ReadFile(c.Object)
		if err != nil {
			return err
		}
		if sha256.Sum256(object) != claim.Object {
			return fmt.Errorf("%w: it is about another object", wire.ErrReceipt)
		}
	}
	fmt.Fprintf(s.out, "the receipt is genuine: the %v with name hash %x and content hash %x was committed\n"+
		"store %x generation %d epoch %d counter %d\ncounter service at %s: value %d tag %x\nvm identity %x\n"+
		"it was committed; whether it is still current, the receipt does not say\n",
		claim.Kind, claim.Name[:], claim.Object[:], claim.Store[:], claim.Gen, claim.Epoch, claim.Counter,
		time.UnixMilli(int64(read.Stamp)).UTC().Format(time.RFC3339), read.Record.Current.Value, read.Record.Current.Tag[:], read.Opener[:])
	return nil
}
