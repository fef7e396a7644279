package responsesmodel_test

// Scenario: go-openai's types, written independently, read our requests and streams.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

// go-openai has types for this protocol, which were written by somebody else.

// TestStreamsAreTheProtocols has go-openai read the streams of testdata: they
// were written by hand.
func TestStreamsAreTheProtocols(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sse")
		t.Run(name, func(t *testing.T) {
			_, m := start(t, &responsesmodel.Options{Store: true}, modeltest.Replay(t, name))
			o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
			text, calls, last := readByOther(t, file)
			if text != o.Text || calls != len(o.Calls()) || (last == openai.ResponseStreamEventFailed) != (o.Err != nil) {
				t.Errorf("%q, %d calls, %v; go-openai reads %q, %d calls, %s", o.Text, len(o.Calls()), o.Err, text, calls, last)
			}
		})
	}
}

func readByOther(t *testing.T, file string) (text string, calls int, last openai.ResponseStreamEventType) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var ev openai.ResponseStreamEvent
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if ev.SequenceNumber != n {
			t.Errorf("event %d has the number %d", n, ev.SequenceNumber)
		}
		n++
		switch ev.Type {
		case openai.ResponseStreamEventOutputTextDelta:
			text += ev.Delta
		case openai.ResponseStreamEventOutputItemDone:
			if ev.Item.Type == "function_call" {
				calls++
			}
		}
		last = ev.Type
	}
	return text, calls, last
}

// TestRequestsAreTheProtocols has go-openai read a request with all that there
// is, and know every field of it.
func TestRequestsAreTheProtocols(t *testing.T) {
	s, m := start(t, &responsesmodel.Options{Effort: "low", Summary: "auto"}, modeltest.Replay(t, "text"))
	warm := 0.5
	req := &llm.Request{
		Messages: []*host.Message{host.NewMessage(host.System, &host.Text{Text: "Be brief."}), host.UserText("hi"),
			host.NewMessage(host.Assistant, thought(), call("call_1", `{}`)), host.NewMessage(host.ToolRole, &host.ToolResult{ID: "call_1", Content: json.RawMessage(`"x"`)})},
		Tools: []llm.ToolSpec{{Name: "lookup_order", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object"}`)}}, ToolChoice: "lookup_order",
		SerialTools: true, Temperature: &warm, MaxOutputTokens: 100, Conversation: "resp_0",
		Output: &llm.OutputSpec{Name: "clerk", Schema: json.RawMessage(`{"type":"object"}`), Strict: true},
	}
	if o := modeltest.Ask(t.Context(), m, req); o.Err != nil {
		t.Fatal(o.Err)
	}
	checkTools(t, s.Sent[0]["tools"])
	delete(s.Sent[0], "tools") // go-openai writes them, and does not read them
	raw, err := json.Marshal(s.Sent[0])
	if err != nil {
		t.Fatal(err)
	}
	var got openai.CreateResponseRequest
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if got.Instructions != "Be brief." || got.PreviousResponseID != "resp_0" || got.Reasoning.Effort != "low" || got.MaxOutputTokens != 100 ||
		*got.ParallelToolCalls || *got.Store || *got.Temperature != 0.5 || got.Text == nil || len(got.Include) != 1 {
		t.Errorf("go-openai reads %+v", got)
	}
}

func checkTools(t *testing.T, got any) {
	t.Helper()
	tool := openai.NewResponseFunctionTool(openai.FunctionDefinition{Name: "lookup_order", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object"}`)})
	tool.Parameters["strict"] = false
	raw, err := json.Marshal([]openai.ResponseTool{tool})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(modeltest.Parse(t, string(raw)), got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}
