package trace_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/internal/longtest"
)

// storeTrace keeps a short run and returns its file.
func storeTrace(t *testing.T, dir, run string) (path string) {
	t.Helper()
	l, err := trace.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range []host.EventData{
		&runevent.RunStarted{Thread: "thread"},
		&runevent.ToolStarted{ID: "c1", Name: "search", Arguments: json.RawMessage(`{"q":"asked"}`)},
		&runevent.ToolFinished{ID: "c1", Name: "search", Content: json.RawMessage(`"found"`)},
		&runevent.RunFinished{FinishReason: chat.FinishStop, Thread: "thread"},
	} {
		l.Trace(host.Scope{}, host.Event{Seq: int64(i + 1), Time: time.Now(), Run: run, Agent: "clerk", Data: data})
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*-"+run+".jsonl"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("the files of the run are %q, %v", paths, err)
	}
	return paths[0]
}

// A changed bit of a run's file changes no shown event, or its line counts as damaged.
func TestAChangedBitOfATraceIsFound(t *testing.T) {
	dir := t.TempDir()
	path := storeTrace(t, dir, "run")
	read := func() (*trace.Run, string) {
		run, err := trace.Read(dir, "run", nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		return run, string(text)
	}
	whole, want := read()
	if whole.Damaged != 0 || !whole.Finished {
		t.Fatalf("the whole run is %s", want)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range text {
		for n := range longtest.Rounds(1, 8) {
			bit := (at + n) % 8
			changed := bytes.Clone(text)
			changed[at] ^= 1 << bit
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			if run, got := read(); got != want && run.Damaged == 0 {
				t.Fatalf("bit %d of byte %d of %d is changed, and the run is %s", bit, at, len(text), got)
			}
		}
	}
}

func TestTheFileOfAnotherRunIsDamage(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(storeTrace(t, dir, "another"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(storeTrace(t, dir, "run"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if run, err := trace.Read(dir, "run", nil); err != nil || run.Damaged != 4 || len(run.Spans) != 0 {
		t.Errorf("Read = %+v, %v, want four damaged lines and no more", run, err)
	}
}
