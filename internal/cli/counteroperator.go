package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/service"
	"cvmstore/epoch/wire"
)

// counterAt says where the service is and who asks.
type counterAt struct {
	Dir      string `default:"./cvmstore-counter" help:"Directory with operator.pem and service.pin."`
	URL      string `default:"https://127.0.0.1:7433" help:"The service."`
	Operator string `help:"The operator's key and certificate; default: operator.pem in dir." placeholder:"FILE"`
	Pin      string `help:"What is known of the service; default: service.pin in dir." placeholder:"FILE"`
}

// operatorTimeout bounds one command of the operator.
const operatorTimeout = 30 * time.Second

func (a *counterAt) do(f func(context.Context, *remote.Client) error) error {
	path := func(given, name string) string {
		if given != "" {
			return given
		}
		return filepath.Join(a.Dir, name)
	}
	id, err := readIdentity(path(a.Operator, counterOperator))
	if err != nil {
		return err
	}
	p, err := readPin(path(a.Pin, counterPinName))
	if err != nil {
		return err
	}
	c, err := remote.New(remote.Options{URLs: strings.Split(a.URL, ","), TLS: wire.PinnedTLS(id.cert, p.identity), Key: p.key})
	if err != nil {
		return usageError{err}
	}
	defer c.Close() //nolint:errcheck // nothing under way
	ctx, cancel := context.WithTimeout(context.Background(), operatorTimeout)
	defer cancel()
	return f(ctx, c)
}

func (a *counterAt) post(what string, fields map[string]any) error {
	return a.do(func(ctx context.Context, c *remote.Client) error { return c.Post(ctx, what, fields) })
}

type counterIdentity struct {
	Out  string `required:"" help:"File to make." placeholder:"FILE"`
	Name string `default:"cvmstore" help:"What the certificate calls it; for people."`
}

// Run makes the file and prints the identity.
func (c *counterIdentity) Run(s *streams) error {
	f, err := createIdentity(c.Out, c.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "identity %x\nkey %x\n", f.id[:], []byte(f.cert.Leaf.RawSubjectPublicKeyInfo[len(f.cert.Leaf.RawSubjectPublicKeyInfo)-32:]))
	return nil
}

type counterEnrol struct {
	counterAt
	Identity string `required:"" help:"The identity, in hexadecimal."`
	Name     string `help:"What the listing calls it."`
	Role     string `default:"client" enum:"client,operator" help:"client or operator."`
}

// Run enrols.
func (c *counterEnrol) Run(*streams) error {
	return c.post("enrol", map[string]any{"identity": c.Identity, "name": c.Name, "role": c.Role})
}

type counterList struct{ counterAt }

// Run prints a line a store, then a line an identity.
func (c *counterList) Run(s *streams) error {
	return c.do(func(ctx context.Context, client *remote.Client) error {
		for after := ""; ; {
			var page []service.StoreInfo
			if err := client.Get(ctx, "stores", url.Values{"after": {after}}, &page); err != nil {
				return err
			}
			for _, i := range page {
				state := "live"
				if i.Frozen {
					state = "frozen"
				}
				fmt.Fprintf(s.out, "store %s generation %d value %d tag %s by %d %s identities %s\n",
					i.Store, i.Generation, i.Value, i.Tag, i.CommittedBy, state, strings.Join(i.Identities, ","))
				after = i.Store
			}
			if len(page) == 0 {
				break
			}
		}
		for after := ""; ; {
			var page []service.Enrolled
			if err := client.Get(ctx, "identities", url.Values{"after": {after}}, &page); err != nil {
				return err
			}
			for _, i := range page {
				fmt.Fprintf(s.out, "identity %s %s %s\n", i.Identity, i.Role, i.Name)
				after = i.Identity
			}
			if len(page) == 0 {
				return nil
			}
		}
	})
}

// counterStore names a store; counterStoreIdentity also who.
type counterStore struct {
	counterAt
	Store string `required:"" help:"The store's id, in hexadecimal (CVM.STATUS, the key file)."`
}

type counterStoreIdentity struct {
	counterStore
	Identity string `required:"" help:"The identity, in hexadecimal."`
	Once     bool   `help:"It may open the store until its opening is committed, and not again: for attested VMs."`
}

