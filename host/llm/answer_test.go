package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

func TestCallsOfAnAnswerGetOneForm(t *testing.T) {
	for name, tt := range map[string]struct {
		args, want string
	}{
		"an object stays":                  {`{"a":1}`, `{"a":1}`},
		"no arguments are an empty object": {"", `{}`},
		"texts between backquotes":         {"{\"code\": `x := \"y\"`}", `{"code": "x := \"y\""}`},
		"white space of Unicode":           {"\u00a0{}", `{}`},
		"anything else is a string":        {`{"a":`, `"{\"a\":"`},
	} {
		in := &llm.Response{Parts: []chat.Part{&chat.ToolCall{ID: "1", Name: "work", Arguments: json.RawMessage(tt.args)}}}
		out, err := llm.Normalize(&llm.Request{}, in, 1000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := string(out.Parts[0].(*chat.ToolCall).Arguments); got != tt.want {
			t.Errorf("%s: %q becomes %q, want %q", name, tt.args, got, tt.want)
		}
		if got := string(in.Parts[0].(*chat.ToolCall).Arguments); got != tt.args {
			t.Errorf("%s: the model's own answer is changed to %q", name, got)
		}
	}
}

func TestAnswersBeyondTheLimitsAreRefused(t *testing.T) {
	calls := make([]chat.Part, 129)
	for i := range calls {
		calls[i] = &chat.ToolCall{Name: "work"}
	}
	for name, tt := range map[string]struct {
		parts []chat.Part
		want  fault.Code
	}{
		"too many calls": {calls, fault.ResourceExhausted},
		"too many bytes": {[]chat.Part{&chat.Text{Text: strings.Repeat("x", 1001)}}, fault.ResourceExhausted},
		"a nil part":     {[]chat.Part{nil}, fault.Internal},
	} {
		if _, err := llm.Normalize(&llm.Request{}, &llm.Response{Parts: tt.parts}, 1000); fault.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want code %s", name, err, tt.want)
		}
	}
}

func TestAUsageIsBoundedOrEstimated(t *testing.T) {
	req := &llm.Request{Messages: []*chat.Message{chat.UserText("12345678")}}
	text := []chat.Part{&chat.Text{Text: "1234"}}
	out, err := llm.Normalize(req, &llm.Response{Parts: text}, 1000)
	if want := (chat.Usage{InputTokens: 2, OutputTokens: 1, Estimated: true}); err != nil || out.Usage != want || out.FinishReason != chat.FinishStop {
		t.Errorf("usage %+v, reason %q, %v; want %+v", out.Usage, out.FinishReason, err, want)
	}
	out, err = llm.Normalize(req, &llm.Response{Parts: text, Usage: chat.Usage{InputTokens: -5, OutputTokens: 1 << 40}}, 1000)
	if want := (chat.Usage{OutputTokens: 1 << 30}); err != nil || out.Usage != want {
		t.Errorf("usage %+v, %v; want %+v", out.Usage, err, want)
	}
}
