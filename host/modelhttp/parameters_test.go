package modelhttp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/responsesmodel"
	"github.com/agenthost/agenthost/internal/testhost"
)

// adapter is a model over HTTP, with an answer of its service.
type adapter struct {
	model  func(url string) (host.Model, error)
	answer []string
	list   string // the member that the messages are in
	agent  map[string]any
	asked  map[string]any
	want   string // members of the body, of the run with asked
	taken  []string
}

var adapters = map[string]adapter{
	"openai": {
		model: func(url string) (host.Model, error) {
			return openaimodel.New("m", &openaimodel.Options{Server: modelhttp.Options{BaseURL: url, MaxRetries: -1}})
		},
		answer: []string{`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`, `[DONE]`},
		list:   "messages",
		agent:  map[string]any{"top_p": 0.5, "seed": 7, "stop": []string{"END"}, "logit_bias": map[string]int{"1": 2}},
		asked:  map[string]any{"top_p": 0.9, "seed": nil, "user": "ada", "temperature": 0.2},
		want:   `{"top_p":0.9,"stop":["END"],"logit_bias":{"1":2},"user":"ada","temperature":0.2}`,
		taken:  []string{"model", "messages", "stream", "tools", "n", "max_tokens", "max_completion_tokens"},
	},
	"responses": {
		model: func(url string) (host.Model, error) {
			return responsesmodel.New("m", &responsesmodel.Options{Server: modelhttp.Options{BaseURL: url, MaxRetries: -1}})
		},
		answer: []string{`{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}]}}`},
		list:   "input",
		agent:  map[string]any{"top_p": 0.5, "service_tier": "flex", "text": map[string]any{"verbosity": "low"}},
		asked:  map[string]any{"top_p": 0.9, "service_tier": nil, "temperature": 0.2},
		want:   `{"top_p":0.9,"text":{"verbosity":"low"},"temperature":0.2}`,
		taken:  []string{"model", "input", "instructions", "store", "previous_response_id", "max_output_tokens"},
	},
	"anthropic": {
		model: func(url string) (host.Model, error) {
			return anthropicmodel.New("m", &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: url, MaxRetries: -1}})
		},
		answer: []string{`{"type":"message_start","message":{"id":"r","role":"assistant","content":[]}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}`, `{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`},
		list:   "messages",
		agent:  map[string]any{"top_p": 0.5, "top_k": 7, "stop_sequences": []string{"END"}},
		asked:  map[string]any{"top_p": 0.9, "top_k": nil, "metadata": map[string]any{"user_id": "ada"}, "temperature": 0.2},
		want:   `{"top_p":0.9,"stop_sequences":["END"],"metadata":{"user_id":"ada"},"temperature":0.2}`,
		taken:  []string{"model", "messages", "system", "stream", "tools", "max_tokens"},
	},
	"gemini": {
		model: func(url string) (host.Model, error) {
			return geminimodel.New("m", &geminimodel.Options{Server: modelhttp.Options{BaseURL: url, MaxRetries: -1}})
		},
		answer: []string{`{"candidates":[{"content":{"role":"model","parts":[{"text":"x"}]},"finishReason":"STOP"}]}`},
		list:   "contents",
		agent:  map[string]any{"generationConfig": map[string]any{"topP": 0.5, "seed": 7}, "safetySettings": []any{}},
		asked:  map[string]any{"generationConfig": map[string]any{"topP": 0.9}, "labels": map[string]any{"a": "b"}},
		want:   `{"generationConfig":{"topP":0.9,"temperature":0.7},"safetySettings":[],"labels":{"a":"b"}}`,
		taken: []string{"contents", "systemInstruction", "tools", "generationConfig/maxOutputTokens", "system_instruction", "tool_config",
			"generation_config/max_output_tokens", "generation_config/maxOutputTokens", "generationConfig", "generation_config"},
	},
}

// service is a server that answers with an adapter's answer, and keeps what it is
// sent.
func (a *adapter) service(t *testing.T) (host.Model, *[]map[string]json.RawMessage) {
	t.Helper()
	var got []map[string]json.RawMessage
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var body map[string]json.RawMessage
		if err != nil || json.Unmarshal(raw, &body) != nil {
			t.Errorf("the body is not JSON: %s, %v", raw, err)
		}
		got = append(got, body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, line := range a.answer {
			var event struct{ Type string }
			_ = json.Unmarshal([]byte(line), &event)
			if event.Type != "" {
				fmt.Fprintf(w, "event: %s\n", event.Type)
			}
			fmt.Fprintf(w, "data: %s\n\n", line)
		}
	}))
	t.Cleanup(server.Close)
	model, err := a.model(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return model, &got
}

