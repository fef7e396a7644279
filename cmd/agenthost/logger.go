package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/agenthost/agenthost/host/plugin"
)

// logger writes warnings to stderr, without the time: a person reads them as they
// appear.
func (t *terminal) logger() *slog.Logger { return t.loggerFrom(slog.LevelWarn) }

// quietLogger is logger without warnings, for a command that shows their subject
// itself.
func (t *terminal) quietLogger() *slog.Logger { return t.loggerFrom(slog.LevelError) }

func (t *terminal) loggerFrom(level slog.Level) *slog.Logger {
	return slog.New(logHandler{console: t.console(), Handler: slog.NewTextHandler(t.console(), &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})})
}

// guestLog writes guests' log lines to stderr, each with its plugin's name.
func (t *terminal) guestLog() func(plugin.LogLine) {
	return func(l plugin.LogLine) {
		var b strings.Builder
		for line := range strings.SplitSeq(l.Text, "\n") {
			b.WriteString("[" + l.Plugin + "] " + line + "\n")
		}
		_, _ = io.WriteString(t.console(), b.String()) // a failed write to the console has no other place to be reported
	}
}

// progress names on stderr the work that takes time.
func (t *terminal) progress(what string) { fmt.Fprintf(t.Err, "%s ...\n", what) }
