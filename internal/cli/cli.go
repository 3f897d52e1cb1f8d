package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// commands is the whole command line. A new command is a field here and a file of its own.
type commands struct {
	Serve     serveCommand     `cmd:"" help:"Run the server."`
	Counter   counterCommand   `cmd:"" help:"Run the trusted counter service, or operate it."`
	Provision provisionCommand `cmd:"" help:"Run the trusted party that releases keys to attested VMs, or operate it."`
	Seal      sealCommand      `cmd:"" help:"Write a sealed volume offline: from a Redis, its files, JSON lines, or a directory."`
	Unseal    unsealCommand    `cmd:"" aliases:"export" help:"Read a sealed volume with its owner's key: to a RESP stream, JSON lines, or files."`
	Backup    backupCommand    `cmd:"" help:"Copy the volume of a running server, sealed, in one committed state."`
	Restore   restoreCommand   `cmd:"" help:"Put such a copy back: an authorised rollback."`
	Proxy     proxyCommand     `cmd:"" help:"Give clients of this machine a port to a server that attests itself."`
	Nvme      nvmeCommand      `cmd:"" help:"Look at NVMe controllers, and hand them over to this program's own driver."`
	File      fileCommand      `cmd:"" help:"Store and fetch files of a server."`
	Bench     benchCommand     `cmd:"" help:"Measure this machine beside other programs."`
	Doctor    doctorCommand    `cmd:"" help:"Look at what this machine offers, and say what to do for what is missing."`

	Completion completionCommand `cmd:"" help:"Print completions for a shell."`
	Man        manCommand        `cmd:"" help:"Print the manual page."`
	Version    versionCommand    `cmd:"" help:"Print the version, the Go version and the cipher implementations in use."`
}

// streams is where a command prints.
type streams struct {
	out io.Writer // what was asked for
	err io.Writer // the log, and errors
}

// Main runs the command line args (without the program's name) and returns the exit code. It never exits the process.
func Main(args []string, out, errOut io.Writer) (code int) {
	var c commands
	defer func() {
		if r := recover(); r != nil {
			asked, ok := r.(exit)
			if !ok {
				panic(r)
			}
			code = int(asked)
		}
	}()
	parser, err := newParser(&c, out, errOut)
	if err != nil {
		panic("internal error: command line: " + err.Error())
	}
	context, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(errOut, "cvmstore: %s\nTry: cvmstore --help\n", usageText(err, parser.Model))
		return ExitUsage
	}
	if err := context.Run(&streams{out: out, err: errOut}); err != nil {
		wrong, todo, code := explain(err)
		if !errors.As(err, new(reported)) {
			fmt.Fprintf(errOut, "cvmstore: %s\n%s\n", wrong, todo)
		}
		return code
	}
	return ExitOK
}

// exit is what a panic carries when kong wants to end the process, after --help.
type exit int

func newParser(c *commands, out, errOut io.Writer) (*kong.Kong, error) {
	c.Serve.init()
	return kong.New(c,
		kong.Name("cvmstore"),
		kong.Description("A Redis-protocol server on an authenticated, rollback-proof volume."),
		kong.Writers(out, errOut),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
}

// usageText is kong's error, with the nearest flag in place of its own list of likely ones.
func usageText(err error, model *kong.Application) string {
	text := err.Error()
	wrong, unknown := strings.CutPrefix(text, "unknown flag --")
	if !unknown {
		return text
	}
	wrong, _, _ = strings.Cut(wrong, ",")
	node := model.Node
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		node = parse.Context.Selected()
	}
	var names []string
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			names = append(names, flag.Name)
		}
	}
	return "unknown flag --" + wrong + didYouMean("--", wrong, names)
}
