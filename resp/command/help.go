package command

import "strings"

// subcommandHelp is every container's HELP.
func subcommandHelp(c *Ctx) error {
	p := c.Cmd.parent
	c.Reply.Array(1 + 2*len(p.Subs))
	c.Reply.Simple(strings.ToUpper(p.Name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for i := range p.Subs {
		c.Reply.Simple(strings.ToUpper(p.Subs[i].Name))
		c.Reply.Simple("    " + p.Subs[i].Summary)
	}
	return nil
}
