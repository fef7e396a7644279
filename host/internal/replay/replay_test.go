package replay_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/statedoc"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/runlog"
)

// steps are those of a run whose process ended while its second call was at work, in
// the stored form of version 1.
var steps = []string{
	`{"begin":{"v":1,"input":{"id":"m1","role":"user","parts":[{"type":"text","text":"hi"}],"created_at":"2026-01-02T03:04:05Z"},"head":"h"}}`,
	`{"route":{"next":["clerk"],"usage":{"input_tokens":0,"output_tokens":0},"cost":{"instructions":0,"duration_us":0},"tokens":0}}`,
	`{"state":[{"op":"add","path":"/n","value":1}],"answer":{"agent":"clerk","first":true,"created_at":"2026-01-02T03:04:06Z","round":1,"message":{"id":"m2","role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"look","arguments":{}},{"type":"tool_call","id":"c2","name":"pay","arguments":{}}],"created_at":"2026-01-02T03:04:06Z"},"finish_reason":"tool_calls","usage":{"input_tokens":3,"output_tokens":2},"cost":{"instructions":0,"duration_us":0},"tokens":5}}`,
	`{"call":{"id":"c1","done":{"message":{"id":"m3","role":"tool","parts":[{"type":"tool_result","id":"c1","name":"look","content":1}],"created_at":"2026-01-02T03:04:07Z"}}}}`,
	`{"call":{"id":"c2","attempt":1}}`,
	`{"step":{"name":"/once","done":true,"result":7}}`,
}

func record(steps ...string) *runlog.Record {
	rec := &runlog.Record{Ref: runlog.Ref{Run: "r", Fence: 1}, Status: runlog.Open}
	for _, s := range steps {
		rec.Steps = append(rec.Steps, json.RawMessage(s))
	}
	return rec
}

func TestReadPutsTheStepsTogether(t *testing.T) {
	run, err := replay.Read(record(steps...))
	if err != nil {
		t.Fatal(err)
	}
	cur := run.Current
	if cur == nil || cur.Agent != "clerk" || cur.Result.ID != "r/0" || cur.Result.Rounds != 1 || len(cur.Calls) != 2 {
		t.Fatalf("at work is %+v, want clerk in its first round with two calls", cur)
	}
	if done := cur.Calls[0].Done; done == nil || done.Message.ID != "m3" {
		t.Errorf("the outcome of the first call is %+v, want m3", done)
	}
	if cur.Calls[1].Done != nil || cur.Calls[1].Begun != 1 {
		t.Errorf("the second call is %+v, want one that began", cur.Calls[1])
	}
	if run.Tokens != 5 || run.ToolCalls != 2 || len(run.Patches) != 1 || run.Named["/once"] == nil || run.Begin.Head != "h" {
		t.Errorf("the run is %+v", run)
	}
	if ids := run.MessageIDs(); !ids["m2"] || !ids["m3"] || ids["m1"] {
		t.Errorf("the messages of the run are %v, want m2 and m3", ids)
	}
}

func TestReadRefusesDamagedSteps(t *testing.T) {
	for name, c := range map[string]struct {
		steps []string
		want  fault.Code
	}{
		"no step":                   {nil, fault.DataLoss},
		"not JSON":                  {[]string{`{`}, fault.DataLoss},
		"no beginning":              {steps[1:], fault.DataLoss},
		"two beginnings":            {[]string{steps[0], steps[0]}, fault.DataLoss},
		"an unknown kind":           {[]string{steps[0], `{"other":{}}`}, fault.DataLoss},
		"an outcome without a call": {[]string{steps[0], steps[3]}, fault.DataLoss},
		"a message that is null":    {slices.Concat(steps[:3], []string{`{"agent":{"finish_reason":"stop","messages":[null]}}`}), fault.DataLoss},
		"another version":           {[]string{`{"begin":{"v":2}}`}, fault.FailedPrecondition},
	} {
		if _, err := replay.Read(record(c.steps...)); fault.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want code %s", name, err, c.want)
		}
	}
}

// An entry is written as it was stored.
func TestEntriesKeepTheirStoredForm(t *testing.T) {
	for _, s := range steps {
		var e replay.Entry
		if err := json.Unmarshal([]byte(s), &e); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		raw, err := json.Marshal(e)
		if diff := cmp.Diff(s, string(raw)); err != nil || diff != "" {
			t.Errorf("%v, stored form (-want +got):\n%s", err, diff)
		}
	}
}

