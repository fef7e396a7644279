package openaiwire

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/stream"
)

// ChatRequest is the body of POST /v1/chat/completions.
type ChatRequest struct {
	Model    string            `json:"model"`
	Messages []json.RawMessage `json:"messages"`
	Metadata map[string]string `json:"metadata"`

	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	Tools             []chatTool      `json:"tools"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	ResponseFormat    *chatFormat     `json:"response_format"`

	Temperature         *float64 `json:"temperature"`
	MaxTokens           *int     `json:"max_tokens"`
	MaxCompletionTokens *int     `json:"max_completion_tokens"`

	chatParameters
	chatRefused
}

// chatParameters are passed on to models.
type chatParameters struct {
	TopP             json.RawMessage `json:"top_p"`
	Stop             json.RawMessage `json:"stop"`
	Seed             json.RawMessage `json:"seed"`
	PresencePenalty  json.RawMessage `json:"presence_penalty"`
	FrequencyPenalty json.RawMessage `json:"frequency_penalty"`
	ReasoningEffort  json.RawMessage `json:"reasoning_effort"`
	Verbosity        json.RawMessage `json:"verbosity"`
}

// chatRefused ask for answers of other kinds than are given.
type chatRefused struct {
	N          *int            `json:"n"`
	Logprobs   bool            `json:"logprobs"`
	Modalities []string        `json:"modalities"`
	Functions  json.RawMessage `json:"functions"`
}

type chatTool struct {
	Type     string        `json:"type"`
	Function *functionTool `json:"function"`
}

type chatFormat struct {
	Type       string        `json:"type"`
	JSONSchema *outputFormat `json:"json_schema"`
}

// Terms returns the terms that the client sets. Code invalid_argument for one that no run keeps.
func (r *ChatRequest) Terms() (*Terms, error) {
	if err := r.refuse(); err != nil {
		return nil, err
	}
	t := &Terms{}
	for i, tool := range r.Tools {
		if tool.Type != "function" || tool.Function == nil {
			return nil, paramf("tools", "tool %d is of type %.40q", i, tool.Type).WithHint("a client has functions; other tools belong to the agent")
		}
		if err := t.declare(tool.Function); err != nil {
			return nil, err
		}
	}
	if err := t.choose(r.ToolChoice, func(raw json.RawMessage) string {
		var c chatTool
		if json.Unmarshal(raw, &c) != nil || c.Function == nil {
			return ""
		}
		return c.Function.Name
	}); err != nil {
		return nil, err
	}
	t.Client.SerialTools = r.ParallelToolCalls != nil && !*r.ParallelToolCalls
	if f := r.ResponseFormat; f != nil {
		own := outputFormat{Type: f.Type}
		if f.JSONSchema != nil {
			own = *f.JSONSchema
			own.Type = f.Type
		}
		if err := t.format("response_format", &own); err != nil {
			return nil, err
		}
	}
	most, param := r.MaxCompletionTokens, "max_completion_tokens"
	if most == nil {
		most, param = r.MaxTokens, "max_tokens"
	}
	if err := t.bounds(r.Temperature, param, most); err != nil {
		return nil, err
	}
	p := &r.chatParameters
	for name, raw := range map[string]json.RawMessage{"top_p": p.TopP, "stop": p.Stop, "seed": p.Seed, "presence_penalty": p.PresencePenalty,
		"frequency_penalty": p.FrequencyPenalty, "reasoning_effort": p.ReasoningEffort, "verbosity": p.Verbosity} {
		t.parameter(name, raw)
	}
	return t, nil
}

// refuse returns an error for a request of an answer that is not given.
func (r *ChatRequest) refuse() error {
	switch {
	case r.N != nil && *r.N != 1:
		return paramf("n", "%d choices are wanted, and a run has one answer", *r.N).WithHint("leave n out, and send the request as often as there are to be answers")
	case r.Logprobs:
		return paramf("logprobs", "agents give no probabilities of tokens")
	case len(r.Modalities) > 1 || len(r.Modalities) == 1 && r.Modalities[0] != "text":
		return paramf("modalities", "agents answer with text")
	case len(r.Functions) > 0 && string(r.Functions) != "null":
		return paramf("functions", "functions are the old form of tools").WithHint("send tools and tool_choice")
	}
	return nil
}

// chatMessage is one message of a conversation.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Refusal    string          `json:"refusal"`
	ToolCalls  []chatToolCall  `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

type chatToolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Turn returns the conversation. Code invalid_argument for one that cannot be read.
func (r *ChatRequest) Turn() (*Turn, error) {
	var t turnReader
	for i, raw := range r.Messages {
		if err := t.chatMessage("messages["+strconv.Itoa(i)+"]", raw); err != nil {
			return nil, err
		}
	}
	return t.end()
}

func (r *turnReader) chatMessage(param string, raw json.RawMessage) error {
	var m chatMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return paramf(param, "the message has another form")
	}
	parts, err := chatContent(param+".content", m.Content)
	if err != nil {
		return err
	}
	switch m.Role {
	case "system", "developer":
		text, err := onlyText(param, parts)
		if err != nil {
			return err
		}
		r.system(text)
		r.add(raw)
	case "user":
		if len(parts) == 0 {
			return paramf(param, "the message is empty")
		}
		r.user(parts)
		r.add(raw)
	case "assistant":
		if m.Refusal != "" {
			parts = append(parts, &chat.Text{Text: m.Refusal})
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Function.Name == "" {
				return paramf(param+".tool_calls", "a call has no id or no function")
			}
			parts = append(parts, toolCall(c.ID, c.Function.Name, c.Function.Arguments))
		}
		if len(parts) == 0 { // front ends keep answers that were stopped before they began
			r.stopped()
			return nil
		}
		r.assistant(parts)
		r.add(raw)
	case "tool":
		text, err := onlyText(param, parts)
		if err != nil {
			return err
		}
		if m.ToolCallID == "" {
			return paramf(param+".tool_call_id", "the result of a call does not say which")
		}
		r.result(m.ToolCallID, text)
		r.add(raw)
	default:
		return paramf(param+".role", "the role is %.40q", m.Role).WithHint("use system, developer, user, assistant or tool")
	}
	return nil
}

