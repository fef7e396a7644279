package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/agenthost/agenthost/host/plugin"
)

// logger writes warnings to stderr, without the time: whoever reads them is
// there.
func (env *environment) logger() *slog.Logger { return env.loggerFrom(slog.LevelWarn) }

// quietLogger is logger for who does not want warnings: a command that shows
// itself what they are about.
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
		_, _ = io.WriteString(env.console(), b.String()) // there is nobody else to tell
	}
}

// progress tells on stderr what takes time.
func (env *environment) progress(what string) { fmt.Fprintf(env.stderr, "%s ...\n", what) }