// appended is a journal that keeps the steps that it gets.
type appended struct {
	steps []string
	fails error
}

func (a *appended) AppendSteps(_ context.Context, _ runlog.Ref, at int, steps []json.RawMessage) error {
	if a.fails != nil {
		return a.fails
	}
	if at != len(a.steps)+1 {
		return fault.Errorf(fault.Conflict, "steps at %d behind %d", at, len(a.steps))
	}
	for _, s := range steps {
		a.steps = append(a.steps, string(s))
	}
	return nil
}

func TestRecorderStoresNotedStepsWithTheNextCommit(t *testing.T) {
	state, err := statedoc.New(map[string]any{}, 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	journal := &appended{}
	w := replay.NewRecorder(state, journal, runlog.Ref{Run: "r"}, 1)
	if err := state.Patch([]jsondoc.Op{{Op: "add", Path: "/a", Value: json.RawMessage("1")}}); err != nil {
		t.Fatal(err)
	}
	w.Note(replay.Entry{Step: &replay.NamedStep{Name: "a", Failed: true}})
	if len(journal.steps) != 0 {
		t.Errorf("noted steps are stored already: %v", journal.steps)
	}
	if err := w.Commit(t.Context(), replay.Entry{Step: &replay.NamedStep{Name: "b", Done: true, Result: json.RawMessage("2")}}); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"state":[{"op":"add","path":"/a","value":1}],"step":{"name":"a","failed":true}}`, `{"step":{"name":"b","done":true,"result":2}}`}
	if !slices.Equal(journal.steps, want) {
		t.Errorf("stored are %v, want %v", journal.steps, want)
	}
	journal.fails = fault.Errorf(fault.Unavailable, "down")
	if err := w.Commit(t.Context(), replay.Entry{}); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("Commit to a journal that is down: %v", err)
	}
	journal.fails = nil
	if err := w.Commit(t.Context(), replay.Entry{}); fault.CodeOf(err) != fault.Unavailable || w.Err() == nil {
		t.Errorf("Commit after a failure: %v; a step would be missing", err)
	}
}

// A call that replaces a large value, and then makes thousands of others, leaves that value in
// the journal once: beside the change, not in each of the steps.
func TestAnUndoThatStaysIsWrittenOnce(t *testing.T) {
	const value = 100 << 10
	state, err := statedoc.New(map[string]any{"large": strings.Repeat("x", value)}, 10*value, nil)
	if err != nil {
		t.Fatal(err)
	}
	journal := &appended{}
	w := replay.NewRecorder(state, journal, runlog.Ref{Run: "r"}, 1)
	step := func(ended *statedoc.View) {
		t.Helper()
		if err := w.Commit(t.Context(), replay.Entry{Step: &replay.NamedStep{Name: "s", Done: true}, Ended: ended}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(v *statedoc.View, path, value string) {
		t.Helper()
		if err := v.Patch([]jsondoc.Op{{Op: "add", Path: path, Value: json.RawMessage(value)}}); err != nil {
			t.Fatal(err)
		}
	}
	undone := func() (ops []string) {
		t.Helper()
		run, err := replay.Read(record(slices.Concat(steps[:1], journal.steps)...))
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range run.Undo {
			ops = append(ops, op.Op+" "+op.Path)
		}
		return ops
	}
	call, other := state.ForCall(nil), state.ForCall(nil)
	patch(call, "/large", "1")
	for range 100 {
		step(nil)
		if got := undone(); !slices.Equal(got, []string{"replace /large"}) {
			t.Fatalf("the undo behind %d steps is %q", len(journal.steps), got)
		}
	}
	if size := len(strings.Join(journal.steps, "")); size < value || size > 2*value {
		t.Errorf("100 steps have %d bytes, want those of a value of %d once", size, value)
	}
	patch(other, "/more", "2")
	step(nil)
	if got := undone(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"remove /more", "replace /large"}) {
		t.Errorf("the undo with another change is %q", got)
	}
	step(call)
	step(nil)
	if got := undone(); !slices.Equal(got, []string{"remove /more"}) {
		t.Errorf("the undo behind the outcome of the call is %q", got)
	}
	step(other)
	if got := undone(); len(got) > 0 {
		t.Errorf("the undo behind the outcomes of both calls is %q", got)
	}
	third := state.ForCall(nil)
	patch(third, "/more", "3")
	step(nil)
	if got := undone(); !slices.Equal(got, []string{"replace /more"}) {
		t.Errorf("the undo of the third call is %q", got)
	}
}

// FuzzRead: stored steps are read or refused with a code.
func FuzzRead(f *testing.F) {
	for i := range steps {
		f.Add([]byte(steps[0]), []byte(steps[i]))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		run, err := replay.Read(record(string(first), steps[2], string(second)))
		if code := fault.CodeOf(err); err != nil && code != fault.DataLoss && code != fault.FailedPrecondition || err == nil && run.Begin == nil {
			t.Errorf("Read of %q, %q: %+v, %v", first, second, run, err)
		}
	})
}

// A run is killed when the second of two calls is done, and is interrupted before its caller
// gets there again.
func TestNestedCallsBehindAGapAreKept(t *testing.T) {
	done := &replay.CallDone{Message: chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: "c/1", Name: "pay", Content: json.RawMessage(`"paid"`)})}
	calls := replay.NewNested()
	calls.Restore(map[string][]*replay.NestedCall{"k": {nil, {Name: "pay", Arguments: json.RawMessage(`{}`), Done: done}}})
	raw, err := json.Marshal(calls.Kept("k", "c", func(*replay.CallDone) {}))
	if err != nil {
		t.Fatal(err)
	}
	call := &replay.OpenCall{Key: "k"}
	if err := json.Unmarshal(raw, &call.Nested); err != nil {
		t.Fatal(err)
	}
	byKey := map[string][]*replay.NestedCall{}
	replay.AddNested(byKey, []*replay.OpenCall{call})
	next := replay.NewNested()
	next.Restore(byKey)
	kept, more, err := next.Reach("k", 0, []nested.Call{{Name: "look", Arguments: json.RawMessage(`{}`)}, {Name: "pay", Arguments: json.RawMessage(`{}`)}})
	if err != nil || !slices.Equal(more, []int{0}) || kept[1].Done == nil || !kept[1].Applied {
		t.Errorf("Reach = %+v, %v, %v; want the second call with its outcome", kept, more, err)
	}
}

func TestCallsThatAreTakenBackLeaveNoTrace(t *testing.T) {
	calls := replay.NewNested()
	list := []nested.Call{{Name: "look", Arguments: json.RawMessage(`{}`)}, {Name: "pay", Arguments: json.RawMessage(`{}`)}}
	_, more, err := calls.Reach("k", 0, list)
	if err != nil {
		t.Fatal(err)
	}
	if calls.Remove("k", more); calls.Has("k") {
		t.Error("the caller has calls that were taken back")
	}
	if _, more, err := calls.Reach("k", 0, []nested.Call{list[1], list[0]}); err != nil || len(more) != 2 {
		t.Errorf("Reach in another order = %v, %v", more, err)
	}
}

// Results are kept whatever their size, and only then is the bound passed.
func TestCallsThatWereMadeBeforeAreReachedBeyondTheBounds(t *testing.T) {
	call := nested.Call{Name: "read", Arguments: json.RawMessage(`{}`)}
	large := &chat.ToolResult{ID: "c/0", Name: "read", Content: json.RawMessage(`"` + strings.Repeat("x", nested.MaxRunBytes) + `"`)}
	calls := replay.NewNested()
	calls.Restore(map[string][]*replay.NestedCall{"k": {{Name: call.Name, Arguments: call.Arguments, Done: &replay.CallDone{Message: chat.NewMessage(chat.ToolRole, large)}}}})
	if kept, more, err := calls.Reach("k", 0, []nested.Call{call}); err != nil || len(more) > 0 || kept[0].Done == nil {
		t.Errorf("Reach = %v, %v; want the call with its outcome", more, err)
	}
	if _, _, err := calls.Reach("k", 1, []nested.Call{call}); fault.CodeOf(err) != fault.ResourceExhausted {
		t.Errorf("Reach of another call = %v, want %s", err, fault.ResourceExhausted)
	}
}
