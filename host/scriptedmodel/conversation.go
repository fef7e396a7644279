package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// conversation is a request as the rules and the heuristic look at it.
type conversation struct {
	*request
	system  string
	users   []string // the user's messages, oldest first
	past    []called // calls before the last user's message
	current []called // calls since
	said    string   // the assistant's last text since, if any
	results []result // of the last answer's calls, if nothing came after them
	tools   []*offer
	choice  string // "auto", "none", "required" or a tool's name
}

// result is a tool's result and the call it answers.
type result struct {
	call called
	text string
}

// errorPrefix begins a result that is an error.
const errorPrefix = "Error: "

func newConversation(r *request) *conversation {
	c := &conversation{request: r, choice: readChoice(r.ToolChoice)}
	byID := map[string]called{}
	for i := range r.Messages {
		c.add(&r.Messages[i], byID)
	}
	for i := range r.Tools {
		c.tools = append(c.tools, newOffer(&r.Tools[i]))
	}
	return c
}

func (c *conversation) add(m *message, byID map[string]called) {
	if m.Role != "tool" {
		c.results = nil
	}
	switch m.Role {
	case "system", "developer":
		c.system = strings.TrimPrefix(c.system+"\n"+string(m.Content), "\n")
	case "user":
		c.users = append(c.users, string(m.Content))
		c.past = append(c.past, c.current...)
		c.current, c.said = nil, ""
	case "assistant":
		if m.Content != "" {
			c.said = string(m.Content)
		}
		c.current = append(c.current, m.ToolCalls...)
		for _, call := range m.ToolCalls {
			byID[call.ID] = call
		}
	case "tool":
		c.results = append(c.results, result{byID[m.ToolCallID], string(m.Content)})
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

func (c *conversation) lastUser() string {
	if len(c.users) == 0 {
		return ""
	}
	return c.users[len(c.users)-1]
}

// earlier returns the user's messages before the last one.
func (c *conversation) earlier() []string {
	return c.users[:max(len(c.users)-1, 0)]
}

func (c *conversation) tool(name string) *offer {
	for _, t := range c.tools {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (c *conversation) parametersOf(name string) *schema {
	if t := c.tool(name); t != nil {
		return t.parameters
	}
	return nil
}

// after reports whether the conversation stands after a result of the tool of
// that name, "*" being any; and with "", whether it stands after none.
func (c *conversation) after(name string) bool {
	if name == "" || name == "*" {
		return (len(c.results) > 0) == (name == "*")
	}
	return slices.ContainsFunc(c.results, func(r result) bool { return r.call.Function.Name == name })
}

func (c *conversation) resultText() string {
	texts := make([]string, len(c.results))
	for i, r := range c.results {
		texts[i] = r.text
	}
	return strings.Join(texts, "\n")
}

// made reports whether this turn has called a tool with these arguments before.
func (c *conversation) made(call ReplyCall) bool {
	return slices.ContainsFunc(c.current, func(m called) bool {
		return m.Function.Name == call.Name && bytes.Equal(compact([]byte(m.Function.Arguments)), compact(call.Arguments))
	})
}

func compact(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
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
