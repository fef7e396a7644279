package datadir_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/kv"
)

// signalWriter keeps a log, and closes logged at its first line.
type signalWriter struct {
	strings.Builder
	logged chan struct{}
}

func (w *signalWriter) Write(b []byte) (int, error) {
	if w.Len() == 0 {
		close(w.logged)
	}
	return w.Builder.Write(b)
}

func TestOpenWaitsUntilTheOwnerCloses(t *testing.T) {
	type opener func(context.Context, string, *datadir.Options) (*datadir.Dir, error)
	for name, open := range map[string]opener{"Open": datadir.Open, "OpenShared": datadir.OpenShared} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			owner, err := datadir.Open(t.Context(), dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			log := &signalWriter{logged: make(chan struct{})}
			closed := make(chan error, 1)
			go func() {
				<-log.logged
				closed <- owner.Close()
			}()
			opts := &datadir.Options{WaitLock: time.Minute, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
			next, err := open(t.Context(), dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(<-closed, next.Close()); err != nil {
				t.Error(err)
			}
			if n := strings.Count(log.String(), "waiting for the process"); n != 1 || !strings.Contains(log.String(), "in use by this process") {
				t.Errorf("logged %q, want one warning that names the owner", log)
			}
		})
	}
}

func TestTheWaitForALockEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	owner, err := datadir.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	if _, err := datadir.Open(t.Context(), dir, &datadir.Options{WaitLock: 10 * time.Millisecond}); !errors.Is(err, kv.ErrLocked) {
		t.Errorf("after the wait: %v, want kv.ErrLocked", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := datadir.Open(ctx, dir, &datadir.Options{WaitLock: time.Minute}); host.CodeOf(err) != host.DeadlineExceeded {
		t.Errorf("with a context that ends: %v, want code deadline_exceeded", err)
	}
}