func (c *counterStoreIdentity) fields() map[string]any {
	return map[string]any{"store": c.Store, "identity": c.Identity, "once": c.Once}
}

type counterCreate struct {
	counterStoreIdentity
	Owner string `help:"Public key (key of cvmstore counter identity) that will sign the store's orders." placeholder:"HEX"`
}

// Run creates the record.
func (c *counterCreate) Run(*streams) error {
	f := c.fields()
	f["owner"] = c.Owner
	return c.post("create", f)
}

type counterAllow struct{ counterStoreIdentity }

// Run allows.
func (c *counterAllow) Run(*streams) error { return c.post("allow", c.fields()) }

type counterDisallow struct{ counterStoreIdentity }

// Run disallows.
func (c *counterDisallow) Run(*streams) error { return c.post("disallow", c.fields()) }

type counterFreeze struct{ counterStore }

// Run freezes.
func (c *counterFreeze) Run(*streams) error {
	return c.post("freeze", map[string]any{"store": c.Store})
}

type counterThaw struct{ counterStore }

// Run thaws.
func (c *counterThaw) Run(*streams) error {
	return c.post("thaw", map[string]any{"store": c.Store})
}

type counterOrder struct {
	Kind        string `arg:"" enum:"rollback,recreate" help:"rollback or recreate."`
	Owner       string `required:"" help:"The owner's key file (cvmstore counter identity)." placeholder:"FILE"`
	Pin         string `required:"" help:"service.pin of the service that will carry it out." placeholder:"FILE"`
	Store       string `required:"" help:"The store's id, in hexadecimal."`
	Generation  uint64 `required:"" help:"rollback: the record's, as cvmstore counter list shows it. recreate: above all that were ever opened."`
	Tag         string `help:"rollback: the record's tag that is replaced, as the listing shows it." placeholder:"HEX"`
	TargetValue uint64 `required:"" help:"The state to go to: its value."`
	TargetTag   string `required:"" help:"And its tag (CVM.STATUS says both while they are current)." placeholder:"HEX"`
}

// Run prints the order.
func (c *counterOrder) Run(s *streams) error {
	owner, err := readIdentity(c.Owner)
	if err != nil {
		return err
	}
	p, err := readPin(c.Pin)
	if err != nil {
		return err
	}
	o := wire.Order{Kind: wire.OrderRollback, Instance: p.instance, Gen: epoch.Generation(c.Generation), Value: epoch.Counter(c.TargetValue)}
	if c.Kind == "recreate" {
		o.Kind = wire.OrderRecreate
	}
	if o.Store, err = service.ParseStore(c.Store); err != nil {
		return usageError{err}
	}
	for _, t := range []struct {
		text string
		into *epoch.Tag
		name string
	}{{c.Tag, &o.Tag, "tag"}, {c.TargetTag, &o.Target, "target-tag"}} {
		b, err := hex.DecodeString(t.text)
		if err != nil || len(b) != len(t.into) && (len(b) != 0 || o.Kind == wire.OrderRollback) {
			return usageErrorf("--%s: a tag is 64 hexadecimal digits", t.name)
		}
		copy(t.into[:], b)
	}
	fmt.Fprintf(s.out, "%x\n", o.Sign(owner.key))
	return nil
}

type counterCarryOut struct {
	counterAt
	Order    string `required:"" help:"File with the order, as cvmstore counter order printed it." placeholder:"FILE"`
	Owner    string `help:"recreate: the owner's public key." placeholder:"HEX"`
	Identity string `help:"recreate: who may open the store then." placeholder:"HEX"`
}

// Run carries the order to the service.
func (c *counterCarryOut) Run(*streams) error {
	b, err := os.ReadFile(c.Order)
	if err != nil {
		return err
	}
	return c.post("order", map[string]any{"order": strings.TrimSpace(string(b)), "owner": c.Owner, "identity": c.Identity})
}

type counterVerifyReceipt struct {
	Pin     string `required:"" help:"service.pin of the counter service." placeholder:"FILE"`
	Receipt string `arg:"" help:"File with the receipt in hexadecimal, as CVM.RECEIPT answers it." placeholder:"FILE"`
	Object  string `help:"File with the object: its SHA-256 must be the receipt's." placeholder:"FILE"`
	Name    string `help:"The object's name: its SHA-256 must be the receipt's."`
}
