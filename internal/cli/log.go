package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
)

// logLevels are Redis' levels, the default first.
func logLevels() []string { return []string{"notice", "debug", "verbose", "warning", "nothing"} }

var zerologLevels = map[string]zerolog.Level{
	"debug": zerolog.TraceLevel, "verbose": zerolog.DebugLevel, "notice": zerolog.InfoLevel,
	"warning": zerolog.WarnLevel, "nothing": zerolog.Disabled,
}

// openLog returns the logger that o asks for, and what closes its file. errOut is where it goes without a file.
func openLog(o *options, errOut io.Writer) (zerolog.Logger, func() error, error) {
	out, closeFile := errOut, func() error { return nil }
	if o.logFile != "" {
		f, err := os.OpenFile(o.logFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return zerolog.Nop(), nil, fmt.Errorf("log file: %w", err)
		}
		out, closeFile = f, f.Close
	}
	return newLog(out, o.logFormat).Level(zerologLevels[o.logLevel]), closeFile, nil
}

// newLog returns a logger that writes in a format: console, json, or auto.
func newLog(out io.Writer, format string) zerolog.Logger {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	if format == "console" || format == "auto" && isTerminal(out) {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: "2006-01-02 15:04:05.000", NoColor: !isTerminal(out) || os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(out).With().Timestamp().Logger()
}

// begin returns what a command needs that runs until it is done or a signal comes: a context, a logger on standard error, and what
// ends both.
func (s *streams) begin(logFormat string) (context.Context, zerolog.Logger, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	return ctx, newLog(s.err, logFormat).Level(zerologLevels[defaultOptions().logLevel]), stop
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
