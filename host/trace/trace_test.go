package trace_test

// Scenario: runs are kept, read back and shown as trees of spans.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/internal/testhost"
)

// happened yields events a millisecond apart.
func happened(run string, list ...host.EventData) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		for i, data := range list {
			ev := host.Event{Seq: int64(i), Time: at.Add(time.Duration(i) * time.Millisecond), Run: run, Network: "desk", Data: data}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func keep(t *testing.T, dir string, opts *trace.Options, events iter.Seq2[host.Event, error]) {
	t.Helper()
	runs, err := trace.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	for range runs.Keep(events) {
	}
}

func lastRun(t *testing.T, dir string) (*trace.Run, string) {
	t.Helper()
	run, err := trace.Read(dir, trace.Last, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := run.Write(&b); err != nil {
		t.Fatal(err)
	}
	return run, b.String()
}

func answer(text string) *runevent.MessageDone {
	return &runevent.MessageDone{Message: &host.Message{ID: "m", Role: host.Assistant, Parts: []host.Part{&host.Text{Text: text}}},
		Usage: &host.Usage{InputTokens: 10, OutputTokens: 2}}
}

func TestARunIsATree(t *testing.T) {
	dir := t.TempDir()
	inner, err := json.Marshal(host.Event{Run: "r1", Agent: "helper", Time: time.Date(2026, 1, 2, 3, 4, 5, 5e6, time.UTC), Data: &runevent.AgentStarted{Model: "small"}})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, dir, nil, happened("r1",
		&runevent.RunStarted{Tenant: "acme", Thread: "t1"},
		&runevent.RouteChosen{Router: "desk", Next: []string{"clerk"}, Reason: "it\nsays so", Cost: &host.Cost{Instructions: 1234, DurationUS: 200}},
		&runevent.AgentStarted{Model: "m"},
		&runevent.ProcessorRan{Processor: "mask", Level: "agent", Changed: true, MessagesBefore: 3, MessagesAfter: 2, TokensBefore: -1},
		&runevent.ProviderRan{Provider: "memory", Instructions: true, Tools: 2},
		&runevent.ModelCalled{Model: "m", Round: 1, Messages: 4, Tools: 1},
		&runevent.TextDelta{Text: "Hel"}, &runevent.TextDelta{Text: "lo"},
		answer("Hello"),
		&runevent.ToolStarted{ID: "c1", Name: "ask", Arguments: json.RawMessage(`{"a":1}`)},
		&runevent.ToolProgress{ID: "c1", Name: "ask", Kind: "agent", Data: inner},
		&runevent.ToolRetried{ID: "c1", Name: "ask", Attempt: 1, Code: host.Unavailable, Reason: "busy"},
		&runevent.ToolFinished{ID: "c1", Name: "ask", Content: json.RawMessage(`"no"`), IsError: true, DurationUS: 1500},
		&runevent.AgentFinished{FinishReason: chat.FinishStop, Rounds: 1, Usage: host.Usage{InputTokens: 10, OutputTokens: 2}},
		&runevent.RunFinished{FinishReason: chat.FinishStop, Thread: "t1", DurationUS: 12_345, Usage: host.Usage{InputTokens: 10, OutputTokens: 2}, Cost: host.Cost{Instructions: 1234}},
	))
	run, text := lastRun(t, dir)
	if !run.Finished || run.Damaged != 0 || run.Tenant != "acme" || run.Target != "desk" {
		t.Errorf("run = %+v", run)
	}
	_, text, _ = strings.Cut(text, "\n") // the head and the first line have the time in them
	_, text, _ = strings.Cut(text, "\n")
	want := strings.Join([]string{
		"    200µs                         1,234  ├ route desk  → clerk: it says so",
		"     11ms         10 → 2                 └ agent clerk  m, stop",
		"                                           ├ processor mask  agent: 3 → 2 messages",
		"                                           ├ provider memory  + instructions, 2 tools",
		"      3ms         10 → 2                   ├ model m  round 1, 4 messages, 1 tools → \"Hello\"  (first after 1ms)",
		"    1.5ms                                  └ tool ask  {\"a\":1}  ✗ internal: no",
		"      7ms                                    ├ agent helper  small",
		"                                             └ retry after attempt 1  ✗ unavailable: busy",
		"",
	}, "\n")
	want = strings.ReplaceAll(want, "agent clerk", "agent") // the events above name no agent
	if text != want {
		t.Errorf("tree is\n%s\nwant\n%s", text, want)
	}
}

// A run in which something failed, or that was killed, can be read like others.
func TestWhatDidNotEnd(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, nil, happened("r1", &runevent.RunStarted{}, &runevent.AgentStarted{Model: "m"}, &runevent.ModelCalled{Model: "m", Round: 1}))
	run, text := lastRun(t, dir)
	if run.Finished || run.DurationUS != 2000 || !strings.Contains(text, "not finished") || !strings.Contains(text, "round 1, 0 messages  (not ended)") {
		t.Errorf("run = %+v\n%s", run, text)
	}

	names, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(names[0], whole[:len(whole)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	if run, text := lastRun(t, dir); run.Damaged != 1 || !strings.Contains(text, "(1 events could not be read)") || !strings.Contains(text, "└ agent") {
		t.Errorf("half a line: %+v\n%s", run, text)
	}

	keep(t, dir, nil, happened("r2", &runevent.RunStarted{}, &runevent.RunFinished{FinishReason: chat.FinishFailed, Error: host.Errorf(host.Unavailable, "nobody\x1b[31m there")}))
	if _, text := lastRun(t, dir); !strings.Contains(text, "✗ unavailable: nobody [31m there") {
		t.Errorf("a failed run is shown as\n%q", text)
	}
}

// A run that asks a person ends, and another goes on with the answer.
func TestQuestions(t *testing.T) {
	dir := t.TempDir()
	large := json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
	keep(t, dir, nil, happened("r1", &runevent.RunStarted{Thread: "t1"}, &runevent.AgentStarted{Model: "m"},
		&runevent.Interrupted{Question: &host.Question{ID: "q", Kind: host.AskApproval, Tool: "refund", Reason: "it is much", Arguments: large}},
		&runevent.RunFinished{FinishReason: chat.FinishInterrupted}))
	if run, text := lastRun(t, dir); run.Damaged != 0 || !strings.Contains(text, "└ question refund  approval it is much") || !strings.Contains(text, ": interrupted, ") {
		t.Errorf("run = %+v\n%s", run, text)
	}
	if size := sizeOf(t, dir); size > 2_000 {
		t.Errorf("a question of large arguments is kept in %d bytes", size)
	}
	keep(t, dir, nil, happened("r2", &runevent.RunStarted{Thread: "t1", Resumes: "r1"}))
	if run, text := lastRun(t, dir); run.Resumes != "r1" || !strings.Contains(text, "answers run r1") {
		t.Errorf("run = %+v\n%s", run, text)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	dir := t.TempDir()
	large := json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
	long := answer(strings.Repeat("y", 100_000))
	raw := answer("short")
	raw.Raw = large
	keep(t, dir, nil, happened("r0",
		&runevent.ToolStarted{ID: "c", Name: "t", Arguments: large}, &runevent.ToolProgress{ID: "c", Kind: "k", Data: large},
		&runevent.ToolFinished{ID: "c", Name: "t", Content: large}, long, raw,
		&runevent.ArtifactMade{Artifact: &host.Artifact{Name: "a", Parts: long.Message.Parts}},
		&runevent.StatePatched{Ops: []host.PatchOp{{Op: "add", Path: "/a", Value: large}}},
		&runevent.ProcessorRan{Report: large},
	))
	if size := sizeOf(t, dir); size > 5_000 {
		t.Errorf("a run of large contents is kept in %d bytes", size)
	}
	if _, text := lastRun(t, dir); !strings.Contains(text, `tool t  "(100002 bytes, left out)" → "(100002 bytes, left out)"`) {
		t.Errorf("what was left out is shown as\n%s", text)
	}
	if got := len(long.Message.Parts[0].(*host.Text).Text); got != 100_000 {
		t.Errorf("the event's own message has %d bytes now", got)
	}

	many := make([]host.EventData, 1000)
	for i := range many {
		many[i] = &runevent.ModelCalled{Model: "m", Round: i}
	}
	keep(t, dir, &trace.Options{RunBytes: 2000}, happened("r1", append(many, &runevent.RunFinished{FinishReason: chat.FinishStop})...))
	if run, _ := lastRun(t, dir); !run.Finished || len(run.Spans) > 20 {
		t.Errorf("a long run: finished %t, with %d spans", run.Finished, len(run.Spans))
	}

	for i := range 5 {
		keep(t, dir, &trace.Options{Runs: 3}, happened(fmt.Sprint("n", i), &runevent.RunStarted{}))
	}
	if list, err := trace.List(dir, nil); err != nil || len(list) != 3 {
		t.Errorf("List: %d runs, %v; want the last 3", len(list), err)
	}
}

func sizeOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v; others can read it", name, info.Mode())
		}
	}
	return size
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, nil, happened("ab1", &runevent.RunStarted{Thread: "t1"}))
	keep(t, dir, nil, happened("ab2", &runevent.RunStarted{Thread: "t2"}))
	for _, test := range []struct {
		dir, run, thread string
		code             host.Code
	}{
		{dir, "ab1", "t1", ""},
		{dir, "ab2", "t2", ""},
		{dir, trace.Last, "t2", ""},
		{dir, "ab", "", host.InvalidArgument},
		{dir, "c", "", host.NotFound},
		{dir, "", "", host.NotFound},
		{dir, "../ab1", "", host.NotFound},
		{filepath.Join(dir, "none"), trace.Last, "", host.NotFound},
		{t.TempDir(), trace.Last, "", host.NotFound},
	} {
		run, err := trace.Read(test.dir, test.run, nil)
		if host.CodeOf(err) != test.code || err == nil && run.Thread != test.thread {
			t.Errorf("Read(%q) = %+v, %v; want thread %q, code %q", test.run, run, err, test.thread, test.code)
		}
	}
}

