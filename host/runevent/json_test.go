package runevent_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runlog"
)

func TestEventsComeBack(t *testing.T) {
	at := time.Date(2026, 11, 21, 20, 0, 0, 123, time.UTC)
	message := chat.AssistantText("hello")
	for _, data := range []runevent.Data{
		&runevent.TextDelta{Text: "é\n"},
		&runevent.MessageDone{Message: message, Usage: &chat.Usage{InputTokens: 3}},
		&runevent.StatePatched{Ops: []jsondoc.Op{{Op: "add", Path: "/n", Value: json.RawMessage("9007199254740993")}, {Op: "remove", Path: "/x"}}},
		&runevent.ArtifactMade{Artifact: &chat.Artifact{Name: "plan", Parts: []chat.Part{&chat.Text{Text: "x"}}}},
		&runevent.Interrupted{Question: &runlog.Question{ID: "q", Kind: runlog.AskInput, Arguments: json.RawMessage(`{}`)}},
		&runevent.RunFinished{FinishReason: chat.FinishFailed, Error: fault.Errorf(fault.NotFound, "it is gone").WithHint("look")},
		&runevent.UnknownEvent{Name: "turn.ended", JSON: json.RawMessage(`{"later":[1]}`)},
	} {
		sent, err := json.Marshal(runevent.Event{Seq: 7, Time: at, Run: "r", Network: "n", Agent: "a", Data: data})
		if err != nil {
			t.Fatal(err)
		}
		var ev runevent.Event
		if err := json.Unmarshal(sent, &ev); err != nil {
			t.Errorf("%s: %v", sent, err)
			continue
		}
		if again, err := json.Marshal(ev); err != nil || string(again) != string(sent) || ev.Data.Type() != data.Type() {
			t.Errorf("comes back as %s, %v\nwant          %s", again, err, sent)
		}
	}
}

// What is an event in event.go is one that can be read.
func TestEveryEventIsRead(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "Type" {
			continue
		}
		n++
		name := fn.Body.List[0].(*ast.ReturnStmt).Results[0].(*ast.BasicLit).Value
		var ev runevent.Event
		if err := json.Unmarshal([]byte(`{"type":`+name+`,"data":{}}`), &ev); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, unknown := ev.Data.(*runevent.UnknownEvent); unknown {
			t.Errorf("events of type %s cannot be read: add a line to eventTypes", name)
		}
	}
	if n < 20 {
		t.Errorf("found %d events in event.go", n)
	}
}

func TestBadEventsAreRefused(t *testing.T) {
	for _, raw := range []string{`[]`, `{}`, `{"type":"text.delta"}`, `{"type":"text.delta","data":[]}`, `{"type":1,"data":{}}`,
		`{"seq":"1","type":"x","data":{}}`, `{"type":"message","data":{"message":{"role":7}}}`, `{"type":"state.patch","data":{"ops":[{"op":"x"}]}}`} {
		ev := runevent.Event{Run: "before"}
		if err := json.Unmarshal([]byte(raw), &ev); err == nil {
			t.Errorf("%s is read as %+v", raw, ev)
		}
		if diff := cmp.Diff("before", ev.Run); diff != "" {
			t.Errorf("%s has changed the event: %s", raw, diff)
		}
	}
}
