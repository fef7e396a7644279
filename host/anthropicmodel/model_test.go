package anthropicmodel_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// stream answers with events, as the provider writes them.
func stream(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			var of struct{ Type string }
			_ = json.Unmarshal([]byte(e), &of)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", of.Type, e)
		}
	}
}

const (
	started = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m1-2026","content":[],"stop_reason":null,` +
		`"usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":3,"output_tokens":1}}}`
	ping    = `{"type":"ping"}`
	stopped = `{"type":"message_stop"}`
)

func begin(i int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, block)
}
func grow(i int, delta string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, i, delta)
}
func end(i int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i) }
func because(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":12}}`
}

var textBlock = []string{begin(0, `{"type":"text","text":""}`), grow(0, `{"type":"text_delta","text":"Hel"}`), grow(0, `{"type":"text_delta","text":"lo"}`), end(0)}

// whole is a stream around blocks.
func whole(reason string, blocks ...string) http.HandlerFunc {
	return stream(append(append([]string{started, ping}, blocks...), because(reason), stopped)...)
}

func TestAnswers(t *testing.T) {
	used := host.Usage{InputTokens: 28, OutputTokens: 12, CachedTokens: 20}
	want := func(reason host.FinishReason, parts ...host.Part) *llm.Response {
		return &llm.Response{ID: "msg_1", Model: "m1-2026", Parts: parts, FinishReason: reason, Usage: used}
	}
	hello := &host.Text{Text: "Hello"}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    *llm.Response
	}{
		{"text", whole("end_turn", textBlock...), want(chat.FinishStop, hello)},
		{"cut", whole("max_tokens", textBlock...), want(chat.FinishLength, hello)},
		{"refused", whole("refusal", textBlock...), want(chat.FinishContentFilter, hello)},
		{"paused for the provider's tools", whole("pause_turn", textBlock...), want(chat.FinishPaused, hello)},
		{"a reason of tomorrow", whole("something_new", textBlock...), want(chat.FinishStop, hello)},
		{"thinking with its signature", whole("end_turn",
			begin(0, `{"type":"thinking","thinking":"","signature":""}`), grow(0, `{"type":"thinking_delta","thinking":"Hm"}`),
			grow(0, `{"type":"thinking_delta","thinking":"."}`), grow(0, `{"type":"signature_delta","signature":"c2ln"}`), end(0),
			begin(1, `{"type":"text","text":"Yes"}`), end(1)),
			want(chat.FinishStop, &host.Reasoning{Text: "Hm.", Signature: "c2ln"}, &host.Text{Text: "Yes"})},
		{"a signature in pieces", whole("end_turn", begin(0, `{"type":"thinking","thinking":"Hm.","signature":"c2"}`),
			grow(0, `{"type":"signature_delta","signature":"l"}`), grow(0, `{"type":"signature_delta","signature":"n"}`), end(0)),
			want(chat.FinishStop, &host.Reasoning{Text: "Hm.", Signature: "c2ln"})},
		{"calls", whole("tool_use", begin(0, `{"type":"tool_use","id":"toolu_1","name":"look","input":{}}`),
			grow(0, `{"type":"input_json_delta","partial_json":""}`), grow(0, `{"type":"input_json_delta","partial_json":"{\"id\":"}`),
			grow(0, `{"type":"input_json_delta","partial_json":"9007199254740993}"}`), end(0),
			begin(1, `{"type":"tool_use","id":"toolu_2","name":"ping","input":{}}`), end(1)),
			want(chat.FinishToolCalls, &host.ToolCall{ID: "toolu_1", Name: "look", Arguments: json.RawMessage(`{"id":9007199254740993}`)},
				&host.ToolCall{ID: "toolu_2", Name: "ping", Arguments: json.RawMessage(`{}`)})},
		{"blocks that are not known go back as they came", whole("end_turn",
			begin(0, `{"type":"redacted_thinking","data":"x+y"}`), end(0),
			begin(1, `{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}`), grow(1, `{"type":"input_json_delta","partial_json":"{\"q\":1}"}`), end(1)),
			want(chat.FinishStop, &chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic","block":{"type":"redacted_thinking","data":"x+y"}}`)},
				&chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic","block":{"id":"srv_1","input":{"q":1},"name":"web_search","type":"server_tool_use"}}`)})},
		{"nothing", whole("end_turn"), want(chat.FinishStop)},
		{"no message_stop", stream(append(append([]string{started}, textBlock...), because("end_turn"))...), want(chat.FinishStop, hello)},
		{"events and deltas of tomorrow", whole("end_turn", `{"type":"content_block_hint","index":7}`, textBlock[0], grow(0, `{"type":"citations_delta","citation":{}}`), textBlock[1], textBlock[2], end(0)),
			want(chat.FinishStop, hello)},
		{"not streamed", modeltest.Answer(200, "application/json", `{"id":"msg_1","type":"message","model":"m1-2026","content":[{"type":"text","text":"Hello"},{"type":"tool_use","id":"a","name":"look","input":{"id":1}}],
			"stop_reason":"tool_use","usage":{"input_tokens":8,"cache_read_input_tokens":20,"output_tokens":12}}`),
			want(chat.FinishToolCalls, hello, &host.ToolCall{ID: "a", Name: "look", Arguments: json.RawMessage(`{"id":1}`)})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newModel.CheckAnswer(t, tt.handler, tt.want)
		})
	}
}

