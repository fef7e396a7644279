package trace_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/trace"
)

// xorKeys stand for keys: what is sealed with them is not the text.
type xorKeys struct{ destroyed map[string]bool }

func (k *xorKeys) Seal(tenant, purpose string, text []byte) ([]byte, error) {
	if k.destroyed[tenant] {
		return nil, errors.New("destroyed")
	}
	return xored(append([]byte(tenant+"/"+purpose+"/"), text...)), nil
}

func (k *xorKeys) Open(purpose string, sealed []byte) ([]byte, error) {
	tenant, rest, _ := bytes.Cut(xored(sealed), []byte("/"))
	text, ok := bytes.CutPrefix(rest, []byte(purpose+"/"))
	if !ok || k.destroyed[string(tenant)] {
		return nil, errors.New("destroyed")
	}
	return text, nil
}

func xored(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0x5A
	}
	return out
}

// traced gives a run's events to a log as a host does.
func traced(l *trace.Log, tenant, run, thread, text string) {
	for i, data := range []host.EventData{&runevent.RunStarted{Tenant: tenant, Thread: thread}, &runevent.AgentStarted{Model: "m"},
		&runevent.MessageDone{Message: host.AssistantText(text)}, &runevent.RunFinished{FinishReason: chat.FinishStop}} {
		l.Trace(host.Scope{Tenant: tenant, Run: run}, host.Event{Seq: int64(i), Time: time.Now(), Run: run, Agent: "a", Data: data})
	}
}

func containing(t *testing.T, dir, text string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			files++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTracesAreEncryptedAndTheTenants(t *testing.T) {
	dir, keys := t.TempDir(), &xorKeys{destroyed: map[string]bool{}}
	l, err := trace.Open(dir, &trace.Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	traced(l, "acme", "r1", "t1", "the launch code")
	traced(l, "globex", "r2", "t1", "the launch code")
	if n := containing(t, dir, "launch"); n != 0 {
		t.Errorf("%d files show a text", n)
	}
	for tenant, want := range map[string]int{"": 2, "acme": 1, "globex": 1, "other": 0} {
		list, err := trace.List(dir, &trace.ReadOptions{Tenant: tenant, Keys: keys})
		if err != nil || len(list) != want {
			t.Errorf("List for tenant %q = %d runs, %v, want %d", tenant, len(list), err, want)
		}
	}
	if run, err := trace.Read(dir, "r1", &trace.ReadOptions{Tenant: "acme", Keys: keys}); err != nil || run.Thread != "t1" || !run.Finished || run.Damaged != 0 {
		t.Errorf("Read = %+v, %v", run, err)
	}
	if _, err := trace.Read(dir, "r1", &trace.ReadOptions{Tenant: "globex", Keys: keys}); host.CodeOf(err) != host.NotFound {
		t.Errorf("Read of another tenant's run = %v, want not_found", err)
	}
	if _, err := trace.Read(dir, "r1", nil); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Read without keys = %v, want failed_precondition", err)
	}
	// Without its key a run cannot be read, and no other is kept for the tenant.
	keys.destroyed["acme"] = true
	if list, err := trace.List(dir, &trace.ReadOptions{Keys: keys}); err != nil || len(list) != 1 {
		t.Errorf("List after a key was destroyed = %d runs, %v, want 1", len(list), err)
	}
	traced(l, "acme", "r3", "t1", "more")
	if n, err := l.CountTenant("acme"); err != nil || n != 1 {
		t.Errorf("%d runs are kept of a tenant without a key, %v, want the one of before", n, err)
	}
}

// erasingKeys are those of a store that erases the tenant of a run.
type erasingKeys struct{ xorKeys }

func (*erasingKeys) Seal(string, string, []byte) ([]byte, error) {
	return nil, fmt.Errorf("seal: %w", kv.ErrErasing)
}

func TestRunsOfATenantThatIsBeingErasedAreNotWarnedOf(t *testing.T) {
	var logged bytes.Buffer
	l, err := trace.Open(t.TempDir(), &trace.Options{Keys: &erasingKeys{}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	traced(l, "acme", "r1", "t1", "hello")
	if logged.Len() > 0 {
		t.Errorf("the log has %s", &logged)
	}
}

func TestTracesGoWithTheirThreadAndTenant(t *testing.T) {
	for name, keys := range map[string]trace.Keys{"encrypted": &xorKeys{}, "as they are": nil} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := trace.Open(dir, &trace.Options{Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			traced(l, "acme", "r1", "t1", "one")
			traced(l, "acme", "r2", "t2", "two")
			traced(l, "globex", "r3", "t1", "three")
			// One goes on while its thread and tenant are erased.
			going := func(i int, data host.EventData) {
				l.Trace(host.Scope{Tenant: "acme", Run: "r4"}, host.Event{Seq: int64(i), Time: time.Now(), Run: "r4", Data: data})
			}
			going(0, &runevent.RunStarted{Tenant: "acme", Thread: "t1"})
			if err := l.EraseThread("acme", "t1"); err != nil {
				t.Fatal(err)
			}
			going(1, &runevent.AgentStarted{Model: "m"})
			count := func(tenant string) int {
				t.Helper()
				n, err := l.CountTenant(tenant)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			if a, g := count("acme"), count("globex"); a != 1 || g != 1 {
				t.Errorf("after a thread was erased, %d and %d runs are kept, want 1 and 1", a, g)
			}
			if err := l.EraseTenant("acme"); err != nil {
				t.Fatal(err)
			}
			going(2, &runevent.RunFinished{FinishReason: chat.FinishStop})
			if a, g := count("acme"), count("globex"); a != 0 || g != 1 {
				t.Errorf("after a tenant was erased, %d and %d runs are kept, want 0 and 1", a, g)
			}
			if err := l.EraseTenant("acme"); err != nil {
				t.Errorf("EraseTenant again = %v", err)
			}
		})
	}
}

// An earlier version kept the runs of all tenants side by side, in clear.
func TestRunsOfAnEarlierVersion(t *testing.T) {
	file := func(t *testing.T, keys trace.Keys) (dir, path string, l *trace.Log) {
		dir = t.TempDir()
		path = filepath.Join(dir, "20260102T030405.000000000Z-old.jsonl")
		line := `{"type":"run.started","run":"old","time":"2026-01-02T03:04:05Z","data":{"tenant":"acme","thread":"t1"}}` + "\n"
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := trace.Open(dir, &trace.Options{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return dir, path, l
	}
	dir, _, l := file(t, nil)
	if run, err := trace.Read(dir, "old", &trace.ReadOptions{Tenant: "acme"}); err != nil || run.Thread != "t1" {
		t.Errorf("Read = %+v, %v", run, err)
	}
	if _, err := trace.Read(dir, "old", &trace.ReadOptions{Tenant: "globex"}); host.CodeOf(err) != host.NotFound {
		t.Errorf("Read for another tenant = %v, want not_found", err)
	}
	if err := l.EraseTenant("globex"); err != nil || containing(t, dir, "t1") != 1 {
		t.Errorf("EraseTenant of another = %v, and %d files are left, want 1", err, containing(t, dir, "t1"))
	}
	if err := l.EraseTenant("acme"); err != nil || containing(t, dir, "t1") != 0 {
		t.Errorf("EraseTenant = %v, and %d files are left, want 0", err, containing(t, dir, "t1"))
	}
	if _, path, _ := file(t, &xorKeys{}); path != "" {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("a run in clear stays in an encrypted directory: %v", err)
		}
	}
}