// What is kept is what the caller sees, and an error reaches it.
func TestKeepChangesNothing(t *testing.T) {
	runs, err := trace.Open(filepath.Join(t.TempDir(), "made"), nil)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	events := func(yield func(host.Event, error) bool) {
		for ev := range happened("r", &runevent.RunStarted{}, &runevent.TextDelta{Text: "a"}, &runevent.TextDelta{Text: "b"}) {
			if !yield(ev, nil) {
				return
			}
		}
		yield(host.Event{}, broken)
	}
	var types []string
	for ev, err := range runs.Keep(events) {
		if err != nil {
			types = append(types, err.Error())
			continue
		}
		types = append(types, ev.Data.Type())
	}
	if got := strings.Join(types, " "); got != "run.started text.delta text.delta broken" {
		t.Errorf("Keep yields %s", got)
	}
	for range runs.Keep(events) {
		break // must not go on
	}
}

// A run of a host, as it really is.
func TestKeepARun(t *testing.T) {
	dir := t.TempDir()
	runs, err := trace.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	tool := host.NewTool("add", "Adds.", func(_ context.Context, _ *host.Call, in struct{ A, B int }) (int, error) { return in.A + in.B, nil }, nil)
	model := hosttest.NewModel(hosttest.Reply{Calls: []*host.ToolCall{{Name: "add", Arguments: json.RawMessage(`{"A":1,"B":2}`)}}}, hosttest.Say("3"))
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{tool}})
	h := testhost.NewSingle(t, nil)
	for _, err := range runs.Keep(h.Stream(t.Context(), agent, &host.Request{Text: "1+2"})) {
		if err != nil {
			t.Fatal(err)
		}
	}
	run, text := lastRun(t, dir)
	if run.Damaged != 0 || !run.Finished || len(run.Spans) != 1 || len(run.Spans[0].Spans) != 3 {
		t.Errorf("run = %+v\n%s", run, text)
	}
	for _, says := range []string{"agent clerk  scripted, stop", `tool add  {"A":1,"B":2} → 3`, `round 2, 3 messages, 1 tools → "3"`} {
		if !strings.Contains(text, says) {
			t.Errorf("the tree lacks %q:\n%s", says, text)
		}
	}
}
