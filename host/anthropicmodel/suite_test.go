package anthropicmodel_test

// Scenario: the checks that models of every protocol pass.

import (
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var newModel modeltest.New = func(t testing.TB, server modelhttp.Options) llm.Model {
	return modelWith(t, anthropicmodel.Options{Server: server})
}

// cachingModel marks parts of requests for the provider's cache.
var cachingModel modeltest.New = func(t testing.TB, server modelhttp.Options) llm.Model {
	return modelWith(t, anthropicmodel.Options{Server: server, Cache: true})
}

func modelWith(t testing.TB, opts anthropicmodel.Options) *anthropicmodel.Model {
	t.Helper()
	m, err := anthropicmodel.New("m1", &opts)
	return modeltest.Close(t, m, err)
}

func TestAnswersAreWholeWhereModelAndCallerSaySo(t *testing.T) {
	streamed := httptest.NewRecorder()
	whole("tool_use",
		begin(0, `{"type":"thinking","thinking":"","signature":""}`), grow(0, `{"type":"thinking_delta","thinking":"Hm."}`), grow(0, `{"type":"signature_delta","signature":"c2ln"}`), end(0),
		begin(1, `{"type":"text","text":""}`), grow(1, `{"type":"text_delta","text":"Hel"}`), grow(1, `{"type":"text_delta","text":"lo"}`), end(1),
		begin(2, `{"type":"tool_use","id":"toolu_1","name":"look","input":{}}`), grow(2, `{"type":"input_json_delta","partial_json":"{\"order\":7}"}`), end(2),
	)(streamed, nil)
	modeltest.CheckWhole(t, modeltest.Whole{
		New:     newModel,
		Streams: func(_, body string) bool { return strings.Contains(body, `"stream":true`) },
		Stream:  streamed.Body.String(),
		Document: `{"id":"msg_1","type":"message","role":"assistant","model":"m1-2026","content":[` +
			`{"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"text","text":"Hello"},` +
			`{"type":"tool_use","id":"toolu_1","name":"look","input":{"order":7}}],"stop_reason":"tool_use","stop_sequence":null,` +
			`"usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":3,"output_tokens":12}}`,
	})
}

func TestImagesOfToolsReachTheModel(t *testing.T) {
	streamed := httptest.NewRecorder()
	whole("end_turn", textBlock...)(streamed, nil)
	modeltest.CheckToolMedia(t, modeltest.ToolMedia{
		New:     newModel,
		Stream:  streamed.Body.String(),
		Refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"messages.2.content.0.tool_result: Could not process image"}}`,
		Shown: `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"seen\n[application/x-odd not shown]"},` +
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}}]}`,
	})
}

func TestLongLinesTakeLittleMemory(t *testing.T) {
	line := func(begin, element, end string) string {
		return "data: " + started + "\n\n" + modeltest.Line("data: "+begin, element, end) + "\n\n"
	}
	ends := "data: " + because("end_turn") + "\n\ndata: " + stopped + "\n\n"
	newModel.CheckLines(t, map[string]string{
		"text":                 line(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"`, "abcdefg", `"}}`) + ends,
		"escaped text":         line(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"`, `\"`, `"}}`) + ends,
		"content of the start": line(`{"type":"message_start","message":{"content":[`, `{}`, `]}}`) + ends,
		"members of an event":  line(`{"type":"ping",`, `"%d":0`, `}`) + ends,
		"members of a block":   line(`{"type":"content_block_start","index":0,"content_block":{"type":"x",`, `"%d":0`, `}}`) + "data: " + grow(0, `{"type":"input_json_delta","partial_json":"{}"}`) + "\n\n" + ends,
		"input of a call":      line(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":[`, `{}`, `]}}`) + ends,
		"a document":           modeltest.Line(`{"type":"message","content":[`, `{}`, `]}`),
		"text of a document":   modeltest.Line(`{"type":"message","content":[{"type":"text","text":"`, `abcdefg`, `"}]}`),
		"an error":             line(`{"type":"error","error":{"message":"`, "Word of ", `"}}`),
		"usage again":          line(`{"type":"message_delta",`, `"usage":null,"usage":{}`, `}`) + ends,
		"no JSON":              line(`<html>`, "a b c d", ``),
	})
}