// toolCall returns an earlier call. Arguments that are no JSON, as of an answer that was cut,
// are kept as a text.
func toolCall(id, name, arguments string) *chat.ToolCall {
	raw := json.RawMessage(arguments)
	if !json.Valid(raw) {
		raw = resultJSON(arguments)
	}
	return &chat.ToolCall{ID: stream.ShortCallID(id), Name: name, Arguments: raw}
}

// onlyText returns the text of parts. Code invalid_argument if there are others.
func onlyText(param string, parts []chat.Part) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		text, ok := p.(*chat.Text)
		if !ok {
			return "", paramf(param, "the message has a part that is not text")
		}
		b.WriteString(text.Text)
	}
	return b.String(), nil
}

// contentPart is a piece of a message, of either protocol.
type contentPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"` // {"url"}, or the address itself
	File     *filePart       `json:"file"`
	Audio    *audioPart      `json:"input_audio"`
	filePart
}

type filePart struct {
	FileID   string `json:"file_id"`
	FileName string `json:"filename"`
	FileData string `json:"file_data"`
	FileURL  string `json:"file_url"`
}

type audioPart struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

// chatContent reads the content of a message: a text, parts, or null.
func chatContent(param string, raw json.RawMessage) ([]chat.Part, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return nil, nil
		}
		return []chat.Part{&chat.Text{Text: text}}, nil
	}
	var list []contentPart
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, paramf(param, "the content is neither a text nor a list of parts")
	}
	var parts []chat.Part
	for i := range list {
		p, err := list[i].part(param)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (p *contentPart) part(param string) (chat.Part, error) {
	switch p.Type {
	case "text", "input_text", "output_text":
		return &chat.Text{Text: p.Text}, nil
	case "refusal":
		return &chat.Text{Text: p.Refusal}, nil
	case "image_url", "input_image":
		var address string
		if json.Unmarshal(p.ImageURL, &address) != nil {
			var of struct {
				URL string `json:"url"`
			}
			if json.Unmarshal(p.ImageURL, &of) != nil {
				return nil, paramf(param, "an image has no address")
			}
			address = of.URL
		}
		return media(param, address, "image/*")
	case "file":
		if p.File == nil {
			return nil, paramf(param, "a part of type file has no file")
		}
		return p.File.part(param)
	case "input_file":
		return p.filePart.part(param)
	case "input_audio":
		if p.Audio == nil || p.Audio.Format == "" {
			return nil, paramf(param, "a sound has no data or no format")
		}
		return mediaBytes(param, "audio/"+p.Audio.Format, p.Audio.Data)
	}
	return nil, paramf(param, "there is no part of type %.40q here", p.Type)
}

func (f *filePart) part(param string) (chat.Part, error) {
	const anyFile = "application/octet-stream"
	switch {
	case f.FileID != "":
		e := paramf(param, "a file is named by the id %.60q, and there is no store of files", f.FileID).WithHint("send the file itself as file_data")
		e.Err.Code = fault.Unimplemented
		return nil, e
	case f.FileURL != "":
		return media(param, f.FileURL, anyFile)
	case strings.HasPrefix(f.FileData, "data:"):
		return media(param, f.FileData, anyFile)
	}
	return mediaBytes(param, anyFile, f.FileData)
}
