package anthropicmodel_test

// Scenario: a model asks for its answers in one piece.

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

const wholeDocument = `{"id":"msg_1","type":"message","role":"assistant","model":"m1-2026","content":[` +
	`{"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"text","text":"Hello"},` +
	`{"type":"tool_use","id":"toolu_1","name":"look","input":{"order":7}}],"stop_reason":"tool_use","stop_sequence":null,` +
	`"usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":3,"output_tokens":12}}`

func TestAnswersAreWholeWhereModelAndCallerSaySo(t *testing.T) {
	streamed := httptest.NewRecorder()
	whole("tool_use",
		begin(0, `{"type":"thinking","thinking":"","signature":""}`), grow(0, `{"type":"thinking_delta","thinking":"Hm."}`), grow(0, `{"type":"signature_delta","signature":"c2ln"}`), end(0),
		begin(1, `{"type":"text","text":""}`), grow(1, `{"type":"text_delta","text":"Hel"}`), grow(1, `{"type":"text_delta","text":"lo"}`), end(1),
		begin(2, `{"type":"tool_use","id":"toolu_1","name":"look","input":{}}`), grow(2, `{"type":"input_json_delta","partial_json":"{\"order\":7}"}`), end(2),
	)(streamed, nil)
	modeltest.CheckWhole(t, modeltest.Whole{
		New: func(t *testing.T, baseURL string, whole bool, client *http.Client) llm.Model {
			m, err := anthropicmodel.New("m1", &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: baseURL, APIKey: testKey, Whole: whole, HTTPClient: client}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.CloseIdleConnections)
			return m
		},
		Streams:  func(_, body string) bool { return strings.Contains(body, `"stream":true`) },
		Stream:   streamed.Body.String(),
		Document: wholeDocument,
	})
}
