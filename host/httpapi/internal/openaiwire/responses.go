package openaiwire

import (
	"encoding/json"
	"strconv"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/stream"
)

// ResponseRequest is the body of POST /v1/responses.
type ResponseRequest struct {
	Model        string            `json:"model"`
	Input        json.RawMessage   `json:"input"` // a text, or items
	Instructions *string           `json:"instructions"`
	Metadata     map[string]string `json:"metadata"`

	PreviousResponse string          `json:"previous_response_id"`
	Conversation     json.RawMessage `json:"conversation"` // an id, or {"id"}
	Store            *bool           `json:"store"`
	Background       bool            `json:"background"`
	Stream           bool            `json:"stream"`

	Tools             []responseTool  `json:"tools"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	Text              *responseText   `json:"text"`

	Temperature     *float64        `json:"temperature"`
	TopP            *float64        `json:"top_p"`
	MaxOutputTokens *int            `json:"max_output_tokens"`
	Truncation      *string         `json:"truncation"`
	Prompt          json.RawMessage `json:"prompt"`
}

type responseTool struct {
	Type string `json:"type"`
	functionTool
	raw json.RawMessage
}

// UnmarshalJSON keeps the tool as it came, for the answer repeats it.
func (t *responseTool) UnmarshalJSON(raw []byte) error {
	type plain responseTool
	err := json.Unmarshal(raw, (*plain)(t))
	t.raw = append(json.RawMessage(nil), raw...)
	return err
}

// MarshalJSON returns the tool as it came.
func (t responseTool) MarshalJSON() ([]byte, error) { return t.raw, nil }

type responseText struct {
	Format *outputFormat `json:"format"`
}

// Stored reports whether the host keeps the response and its conversation.
func (r *ResponseRequest) Stored() bool { return r.Store == nil || *r.Store }

// ConversationID returns the id of the conversation, "" if the request names none.
func (r *ResponseRequest) ConversationID() (string, error) {
	if len(r.Conversation) == 0 || string(r.Conversation) == "null" {
		return "", nil
	}
	var id string
	if json.Unmarshal(r.Conversation, &id) != nil {
		var of struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(r.Conversation, &of) != nil {
			return "", paramf("conversation", "the conversation is neither an id nor an object with one")
		}
		id = of.ID
	}
	if id == "" {
		return "", paramf("conversation", "the conversation has no id")
	}
	return id, nil
}

// Terms returns the terms that the client sets. Code invalid_argument for one that no run keeps.
func (r *ResponseRequest) Terms() (*Terms, error) {
	switch {
	case len(r.Prompt) > 0 && string(r.Prompt) != "null":
		return nil, paramf("prompt", "there is no store of prompts").WithHint("an agent has its instructions; send others as instructions")
	case r.Truncation != nil && *r.Truncation != "auto" && *r.Truncation != "disabled":
		return nil, paramf("truncation", "the truncation is %.40q", *r.Truncation).WithHint("use auto or disabled")
	case r.Background && !r.Stored():
		return nil, paramf("background", "a response in the background has to be stored")
	case r.PreviousResponse != "" && (!r.Stored() || len(r.Conversation) > 0 && string(r.Conversation) != "null"):
		return nil, paramf("previous_response_id", "the request names a response before and keeps the conversation elsewhere").
			WithHint("leave store and conversation out, or previous_response_id")
	}
	t := &Terms{}
	for i := range r.Tools {
		if r.Tools[i].Type != "function" {
			return nil, paramf("tools", "tool %d is of type %.40q", i, r.Tools[i].Type).WithHint("a client has functions; other tools belong to the agent")
		}
		if err := t.declare(&r.Tools[i].functionTool); err != nil {
			return nil, err
		}
	}
	if err := t.choose(r.ToolChoice, func(raw json.RawMessage) string {
		var c struct{ Name string }
		_ = json.Unmarshal(raw, &c) // no name is a choice of none
		return c.Name
	}); err != nil {
		return nil, err
	}
	t.Client.SerialTools = r.ParallelToolCalls != nil && !*r.ParallelToolCalls
	if r.Text != nil {
		if err := t.format("text.format", r.Text.Format); err != nil {
			return nil, err
		}
	}
	if r.TopP != nil {
		t.Parameters = map[string]any{"top_p": *r.TopP}
	}
	return t, t.bounds(r.Temperature, "max_output_tokens", r.MaxOutputTokens)
}

// Response returns the members of the answer that the request decides.
func (r *ResponseRequest) Response() (stream.Response, error) {
	o := stream.Response{Instructions: r.Instructions, MaxOutputTokens: r.MaxOutputTokens, Model: r.Model,
		ParallelToolCalls: r.ParallelToolCalls == nil || *r.ParallelToolCalls, Store: r.Stored(), Background: r.Background, Temperature: r.Temperature, TopP: r.TopP,
		Text: json.RawMessage(`{"format":{"type":"text"}}`), ToolChoice: r.ToolChoice, Truncation: "disabled", Metadata: r.Metadata}
	if o.Metadata == nil {
		o.Metadata = map[string]string{}
	}
	if r.Truncation != nil {
		o.Truncation = *r.Truncation
	}
	if r.PreviousResponse != "" {
		o.PreviousResponse = &r.PreviousResponse
	}
	if len(o.ToolChoice) == 0 || string(o.ToolChoice) == "null" {
		o.ToolChoice = json.RawMessage(`"auto"`)
	}
	var err error
	if r.Text != nil && r.Text.Format != nil {
		o.Text, err = json.Marshal(r.Text)
	}
	if o.Tools = json.RawMessage(`[]`); len(r.Tools) > 0 && err == nil {
		o.Tools, err = json.Marshal(r.Tools)
	}
	if err != nil {
		return o, fault.Errorf(fault.Internal, "write the beginning of a response: %w", err)
	}
	return o, nil
}

// inputItem is one item of an input.
type inputItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// Items returns the input as items, each with an id: those of run are fresh.
func (r *ResponseRequest) Items(run string) (json.RawMessage, error) {
	if len(r.Input) > 0 && r.Input[0] == '"' { // a text, which is one message
		b := append([]byte(`[{"type":"message","id":"item_`), run...)
		b = append(append(b, `_0","role":"user","content":[{"type":"input_text","text":`...), r.Input...)
		return append(b, `}]}]`...), nil
	}
	list, err := r.items()
	if err != nil {
		return nil, err
	}
	out := make([]map[string]json.RawMessage, len(list))
	for i, raw := range list {
		if err := json.Unmarshal(raw, &out[i]); err != nil || out[i] == nil {
			return nil, paramf("input["+strconv.Itoa(i)+"]", "the item has another form")
		}
		if out[i]["type"] == nil {
			out[i]["type"] = json.RawMessage(`"message"`)
		}
		if out[i]["id"] == nil {
			out[i]["id"] = resultJSON("item_" + run + "_" + strconv.Itoa(i))
		}
		var text string
		if string(out[i]["type"]) == `"message"` && json.Unmarshal(out[i]["content"], &text) == nil {
			kind, answer := "input_text", string(out[i]["role"]) == `"assistant"`
			if answer {
				kind = "output_text"
			}
			parts := []map[string]string{{"type": kind, "text": text}}
			if answer && text == "" { // Turn ignores an empty answer, but not an empty part
				parts = parts[:0]
			}
			content, err := json.Marshal(parts)
			if err != nil {
				return nil, fault.Errorf(fault.Internal, "write item %d: %w", i, err)
			}
			out[i]["content"] = content
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "write the items of an input: %w", err)
	}
	return raw, nil
}

func (r *ResponseRequest) items() ([]json.RawMessage, error) {
	var text string
	if json.Unmarshal(r.Input, &text) == nil {
		if text == "" {
			return nil, paramf("input", "the input is empty")
		}
		raw, err := json.Marshal(map[string]string{"role": "user", "content": text})
		return []json.RawMessage{raw}, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(r.Input, &list); err != nil || len(list) == 0 {
		return nil, paramf("input", "the input is neither a text nor a list of items")
	}
	return list, nil
}

// Turn returns the conversation that the input is. Code invalid_argument for one that cannot
// be read.
func (r *ResponseRequest) Turn() (*Turn, error) {
	list, err := r.items()
	if err != nil {
		return nil, err
	}
	var t turnReader
	if r.Instructions != nil && *r.Instructions != "" {
		t.system(*r.Instructions)
	}
	for i, raw := range list {
		if err := t.inputItem("input["+strconv.Itoa(i)+"]", raw); err != nil {
			return nil, err
		}
	}
	turn, err := t.end()
	if err != nil {
		err.(*ParamError).Param = "input"
	}
	return turn, err
}

func (r *turnReader) inputItem(param string, raw json.RawMessage) error {
	var item inputItem
	if err := jsondoc.Unmarshal(raw, &item); err != nil { // Items compares names exactly, too
		return paramf(param, "the item has another form")
	}
	switch item.Type {
	case "", "message":
		message, err := json.Marshal(chatMessage{Role: item.Role, Content: item.Content})
		if err != nil {
			return paramf(param, "the message has another form")
		}
		return r.chatMessage(param, message)
	case "function_call":
		if item.CallID == "" || item.Name == "" {
			return paramf(param, "a call has no call_id or no name")
		}
		r.call(toolCall(item.CallID, item.Name, item.Arguments))
		r.add(raw)
	case "function_call_output":
		parts, err := chatContent(param+".output", item.Output)
		if err != nil {
			return err
		}
		text, err := onlyText(param+".output", parts)
		if err != nil {
			return err
		}
		if item.CallID == "" {
			return paramf(param+".call_id", "the result of a call does not say which")
		}
		r.result(item.CallID, text)
		r.add(raw)
	case "reasoning": // a model's own, of which nothing is sent back
	case "item_reference":
		return paramf(param, "the item %.60q is named and not sent", item.ID).WithHint("continue by previous_response_id or conversation, or send the items")
	default:
		return paramf(param, "there is no item of type %.40q here", item.Type)
	}
	return nil
}
