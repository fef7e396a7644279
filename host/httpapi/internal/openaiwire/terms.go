package openaiwire

import (
	"encoding/json"
	"math"

	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/stream"
)

// Terms are what a client sets for one answer, beside the conversation.
type Terms struct {
	Client     llm.ClientTerms
	Parameters map[string]any // for models, by the names of OpenAI's API
	Approvals  bool           // the client has declared [stream.ApprovalTool]
}

// JSON reports whether the answer is JSON.
func (t *Terms) JSON() bool { return t.Client.Output != nil }

// functionTool is a function that a client declares.
type functionTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// declare adds a tool of the client.
func (t *Terms) declare(f *functionTool) error {
	if f.Name == "" {
		return paramf("tools", "a function has no name")
	}
	if f.Name == stream.ApprovalTool {
		t.Approvals = true // for the host, and not for models
		return nil
	}
	spec := llm.ToolSpec{Name: f.Name, Description: f.Description, Parameters: f.Parameters}
	if string(spec.Parameters) == "null" {
		spec.Parameters = nil
	}
	t.Client.Tools = append(t.Client.Tools, spec)
	return nil
}

// choose reads the choice of a tool: a word, or an object that names one. name finds the name
// in the object.
func (t *Terms) choose(raw json.RawMessage, name func(json.RawMessage) string) error {
	var word string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &word) == nil:
	default:
		if word = name(raw); word == "" {
			return paramf("tool_choice", "the choice names no function")
		}
		t.Client.ToolChoice = llm.ToolChoice(word)
		return nil
	}
	choices := map[string]llm.ToolChoice{"auto": "", "none": llm.ToolChoiceNone, "required": llm.ToolChoiceAny}
	choice, ok := choices[word]
	if !ok {
		return paramf("tool_choice", "the choice is %.40q", word).WithHint("use auto, none, required or a function")
	}
	t.Client.ToolChoice = choice
	return nil
}

// outputFormat is the form of an answer: text, JSON, or JSON of a schema.
type outputFormat struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict *bool           `json:"strict"`
}

// anyObject is the schema of the format json_object.
const anyObject = `{"type":"object"}`

// format sets the form of the answer.
func (t *Terms) format(param string, f *outputFormat) error {
	if f == nil {
		return nil
	}
	switch f.Type {
	case "", "text":
		return nil
	case "json_object":
		t.Client.Output = &llm.OutputSpec{Name: "answer", Schema: json.RawMessage(anyObject)}
		return nil
	case "json_schema":
		if len(f.Schema) == 0 {
			return paramf(param, "the format json_schema has no schema")
		}
		if f.Name == "" {
			f.Name = "answer"
		}
		t.Client.Output = &llm.OutputSpec{Name: f.Name, Schema: f.Schema, Strict: f.Strict != nil && *f.Strict}
		return nil
	}
	return paramf(param, "the format is %.40q", f.Type).WithHint("use text, json_object or json_schema")
}

// bounds sets the temperature and the most tokens of output.
func (t *Terms) bounds(temperature *float64, param string, tokens *int) error {
	if temperature != nil && (*temperature < 0 || *temperature > 2 || math.IsNaN(*temperature)) {
		return paramf("temperature", "the temperature is %v, not between 0 and 2", *temperature)
	}
	if tokens != nil && *tokens < 1 {
		return paramf(param, "the answer may have %d tokens", *tokens)
	}
	t.Client.Temperature = temperature
	if tokens != nil {
		t.Client.MaxOutputTokens = *tokens
	}
	return nil
}

// parameter passes a member on to models.
func (t *Terms) parameter(name string, raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	if t.Parameters == nil {
		t.Parameters = map[string]any{}
	}
	t.Parameters[name] = raw
}