// The parameters of the agent, and those of the request over them, reach each service
// as members of what it is sent.
func TestParametersReachEachService(t *testing.T) {
	for name, a := range adapters {
		t.Run(name, func(t *testing.T) {
			model, got := a.service(t)
			warm := 0.7
			agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: model, Temperature: &warm, ModelParameters: a.agent})
			h := testhost.New(t, nil)
			for _, asked := range []map[string]any{nil, a.asked} {
				result, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hi", ModelParameters: asked})
				if err != nil || result.Text() != "x" {
					t.Fatalf("%v, %v", result, err)
				}
			}
			first, second := (*got)[0], (*got)[1]
			for name, v := range a.agent {
				want, _ := json.Marshal(v)
				if name == "generationConfig" {
					want = []byte(`{"temperature":0.7,"topP":0.5,"seed":7}`)
				}
				same(t, "with the agent's parameters, "+name, first[name], string(want))
			}
			var want map[string]json.RawMessage
			if err := json.Unmarshal([]byte(a.want), &want); err != nil {
				t.Fatal(err)
			}
			for name, v := range want {
				same(t, "with the request's, "+name, second[name], string(v))
			}
			for name, v := range a.asked {
				if v == nil && second[name] != nil {
					t.Errorf("%s is sent as %s, although the request leaves it out", name, second[name])
				}
			}
			if !strings.Contains(string(second[a.list]), `"hi"`) {
				t.Errorf("the conversation is %s", second[a.list])
			}
		})
	}
}

func same(t *testing.T, what string, got json.RawMessage, want string) {
	t.Helper()
	var g, w any
	if json.Unmarshal(got, &g) != nil || json.Unmarshal([]byte(want), &w) != nil || !cmp.Equal(g, w) {
		t.Errorf("%s is %s, want %s", what, got, want)
	}
}

// What the host writes itself is refused, before anything is sent.
func TestReservedParametersAreRefused(t *testing.T) {
	for name, a := range adapters {
		t.Run(name, func(t *testing.T) {
			model, got := a.service(t)
			for _, member := range a.taken {
				parameters := host.Parameters{member: json.RawMessage(`1`)}
				if outer, inner, nested := strings.Cut(member, "/"); nested {
					parameters = host.Parameters{outer: json.RawMessage(`{"` + inner + `":1}`)}
				}
				var fault error
				for _, err := range model.Generate(t.Context(), &llm.Request{Messages: []*host.Message{host.UserText("hi")}, Parameters: parameters}) {
					fault = err
				}
				if host.CodeOf(fault) != host.InvalidArgument || !strings.Contains(fmt.Sprint(fault), "is one that the host writes") {
					t.Errorf("%s: %v, want code invalid_argument", member, fault)
				}
			}
			if len(*got) != 0 {
				t.Errorf("%d requests were sent", len(*got))
			}
		})
	}
}

func TestAddParameters(t *testing.T) {
	for _, c := range []struct{ name, request, parameters, want string }{
		{"none", `{"a":1}`, `{}`, `{"a":1}`},
		{"in their places, the others by name", `{"b":1,"a":[2]}`, `{"z":0,"y":{"n":1.50},"a":3}`, `{"b":1,"a":3,"y":{"n":1.50},"z":0}`},
		{"objects are put together, at any depth", `{"o":{"p":{"a":1},"q":2}}`, `{"o":{"p":{"b":[{}]},"r":null}}`, `{"o":{"p":{"a":1,"b":[{}]},"q":2,"r":null}}`},
		{"an object in the place of another thing", `{"o":1}`, `{"o":{"a":{"b":1}}}`, `{"o":{"a":{"b":1}}}`},
		{"another thing in the place of an object", `{"o":{"a":1}}`, `{"o":[1]}`, `{"o":[1]}`},
		{"a name in the other writing", `{"oP":{"aB":1},"c":2}`, `{"o_p":{"a_b":3,"d_e":4}}`, `{"oP":{"aB":3,"d_e":4},"c":2}`},
		{"names are written as JSON", `{}`, `{"a\"b\u0000":1}`, `{"a\"b\u0000":1}`},
		{"large numbers stay", `{"id":12345678901234567890}`, `{"n":9007199254740993}`, `{"id":12345678901234567890,"n":9007199254740993}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var parameters map[string]json.RawMessage
			if err := json.Unmarshal([]byte(c.parameters), &parameters); err != nil {
				t.Fatal(err)
			}
			got, err := modelhttp.AddParameters([]byte(c.request), parameters, "reserved")
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// A service that takes a name in two spellings is not told in the second what the host
// says in the first, and what is no object takes no place of reserved members.
func TestReservedParametersInOtherSpellings(t *testing.T) {
	for _, parameters := range []string{
		`{"system_instruction":{}}`, `{"SystemInstruction":{}}`, `{"system__instruction":{}}`,
		`{"generation_config":{"maxOutputTokens":1}}`, `{"generationConfig":{"max_output_tokens":1}}`, `{"generation_config":{"max_output_tokens":1}}`,
		`{"generationConfig":[]}`, `{"generation_config":1}`,
	} {
		var read map[string]json.RawMessage
		if err := json.Unmarshal([]byte(parameters), &read); err != nil {
			t.Fatal(err)
		}
		got, err := modelhttp.AddParameters([]byte(`{"generationConfig":{"maxOutputTokens":5}}`), read, "systemInstruction", "generationConfig/maxOutputTokens")
		if host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %s, %v, want code invalid_argument", parameters, got, err)
		}
	}
}
