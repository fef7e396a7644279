package badgerkv

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// logger passes Badger's messages to slog. Badger's information messages are about its
// own housekeeping, so they get level debug.
type logger struct {
	slog        *slog.Logger
	info, debug func(format string) // are called before each message of the level; may be nil
}

var _ badger.Logger = logger{}

func newLogger(l *slog.Logger) logger {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return logger{slog: l.With("component", "badger")}
}

func (l logger) Errorf(format string, args ...any)   { l.log(slog.LevelError, format, args) }
func (l logger) Warningf(format string, args ...any) { l.log(slog.LevelWarn, format, args) }

func (l logger) Debugf(format string, args ...any) {
	if l.debug != nil {
		l.debug(format)
	}
	l.log(slog.LevelDebug, format, args)
}

func (l logger) Infof(format string, args ...any) {
	if l.info != nil {
		l.info(format)
	}
	l.log(slog.LevelDebug, format, args)
}

func (l logger) log(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if !l.slog.Enabled(ctx, level) {
		return
	}
	if text := strings.TrimSpace(fmt.Sprintf(format, args...)); text != "" {
		l.slog.Log(ctx, level, text)
	}
}
