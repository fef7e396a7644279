package ui

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/agenthost/agenthost/host/plugin"
)

// Logger writes warnings to stderr, without the time: a person reads them as they
// appear.
func (t *Terminal) Logger() *slog.Logger { return t.loggerFrom(slog.LevelWarn) }

// QuietLogger is logger without warnings, for a command that shows their subject
// itself.
func (t *Terminal) QuietLogger() *slog.Logger { return t.loggerFrom(slog.LevelError) }

func (t *Terminal) loggerFrom(level slog.Level) *slog.Logger {
	return slog.New(logHandler{console: t.Console(), Handler: slog.NewTextHandler(t.Console(), &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})})
}

// GuestLog writes guests' log lines to stderr, each with its plugin's name.
func (t *Terminal) GuestLog() func(plugin.LogLine) {
	return func(l plugin.LogLine) {
		var b strings.Builder
		for line := range strings.SplitSeq(l.Text, "\n") {
			b.WriteString("[" + l.Plugin + "] " + line + "\n")
		}
		_, _ = io.WriteString(t.Console(), b.String()) // a failed write to the console has no other place to be reported
	}
}

// Announce names on stderr the work that takes time. A terminal that draws lines again
// shows it as an activity, until the next one is announced or the command writes.
func (t *Terminal) Announce(what string) {
	if t.screen == nil || !t.screen.rename(what) {
		fmt.Fprintf(t.Err, "%s ...\n", what)
	}
}
