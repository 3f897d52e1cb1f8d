package cli

import (
	"context"
	"encoding/hex"
	"errors"

	"cvmstore/epoch"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/wire"
	"cvmstore/seal"
)

// registration says which counter is told of a sealed volume's state. The first open then requires exactly that state.
type registration struct {
	Register string `default:"auto" enum:"auto,file,service,later" help:"Which counter is told: a file in dir as serve uses it, the service (--counter), or none yet; auto: the service if one is named, later with --party, else the file."`
	Counter  string `placeholder:"URL" help:"Trusted counter service, https://HOST:PORT; several members with commas."`
	Operator string `placeholder:"FILE" help:"Operator's key and certificate at the service: its operator.pem."`
	Pin      string `placeholder:"FILE" help:"The service's file service.pin."`
	Owner    string `placeholder:"FILE" help:"The owner's key (cvmstore counter identity), which signs the order to make the record."`
	Identity string `placeholder:"HEX" help:"Who may open the store; empty: nobody yet (cvmstore counter allow, or the trusted party)."`
}

func (r *registration) check(d *sealedDir) error {
	if r.Register == "auto" {
		switch {
		case r.Counter != "":
			r.Register = "service"
		case d.Party != "":
			r.Register = "later"
		default:
			r.Register = "file"
		}
	}
	if r.Register == "service" && (r.Counter == "" || r.Operator == "" || r.Pin == "" || r.Owner == "") {
		return usageErrorf("--register service needs --counter, --operator, --pin and --owner")
	}
	return nil
}

// register tells the counter. Told already of the same state, it does nothing.
func (r *registration) register(ctx context.Context, d *sealedDir, keys *seal.Keys, s *sealedState) error {
	store := epoch.StoreID(keys.StoreID())
	state, err := s.state(store)
	if err != nil {
		return err
	}
	switch r.Register {
	case "file":
		return recreateFile(ctx, d.at(counterFileName), store, epoch.Generation(s.Generation), state)
	case "service":
		return r.order(ctx, wire.Order{
			Kind: wire.OrderRecreate, Store: store, Gen: epoch.Generation(s.Generation), Value: state.Value, Target: state.Tag,
		})
	}
	return nil
}

// recreateFile makes an embedded counter's file. One that is there and holds the state is left as it is.
func recreateFile(ctx context.Context, path string, store epoch.StoreID, gen epoch.Generation, state epoch.State) error {
	c, err := epoch.NewEmbedded(path)
	if err != nil {
		return err
	}
	err = c.Recreate(ctx, store, gen, state)
	if errors.Is(err, epoch.ErrExists) {
		if have, readErr := c.Read(ctx, store); readErr == nil && have.Current.Value == state.Value && have.Current.Tag == state.Tag {
			err = nil
		}
	}
	return errors.Join(err, c.Close())
}

// order signs an order as the owner and brings it to the service.
func (r *registration) order(ctx context.Context, o wire.Order) error {
	owner, err := readIdentity(r.Owner)
	if err != nil {
		return err
	}
	p, err := readPin(r.Pin)
	if err != nil {
		return err
	}
	o.Instance = p.instance
	at := counterAt{URL: r.Counter, Operator: r.Operator, Pin: r.Pin}
	public := owner.cert.Leaf.RawSubjectPublicKeyInfo
	return at.do(func(_ context.Context, c *remote.Client) error {
		return c.Post(ctx, "order", map[string]any{
			"order": hex.EncodeToString(o.Sign(owner.key)), "owner": hex.EncodeToString(public[len(public)-32:]), "identity": r.Identity,
		})
	})
}
