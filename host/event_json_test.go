package host_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
)

func TestEventsComeBack(t *testing.T) {
	at := time.Date(2026, 11, 21, 20, 0, 0, 123, time.UTC)
	message := host.AssistantText("hello")
	for _, data := range []host.EventData{
		&host.TextDelta{Text: "é\n"},
		&host.MessageDone{Message: message, Usage: &host.Usage{InputTokens: 3}},
		&host.StatePatched{Ops: []host.PatchOp{{Op: "add", Path: "/n", Value: json.RawMessage("9007199254740993")}, {Op: "remove", Path: "/x"}}},
		&host.ArtifactMade{Artifact: &host.Artifact{Name: "plan", Parts: []host.Part{&host.Text{Text: "x"}}}},
		&host.Interrupted{Question: &host.Question{ID: "q", Kind: host.AskInput, Arguments: json.RawMessage(`{}`)}},
		&host.RunFinished{FinishReason: host.FinishFailed, Error: host.Errorf(host.NotFound, "it is gone").WithHint("look")},
		&host.UnknownEvent{Name: "turn.ended", JSON: json.RawMessage(`{"later":[1]}`)},
	} {
		sent, err := json.Marshal(host.Event{Seq: 7, Time: at, Run: "r", Network: "n", Agent: "a", Data: data})
		if err != nil {
			t.Fatal(err)
		}
		var ev host.Event
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
		var ev host.Event
		if err := json.Unmarshal([]byte(`{"type":`+name+`,"data":{}}`), &ev); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, unknown := ev.Data.(*host.UnknownEvent); unknown {
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
		ev := host.Event{Run: "before"}
		if err := json.Unmarshal([]byte(raw), &ev); err == nil {
			t.Errorf("%s is read as %+v", raw, ev)
		}
		if diff := cmp.Diff("before", ev.Run); diff != "" {
			t.Errorf("%s has changed the event: %s", raw, diff)
		}
	}
}
