package stream_test

// Scenario: all encoders write the same events, and the output equals the golden files.

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/stream"
)

var update = flag.Bool("update", false, "write the golden files anew; read the diff")

// story is the data of some events, and who is at work in them.
type story struct {
	network string
	events  []host.Event
}

func (s *story) tell(agent string, data ...host.EventData) *story {
	for _, d := range data {
		n := int64(len(s.events))
		s.events = append(s.events, host.Event{Seq: n, Time: time.UnixMilli(1735689600000 + n).UTC(),
			Run: "01942e5c-0000-7000-8000-0000abcd1234", Network: s.network, Agent: agent, Data: d})
	}
	return s
}

func answer(parts ...host.Part) *runevent.MessageDone {
	return &runevent.MessageDone{Message: &host.Message{ID: "m1", Role: host.Assistant, Parts: parts}, Usage: &host.Usage{InputTokens: 1, OutputTokens: 2}}
}

func lookCall(id string) *host.ToolCall {
	return &host.ToolCall{ID: id, Name: "look", Arguments: json.RawMessage(`{"order":7}`)}
}

// The stories that both encoders tell.
func stories() map[string]*story {
	desk := func() *story { return &story{network: "desk"} }
	alone := func() *story { return &story{network: "clerk"} }
	started := &runevent.RunStarted{Tenant: "acme", Thread: "t1", Message: "u1"}
	finished := func(reason host.FinishReason, err *host.Error) *runevent.RunFinished {
		return &runevent.RunFinished{FinishReason: reason, Thread: "t1", DurationUS: 10, Error: err}
	}
	return map[string]*story{
		"network": desk().tell("", started,
			&runevent.StatePatched{Ops: []host.PatchOp{{Op: "replace", Path: "", Value: json.RawMessage(`{"n":1}`)}}},
			&runevent.RouteChosen{Router: "code", Next: []string{"clerk", "closer"}}).
			tell("clerk", &runevent.AgentStarted{Model: "m"},
				&runevent.ProcessorRan{Processor: "p", Level: "agent", MessagesBefore: 1, MessagesAfter: 1, TokensBefore: -1, TokensAfter: -1},
				&runevent.ModelCalled{Model: "m", Round: 1, Messages: 1, Tools: 1},
				&runevent.ReasoningDelta{Text: "Hm."}, &runevent.TextDelta{Text: "Let me "}, &runevent.TextDelta{Text: "<look>.\n"},
				&llm.ToolCallDelta{Index: 0, ID: "a", Name: "look", Arguments: `{"ord`}, &llm.ToolCallDelta{Index: 0, Arguments: `er":7}`},
				&llm.ToolCallDelta{Index: 1, ID: "b", Name: "look", Arguments: `{"order":7}`},
				answer(&host.Reasoning{Text: "Hm."}, &host.Text{Text: "Let me <look>.\n"}, lookCall("a"), lookCall("b")),
				&runevent.ToolStarted{ID: "a", Name: "look", Arguments: json.RawMessage(`{"order":7}`)},
				&runevent.ToolStarted{ID: "b", Name: "look", Arguments: json.RawMessage(`{"order":7}`)},
				&runevent.ToolProgress{ID: "a", Name: "look", Kind: "percent", Data: json.RawMessage(`50`)},
				&runevent.ToolFinished{ID: "b", Name: "look", Content: json.RawMessage(`"There is no order 7."`), IsError: true},
				&runevent.ToolFinished{ID: "a", Name: "look", Content: json.RawMessage(`{"n":9007199254740993}`), DurationUS: 5},
				&runevent.MessageDone{Message: &host.Message{ID: "m2", Role: host.ToolRole, Parts: []host.Part{&host.ToolResult{ID: "a", Name: "look", Content: json.RawMessage(`{"n":9007199254740993}`)}}}},
				&runevent.AgentFinished{FinishReason: chat.FinishStop, Rounds: 1}).
			tell("closer", &runevent.AgentStarted{Model: "m"}, answer(&host.Text{Text: "Bye."}, lookCall("c")), &runevent.AgentFinished{FinishReason: chat.FinishMaxRounds, Rounds: 1}).
			tell("", finished(chat.FinishStop, nil)),
		"agent": alone().tell("", started).
			tell("clerk", &runevent.AgentStarted{Model: "m"}, &runevent.TextDelta{Text: "Hello."}, answer(&host.Text{Text: "Hello."}), &runevent.AgentFinished{FinishReason: chat.FinishStop, Rounds: 1}).
			tell("", finished(chat.FinishStop, nil)),
		"network that fails": desk().tell("", started).
			tell("clerk", &runevent.AgentStarted{Model: "m"}, &runevent.TextDelta{Text: "Hel"}, &llm.ToolCallDelta{Index: 0, ID: "a", Name: "look"},
				&runevent.AgentFinished{FinishReason: chat.FinishFailed, Rounds: 1}).
			tell("", finished(chat.FinishFailed, &host.Error{Code: host.Unavailable, Message: "the server broke off"})),
		"agent that asks": alone().tell("", started).
			tell("clerk", &runevent.AgentStarted{Model: "m"}, answer(lookCall("a")), &runevent.ToolStarted{ID: "a", Name: "look", Arguments: json.RawMessage(`{"order":7}`)},
				&runevent.Interrupted{Question: &host.Question{ID: "q1", Kind: host.QuestionKind("approval"), Agent: "clerk", ToolCall: "a", Tool: "look", Arguments: json.RawMessage(`{"order":7}`), Reason: "may I?"}}, &runevent.AgentFinished{FinishReason: chat.FinishInterrupted, Rounds: 1}).
			tell("", finished(chat.FinishInterrupted, nil)),
		"network that never began": desk().tell("", finished(chat.FinishFailed, &host.Error{Code: host.NotFound, Message: "no such thread"})),
	}
}

func TestGolden(t *testing.T) {
	for name, s := range stories() {
		alone := s.network == "clerk"
		for encoding, write := range map[string]func() string{
			"own.sse":    func() string { return encode(t, stream.Own(), s, stream.AppendSSE) },
			"own.ndjson": func() string { return encode(t, stream.Own(), s, stream.AppendNDJSON) },
			"agentkit.sse": func() string {
				return encode(t, stream.AgentKit(&stream.AgentKitOptions{Standalone: alone, User: "u7"}), s, stream.AppendSSE)
			},
			"agentkit.ndjson": func() string {
				return encode(t, stream.AgentKit(&stream.AgentKitOptions{Standalone: alone}), s, stream.AppendNDJSON)
			},
		} {
			t.Run(name+"/"+encoding, func(t *testing.T) {
				golden(t, filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+"."+encoding), write())
			})
		}
	}
}

func encode(t *testing.T, e stream.Encoder, s *story, write func([]byte, stream.Frame) []byte) string {
	t.Helper()
	var out []byte
	var frames []stream.Frame
	for _, ev := range s.events {
		var err error
		if frames, err = e.Encode(frames[:0], ev); err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			if !json.Valid(f.Data) {
				t.Fatalf("%s is not JSON", f.Data)
			}
			out = write(out, f)
		}
	}
	return string(out)
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