func TestDeltasOfCalls(t *testing.T) {
	o := modeltest.Ask(t.Context(), newModel.Serve(t, whole("tool_use", begin(0, `{"type":"tool_use","id":"a","name":"look","input":{}}`),
		grow(0, `{"type":"input_json_delta","partial_json":"{\"i\""}`), grow(0, `{"type":"input_json_delta","partial_json":":1}"}`), end(0),
		begin(1, `{"type":"tool_use","id":"b","name":"ping","input":{}}`), end(1))), modeltest.Question("hi"))
	want := []llm.ToolCallDelta{{Index: 0, ID: "a", Name: "look"}, {Index: 0, Arguments: `{"i"`}, {Index: 0, Arguments: ":1}"}, {Index: 1, ID: "b", Name: "ping"}}
	if diff := cmp.Diff(want, o.Deltas); diff != "" || o.Err != nil {
		t.Errorf("%v; deltas (-want +got):\n%s", o.Err, diff)
	}
}

func TestFaults(t *testing.T) {
	complaint := func(kind, text string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + text + `"},"request_id":"req_1"}`
	}
	for _, tt := range []struct {
		name      string
		handler   http.HandlerFunc
		code      host.Code
		retryable bool
		says      string
	}{
		{"no key", modeltest.Answer(401, "application/json", complaint("authentication_error", "invalid x-api-key")), host.Unauthenticated, false, "ANTHROPIC_API_KEY"},
		{"not allowed", modeltest.Answer(403, "application/json", complaint("permission_error", "no")), host.PermissionDenied, false, "ANTHROPIC_API_KEY"},
		{"no such model", modeltest.Answer(404, "application/json", complaint("not_found_error", "model: m1")), host.NotFound, false, "/v1/models"},
		{"a request it does not take", modeltest.Answer(400, "application/json", complaint("invalid_request_error", "messages: bad")), host.InvalidArgument, false, "messages: bad"},
		{"too long a conversation", modeltest.Answer(400, "application/json", complaint("invalid_request_error", "prompt is too long: 210000 tokens")), host.ResourceExhausted, false, "token limiter"},
		{"overloaded", modeltest.Answer(529, "application/json", complaint("overloaded_error", "Overloaded")), host.Unavailable, true, "Overloaded"},
		{"overloaded in the stream", stream(started, complaint("overloaded_error", "Overloaded")), host.ResourceExhausted, true, "Overloaded"},
		{"an error without words in the stream", stream(started, `{"type":"error"}`), host.Unavailable, true, "answers with an error"},
		{"a web page", modeltest.Answer(200, "application/json", "<html>"), host.Unavailable, false, "not a message of the Messages API"},
		{"another protocol", modeltest.Answer(200, "application/json", `{"choices":[]}`), host.Unavailable, false, "not a message of the Messages API"},
		{"a delta of no block", stream(started, grow(0, `{"type":"text_delta","text":"x"}`)), host.Unavailable, false, "not a message"},
		{"a block out of order", stream(started, begin(3, `{"type":"text","text":""}`)), host.Unavailable, false, "not a message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newModel.CheckFault(t, tt.handler, modeltest.Fault{Code: tt.code, Retryable: tt.retryable, Says: tt.says})
		})
	}
}

func TestOptions(t *testing.T) {
	for name, opts := range map[string]*anthropicmodel.Options{
		"a base URL that is none": {Server: modelhttp.Options{BaseURL: "anthropic"}}, "negative tokens": {MaxOutputTokens: -1}, "too little thinking": {ThinkingTokens: 10},
	} {
		if _, err := anthropicmodel.New("m1", opts); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := anthropicmodel.New("", nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("no name: %v", err)
	}
}
