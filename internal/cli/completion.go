package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand prints completions for a shell, and manCommand a manual page, both from the command line's own description.
type (
	completionCommand struct {
		Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
	}
	manCommand struct{}
)

// Run prints the completions.
func (c *completionCommand) Run(s *streams, k *kong.Kong) error {
	_, err := fmt.Fprint(s.out, completions(k, c.Shell))
	return err
}

// walk calls f for each command with its words and flags.
func walk(n *kong.Node, words []string, f func(words []string, n *kong.Node)) {
	f(words, n)
	for _, c := range n.Children {
		if !c.Hidden && c.Type == kong.CommandNode {
			walk(c, append(words[:len(words):len(words)], c.Name), f)
		}
	}
}

func completions(k *kong.Kong, shell string) string {
	var b strings.Builder
	if shell == "fish" {
		walk(k.Model.Node, nil, func(words []string, n *kong.Node) {
			in := "__fish_use_subcommand"
			if len(words) > 0 {
				in = "__fish_seen_subcommand_from " + words[len(words)-1]
			}
			for _, c := range n.Children {
				fmt.Fprintf(&b, "complete -c cvmstore -f -n '%s' -a %s -d '%s'\n", in, c.Name, plain(c.Help))
			}
			for _, f := range n.Flags {
				fmt.Fprintf(&b, "complete -c cvmstore -n '%s' -l %s -d '%s'\n", in, f.Name, plain(f.Help))
			}
		})
		return b.String()
	}
	if shell == "zsh" {
		b.WriteString("#compdef cvmstore\nautoload -U +X bashcompinit && bashcompinit\n")
	}
	b.WriteString("_cvmstore() {\n\tlocal line=\"${COMP_WORDS[*]:1:COMP_CWORD-1}\" words=''\n\tline=\"${line%% -*}\"\n\tcase \"$line\" in\n")
	walk(k.Model.Node, nil, func(words []string, n *kong.Node) {
		var choices []string
		for _, c := range n.Children {
			choices = append(choices, c.Name)
		}
		for _, f := range n.Flags {
			choices = append(choices, "--"+f.Name)
		}
		fmt.Fprintf(&b, "\t%q) words=%q ;;\n", strings.Join(words, " "), strings.Join(choices, " "))
	})
	b.WriteString("\tesac\n\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n}\ncomplete -o default -F _cvmstore cvmstore\n")
	return b.String()
}

func plain(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\n", " "), "'", "’")
}

// Run prints the page.
func (manCommand) Run(s *streams, k *kong.Kong) error {
	var b strings.Builder
	b.WriteString(".TH CVMSTORE 1\n.SH NAME\ncvmstore \\- " + roff(k.Model.Help) + "\n.SH SYNOPSIS\n.B cvmstore\n.I command\n[flags]\n.SH COMMANDS\n")
	walk(k.Model.Node, nil, func(words []string, n *kong.Node) {
		if len(words) == 0 {
			return
		}
		fmt.Fprintf(&b, ".SS cvmstore %s\n%s\n", roff(strings.Join(words, " ")), roff(n.Help))
		for _, f := range n.Flags {
			fmt.Fprintf(&b, ".TP\n\\fB\\-\\-%s\\fR\n%s\n", roff(f.Name), roff(f.Help))
		}
	})
	b.WriteString(".SH EXIT STATUS\n0 success, 1 any other error, 2 usage, 3 rollback detected, 4 fenced by another server, 5 damaged, 6 busy.\n.SH SEE ALSO\nredis\\-cli(1)\n")
	_, err := fmt.Fprint(s.out, b.String())
	return err
}

func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
