package runevent_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/runevent"
)

// written are the events that are written member by member.
var written = []runevent.Data{
	&runevent.TextDelta{}, &runevent.ReasoningDelta{}, &runevent.RunStarted{}, &runevent.AgentStarted{}, &runevent.ModelCalled{}, &runevent.MessageDone{},
	&runevent.ToolStarted{}, &runevent.ToolFinished{}, &runevent.AgentFinished{}, &runevent.RunFinished{},
}

// TestEventsAreWrittenAsByEncodingJSON fills the fields of each event at random, whichever it
// has, and compares: a field that is added to an event is in the test at once.
func TestEventsAreWrittenAsByEncodingJSON(t *testing.T) {
	for _, of := range written {
		t.Run(of.Type(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				data := reflect.New(reflect.TypeOf(of).Elem())
				fill(t, data.Elem(), "data")
				compareWithEncodingJSON(t, data.Interface().(runevent.Data))
			})
		})
	}
}

// text draws texts with all that JSON escapes.
var text = rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"a\"b\\c", "\x00\n\r\t\x1f\u007f", "<&>\u2028\u2029", "\xff\xc0", "é🙂"}))

// fill draws a value for v.
func fill(t *rapid.T, v reflect.Value, name string) {
	switch into := v.Addr().Interface().(type) {
	case *json.RawMessage:
		*into = rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage("null"), json.RawMessage(`{"a":[1,"x"]}`), json.RawMessage("9007199254740993"), json.RawMessage(`"<\u2028>"`)}).Draw(t, name)
		return
	case **chat.Message:
		*into = rapid.SampledFrom([]*chat.Message{nil, chat.AssistantText("hello"), {ID: "m", Role: chat.ToolRole, Parts: []chat.Part{&chat.ToolResult{ID: "c", Name: "t", Content: json.RawMessage(`"<x>"`)}}}}).Draw(t, name)
		return
	case **fault.Error:
		*into = rapid.SampledFrom([]*fault.Error{nil, fault.Errorf(fault.NotFound, "it is <gone>").WithHint("look")}).Draw(t, name)
		return
	case **runevent.RunResult: // not written
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text.Draw(t, name))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name) {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), name+"."+v.Type().Field(i).Name)
		}
	default:
		t.Fatalf("the test draws no values of %s for %s", v.Type(), name)
	}
}

// compareWithEncodingJSON compares the written data of an event with the output of
// encoding/json, which also escapes the characters of HTML.
func compareWithEncodingJSON(t interface {
	Helper()
	Fatal(...any)
	Errorf(string, ...any)
}, data runevent.Data) {
	t.Helper()
	got, err := runevent.Event{Time: time.Unix(0, 0).UTC(), Data: data}.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, own, _ := bytes.Cut(got, []byte(`,"data":`))
	own = own[:len(own)-1]
	if err := jsondoc.Check(own); err != nil {
		t.Errorf("%s is not JSON: %v", own, err)
	}
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil {
		t.Fatal(err)
	}
	same := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029", `\b`, `\u0008`, `\f`, `\u000c`, `\ufffd`, "\ufffd")
	if a, b := same.Replace(string(own)), same.Replace(strings.TrimSpace(want.String())); a != b {
		t.Errorf("%T is written as\n%s, and by encoding/json as\n%s", data, a, b)
	}
}

func TestAnEventThatIsNotJSONIsAnError(t *testing.T) {
	for _, data := range []runevent.Data{
		&runevent.ToolStarted{Arguments: json.RawMessage(`{"a":`)}, &runevent.ToolFinished{Content: json.RawMessage(`x`)}, &runevent.MessageDone{Raw: json.RawMessage(`{} {}`)},
	} {
		if got, err := (runevent.Event{Data: data}).AppendJSON(nil); err == nil {
			t.Errorf("%T is written as %s", data, got)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	events := []runevent.Data{
		&runevent.RunStarted{Tenant: "acme", Thread: "thread-1", Message: "message-1"}, &runevent.AgentStarted{Model: "m"}, &runevent.ModelCalled{Model: "m", Round: 1, Messages: 1, Tools: 1},
		&runevent.MessageDone{Message: chat.AssistantText("It is shipped."), Usage: &chat.Usage{InputTokens: 10, OutputTokens: 5}},
		&runevent.ToolStarted{ID: "c1", Key: "key", Name: "t", Arguments: json.RawMessage(`{"amount":1042}`)}, &runevent.ToolFinished{ID: "c1", Key: "key", Name: "t", Content: json.RawMessage(`{}`), DurationUS: 12, Cost: &chat.Cost{Plugin: "orders", Instructions: 1000}},
		&runevent.TextDelta{Text: "shipped."}, &runevent.AgentFinished{FinishReason: chat.FinishStop, Rounds: 2}, &runevent.RunFinished{FinishReason: chat.FinishStop, Thread: "thread-1"},
	}
	at := time.Unix(1_700_000_000, 123)
	b.Run("events", func(b *testing.B) {
		var dst []byte
		for b.Loop() {
			for i, data := range events {
				dst, _ = runevent.Event{Seq: int64(i), Time: at, Run: "run-1", Agent: "clerk", Data: data}.AppendJSON(dst[:0])
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		for b.Loop() {
			for _, data := range events {
				_, _ = json.Marshal(data)
			}
		}
	})
}
