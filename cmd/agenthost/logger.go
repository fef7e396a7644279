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
func (env *environment) logger() *slog.Logger { return env.loggerFrom(slog.LevelWarn) }

// quietLogger is logger without warnings, for a command that shows their subject
// itself.
func (env *environment) quietLogger() *slog.Logger { return env.loggerFrom(slog.LevelError) }

func (env *environment) loggerFrom(level slog.Level) *slog.Logger {
	return slog.New(logHandler{console: env.console(), Handler: slog.NewTextHandler(env.console(), &slog.HandlerOptions{
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
func (env *environment) guestLog() func(plugin.LogLine) {
	return func(l plugin.LogLine) {
		var b strings.Builder
		for line := range strings.SplitSeq(l.Text, "\n") {
			b.WriteString("[" + l.Plugin + "] " + line + "\n")
		}
		_, _ = io.WriteString(env.console(), b.String()) // a failed write to the console has no other place to be reported
	}
}

// progress names on stderr the work that takes time.
func (env *environment) progress(what string) { fmt.Fprintf(env.stderr, "%s ...\n", what) }
