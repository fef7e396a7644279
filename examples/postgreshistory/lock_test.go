package postgreshistory_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
)

func TestAThreadThatAnotherHostHoldsIsWaitedFor(t *testing.T) {
	schema := newSchema(t)
	one, two := open(t, schema, postgreshistory.Options{}), open(t, schema, postgreshistory.Options{})
	unlock, err := one.LockThread(t.Context(), request("t1", "r1", nil))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error)
	go func() { _, err := two.LockThread(ctx, request("t1", "r2", nil)); refused <- err }()
	other, err := two.LockThread(t.Context(), request("t2", "r3", nil)) // another thread is free
	if err != nil {
		t.Fatal(err)
	}
	other()
	cancel()
	if err := <-refused; host.CodeOf(err) != host.Canceled {
		t.Errorf("LockThread of a held thread: %v, want code %s when the context ends", err, host.Canceled)
	}
	taken := make(chan func())
	go func() {
		unlock, err := two.LockThread(t.Context(), request("t1", "r2", nil))
		if err != nil {
			t.Error(err)
		}
		taken <- unlock
	}()
	unlock()
	unlock() // twice does nothing more
	(<-taken)()
}

// A host that died gives its threads back when its leases run out.
func TestALeaseRunsOut(t *testing.T) {
	schema := newSchema(t)
	one, two := open(t, schema, postgreshistory.Options{}), open(t, schema, postgreshistory.Options{})
	unlock, err := one.LockThread(t.Context(), request("t1", "r1", nil))
	if err != nil {
		t.Fatal(err)
	}
	exec(t, dsnOf(t), "update "+schema+".locks set until = clock_timestamp() - interval '1 second'")
	second, err := two.LockThread(t.Context(), request("t1", "r2", nil))
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	one.Close() // the late one has given back what it no longer has
	var held int
	if err := connect(t, dsnOf(t)).QueryRow(t.Context(), "select count(*) from "+schema+".locks").Scan(&held); err != nil || held != 1 {
		t.Errorf("%d leases, %v; the late host took the new holder's", held, err)
	}
	second()
}

func TestALeaseIsRenewedWhileItIsHeld(t *testing.T) {
	schema := newSchema(t)
	told := make(chan string, 100)
	s := open(t, schema, postgreshistory.Options{Logger: slog.New(lines(told))})
	s.SetRenewEvery(time.Millisecond)
	unlock, err := s.LockThread(t.Context(), request("t1", "r1", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	exec(t, dsnOf(t), "update "+schema+".locks set until = clock_timestamp() - interval '1 second'")
	conn := connect(t, dsnOf(t))
	for renewed := false; !renewed; {
		if err := conn.QueryRow(t.Context(), "select until > clock_timestamp() from "+schema+".locks").Scan(&renewed); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, dsnOf(t), "update "+schema+".locks set holder = 'somebody else'")
	for line := ""; !strings.Contains(line, "lost"); { // one that came late may not have been renewed before
		line = <-told
	}
	exec(t, dsnOf(t), "drop table "+schema+".locks")
	for line := ""; !strings.Contains(line, "not renewed"); {
		line = <-told
	}
}

// lines is a log that is read line by line; what does not fit is dropped.
type lines chan string

func (lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l lines) WithGroup(string) slog.Handler          { return l }
func (l lines) Handle(_ context.Context, r slog.Record) error {
	select {
	case l <- r.Message:
	default:
	}
	return nil
}

func TestTooManyWait(t *testing.T) {
	s := open(t, newSchema(t), postgreshistory.Options{MaxWaiting: 1})
	unlock, err := s.LockThread(t.Context(), request("t1", "r1", nil))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan error)
	for range 2 {
		go func() { _, err := s.LockThread(ctx, request("t1", "r", nil)); answers <- err }()
	}
	if err := <-answers; host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("the third: %v, want code %s", err, host.ResourceExhausted)
	}
	cancel()
	if err := <-answers; host.CodeOf(err) != host.Canceled {
		t.Errorf("the second: %v, want code %s", err, host.Canceled)
	}
	unlock()
}
