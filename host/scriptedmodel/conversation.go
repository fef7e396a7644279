package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/internal/toolschema"
)

// request is a chat completion request, with the members that the model reads.
type request struct {
	Model             string          `json:"model"`
	Messages          []message       `json:"messages"`
	Tools             []tool          `json:"tools"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	Stream            bool            `json:"stream"`
	StreamOptions     struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           int `json:"max_tokens"`
	MaxCompletionTokens int `json:"max_completion_tokens"`
}

type message struct {
	Role       string   `json:"role"`
	Content    content  `json:"content"`
	ToolCalls  []called `json:"tool_calls"`
	ToolCallID string   `json:"tool_call_id"`
}

type called struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type tool struct {
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// content is a message's text: a string, null, or parts.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, (*string)(c))
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		*c += content(p.Text)
	}
	return nil
}

func readRequest(raw []byte) (*request, error) {
	var r request
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("read request: not a chat completion: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	switch {
	case r.Model == "":
		return nil, errors.New("read request: it names no model")
	case len(r.Messages) == 0:
		return nil, errors.New("read request: it has no messages")
	case len(r.Messages) > maxMessages:
		return nil, fmt.Errorf("read request: it has more than %d messages", maxMessages)
	case len(r.Tools) > maxTools:
		return nil, fmt.Errorf("read request: it has more than %d tools", maxTools)
	}
	return &r, nil
}

// Conversation is a request as rules and [Options.Otherwise] read it. The slices belong
// to the request: keep them as they are.
type Conversation struct {
	System  string   // the system messages, joined by line ends
	Users   []string // the user's messages, oldest first
	Past    []Call   // before the user's last message
	Current []Call   // since then
	Said    string   // the assistant's last text since then, if any
	Results []Result // of the last answer's calls, if nothing came after them
	Tools   []Tool   // that the request offers

	// ToolChoice is "auto", "none", "required" or the name of a tool to call. Serial
	// allows one call in an answer.
	ToolChoice string
	Serial     bool
}

// Call is a call that an earlier answer made.
type Call struct {
	Name      string
	Arguments string // JSON, as the client sent it: it may be broken
}

// Result is a tool's result and the call it answers, which is empty for an unknown one.
type Result struct {
	Call Call
	Text string
}

// Tool is a tool that the request offers. Parameters is its JSON Schema, if it has one.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage
}

func newConversation(r *request) *Conversation {
	c := &Conversation{ToolChoice: readChoice(r.ToolChoice), Serial: r.ParallelToolCalls != nil && !*r.ParallelToolCalls}
	byID := map[string]Call{}
	for i := range r.Messages {
		c.add(&r.Messages[i], byID)
	}
	for i := range r.Tools {
		c.Tools = append(c.Tools, Tool(r.Tools[i].Function))
	}
	return c
}

func (c *Conversation) add(m *message, byID map[string]Call) {
	if m.Role != "tool" {
		c.Results = nil
	}
	switch m.Role {
	case "system", "developer":
		c.System = strings.TrimPrefix(c.System+"\n"+string(m.Content), "\n")
	case "user":
		c.Users = append(c.Users, string(m.Content))
		c.Past = append(c.Past, c.Current...)
		c.Current, c.Said = nil, ""
	case "assistant":
		if m.Content != "" {
			c.Said = string(m.Content)
		}
		for i := range m.ToolCalls {
			call := Call(m.ToolCalls[i].Function)
			c.Current = append(c.Current, call)
			byID[m.ToolCalls[i].ID] = call
		}
	case "tool":
		c.Results = append(c.Results, Result{byID[m.ToolCallID], string(m.Content)})
	}
}

func readChoice(raw json.RawMessage) string {
	var s string
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case len(raw) == 0:
		return "auto"
	case json.Unmarshal(raw, &s) == nil:
		return s
	case json.Unmarshal(raw, &named) == nil:
		return named.Function.Name
	}
	return "auto"
}

// LastUser returns the user's last message, "" without one.
func (c *Conversation) LastUser() string {
	if len(c.Users) == 0 {
		return ""
	}
	return c.Users[len(c.Users)-1]
}

// tool returns the offered tool of that name, nil if there is none.
func (c *Conversation) tool(name string) *Tool {
	for i := range c.Tools {
		if c.Tools[i].Name == name {
			return &c.Tools[i]
		}
	}
	return nil
}

func (c *Conversation) parametersOf(name string) *toolschema.Schema {
	if t := c.tool(name); t != nil {
		return toolschema.Read(t.Parameters)
	}
	return nil
}

// after reports whether the conversation stands after a result of the tool of
// that name, "*" being any; and with "", whether it stands after none.
func (c *Conversation) after(name string) bool {
	if name == "" || name == "*" {
		return (len(c.Results) > 0) == (name == "*")
	}
	return slices.ContainsFunc(c.Results, func(r Result) bool { return r.Call.Name == name })
}

func (c *Conversation) resultText() string {
	texts := make([]string, len(c.Results))
	for i, r := range c.Results {
		texts[i] = r.Text
	}
	return strings.Join(texts, "\n")
}

// encode returns v as JSON without HTML escapes.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
