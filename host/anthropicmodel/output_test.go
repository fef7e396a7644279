package anthropicmodel_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// asked returns a request's format of the output, and its system prompt.
func asked(body map[string]any) (format, system string) {
	if config, ok := body["output_config"]; ok {
		raw, _ := json.Marshal(config)
		format = string(raw)
	}
	raw, _ := json.Marshal(body["system"])
	return format, string(raw)
}

func TestOutputsHaveTheProvidersSchema(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"closed":              {`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":["integer","null"]}},"required":["b","a"],"additionalProperties":false}`, `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":["integer","null"]}},"required":["b","a"],"additionalProperties":false}`},
		"open becomes closed": {`{"properties":{"n":{"type":"object","properties":{"x":{}}}}}`, `{"properties":{"n":{"type":"object","properties":{"x":{}},"additionalProperties":false}},"additionalProperties":false}`},
		"rules beyond the provider's are described": {`{"type":"array","items":{"type":"integer","minimum":1,"maximum":5,"description":"stars"},"minItems":2}`,
			`{"type":"array","items":{"type":"integer","description":"stars (minimum: 1, maximum: 5)"},"description":"minItems: 2"}`},
		"formats that it knows stay":     {`{"type":"string","format":"date","minLength":1}`, `{"type":"string","format":"date","description":"minLength: 1"}`},
		"formats that it does not, move": {`{"type":"string","format":"idn-email"}`, `{"type":"string","description":"format: \"idn-email\""}`},
		"one of":                         {`{"oneOf":[{"type":"string"},{"const":7}],"$schema":"https://json-schema.org/draft/2020-12/schema","default":"x"}`, `{"anyOf":[{"type":"string"},{"const":7}]}`},
		"references":                     {`{"$defs":{"n":{"enum":["a","b"]}},"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}`, `{"$defs":{"n":{"enum":["a","b"]}},"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"additionalProperties":false}`},
		"a map":                          {`{"type":"object","additionalProperties":{"type":"integer"}}`, ""},
		"any object":                     {`{"type":"object"}`, ""},
		"a tuple":                        {`{"type":"array","prefixItems":[{"type":"string"}]}`, ""},
		"members in two places":          {`{"type":"object","properties":{"a":{}},"anyOf":[{"properties":{"b":{}}}]}`, ""},
		"a map inside":                   {`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","additionalProperties":true}}}}`, ""},
		"true":                           {`{"type":"array","items":true}`, ""},
		"too deep":                       {strings.Repeat(`{"type":"array","items":`, 70) + `{"type":"string"}` + strings.Repeat("}", 70), ""},
		"no JSON":                        {`{"type":`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			body, _, err := sent(t, anthropicmodel.Options{}, &llm.Request{Messages: []*host.Message{host.UserText("hi")}, Output: &llm.OutputSpec{Schema: json.RawMessage(c.schema)}})
			if err != nil {
				t.Fatal(err)
			}
			format, system := asked(body)
			if c.want == "" {
				if format != "" || !strings.Contains(system, "Answer with nothing but JSON of this schema") {
					t.Errorf("asked for %s, in words %s", format, system)
				}
				return
			}
			raw, _ := json.Marshal(modeltest.Parse(t, `{"format":{"type":"json_schema","schema":`+c.want+`}}`))
			if format != string(raw) || system != "null" {
				t.Errorf("asked for %s, in words %s; want %s", format, system, raw)
			}
		})
	}
}

// The order of a schema's members is that in which a model writes them.
func TestOutputsKeepTheOrderOfTheirMembers(t *testing.T) {
	var raw []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ = io.ReadAll(r.Body)
		modeltest.Replay(t, "search")(w, r)
	}))
	defer srv.Close()
	m := newModel(t, modelhttp.Options{BaseURL: srv.URL, MaxRetries: -1})
	modeltest.Ask(t.Context(), m, &llm.Request{Messages: []*host.Message{host.UserText("hi")}, Output: &llm.OutputSpec{Schema: json.RawMessage(`{"type":"object","properties":{"why":{"type":"string"},"answer":{"type":"string"}}}`)}})
	if want := `"properties":{"why":{"type":"string"},"answer":{"type":"string"}}`; !strings.Contains(string(raw), want) {
		t.Errorf("request %s, want it to have %s", raw, want)
	}
}

// A refused schema stands in words at once, and in the next requests; the words of the
// refusals are the service's.
func TestRefusedOutputsStandInWords(t *testing.T) {
	refusal := func(text string) http.HandlerFunc {
		raw, _ := json.Marshal(text)
		return modeltest.Answer(http.StatusBadRequest, "application/json", `{"type":"error","error":{"type":"invalid_request_error","message":`+string(raw)+`}}`)
	}
	one := &llm.OutputSpec{Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}
	two := &llm.OutputSpec{Schema: json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"}}}`)}
	for name, c := range map[string]struct {
		says      string
		twoNative bool // another schema is sent all the same
	}{
		"the schema":      {"output_config.format.schema: Schema type 'oneOf' is not supported", true},
		"its grammar":     {"The compiled grammar is too large, which would cause performance issues.", true},
		"any for a model": {"'claude-3-haiku-20240307' does not support output format.", false},
		"the member":      {"output_config: Extra inputs are not permitted", false},
	} {
		t.Run(name, func(t *testing.T) {
			answer := modeltest.Replay(t, "search")
			p := &modeltest.Service{Answers: []http.HandlerFunc{refusal(c.says), answer}}
			srv := httptest.NewServer(p)
			defer srv.Close()
			m := newModel(t, modelhttp.Options{BaseURL: srv.URL, MaxRetries: -1})
			for i, output := range []*llm.OutputSpec{one, one, two} {
				if o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: []*host.Message{host.UserText("hi")}, Output: output}); o.Err != nil || len(o.Retries) > 0 {
					t.Fatalf("question %d: %v, retried %v", i, o.Err, o.Retries)
				}
			}
			for i, native := range []bool{true, false, false, c.twoNative} {
				format, system := asked(p.Sent[i])
				if (format != "") != native || strings.Contains(system, "schema") == native {
					t.Errorf("request %d has the format %q and the system prompt %s; want native %t", i, format, system, native)
				}
			}
		})
	}
}

// The provider takes no schema with an answer that the model continues.
func TestOutputOfAPrefillStandsInWords(t *testing.T) {
	body, _, err := sent(t, anthropicmodel.Options{}, &llm.Request{Messages: []*host.Message{host.UserText("hi"), host.AssistantText("{")},
		Output: &llm.OutputSpec{Schema: json.RawMessage(`{"type":"object","properties":{"a":{}}}`)}})
	if format, system := asked(body); err != nil || format != "" || !strings.Contains(system, "schema") {
		t.Errorf("format %q, system %s, %v", format, system, err)
	}
}
