package openaimodel

import (
	"encoding/json"
	"maps"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host/modelhttp"
)

// answer sends the request and passes the answer on.
func (q *question) answer(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	m := q.model
	if m.server.AnswersWhole(q.req) {
		x.ExpectWhole()
	}
	got := &answer{chunk: chunk{Model: m.name}} // which the server probably repeats
	return x.Relay(c, completionsPath, q.body, m.headers, got)
}

const completionsPath = "/chat/completions"

// doneMark is the last line of a stream.
var doneMark = []byte("[DONE]")

// chunk is one event of a stream, or the whole document of a server that does
// not stream: then choices have a message instead of a delta. It is read with
// less than go-openai's type has, and more leniently, since servers differ in
// the rest and add reasoning under two names.
type chunk struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Choices choices         `json:"choices"`
	Usage   *wireUsage      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// choices are the choices of a chunk, at most maxChoices.
type choices []choice

// UnmarshalJSON implements json.Unmarshaler.
func (c *choices) UnmarshalJSON(b []byte) error {
	return modelhttp.UnmarshalList(b, maxChoices, "choices", (*[]choice)(c))
}

type choice struct {
	Index        int    `json:"index"`
	Delta        *piece `json:"delta"`
	Message      *piece `json:"message"`
	FinishReason string `json:"finish_reason"`
}

type piece struct {
	Content          flexText   `json:"content"`
	Refusal          flexText   `json:"refusal"`
	ReasoningContent flexText   `json:"reasoning_content"`
	Reasoning        flexText   `json:"reasoning"`
	ToolCalls        toolPieces `json:"tool_calls"`

	ReasoningDetails json.RawMessage `json:"reasoning_details"`
}

// toolPieces are the pieces of calls in a chunk, at most maxPieces.
type toolPieces []toolPiece

// UnmarshalJSON implements json.Unmarshaler.
func (p *toolPieces) UnmarshalJSON(b []byte) error {
	return modelhttp.UnmarshalList(b, maxPieces, "pieces of tool calls in a chunk", (*[]toolPiece)(p))
}

type toolPiece struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string       `json:"name"`
		Arguments flexDocument `json:"arguments"`
	} `json:"function"`

	unknown map[string]json.RawMessage // the other members
}

// UnmarshalJSON keeps the members that are not known.
func (p *toolPiece) UnmarshalJSON(b []byte) error {
	if err := modelhttp.CheckLength(b, maxMembers, "members in a tool call"); err != nil {
		return err
	}
	type plain toolPiece
	if err := json.Unmarshal(b, (*plain)(p)); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return isCallMember(name) })
	if p.unknown = nil; len(members) > 0 {
		p.unknown = members
	}
	return nil
}

// wireUsage is go-openai's, with DeepSeek's member for tokens read from its
// cache.
type wireUsage struct {
	openai.Usage
	CacheHits int `json:"prompt_cache_hit_tokens"`
}

// flexText is a string, null, or a list of parts, of which only those with text
// count.
type flexText string

func (t *flexText) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		if err := modelhttp.CheckLength(b, maxPieces, "parts of text in a chunk"); err != nil {
			return err
		}
		var parts []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}
		var all strings.Builder
		for _, p := range parts {
			all.WriteString(p.Text)
		}
		*t = flexText(all.String())
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// flexDocument is JSON text in a string, as the protocol has it, or the JSON
// itself, as some servers send it.
type flexDocument string

func (d *flexDocument) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '"' && string(b) != "null" {
		*d = flexDocument(b)
		return nil
	}
	return json.Unmarshal(b, (*string)(d))
}
