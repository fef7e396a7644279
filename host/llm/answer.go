package llm

import (
	"bytes"
	"encoding/json"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// maxToolCallsPerAnswer bounds the tool calls of one answer.
const maxToolCallsPerAnswer = 128

// namelessTool stands for the name in a call that has none. A history could not be read
// back without a name, and the model receives the error that there is no such tool.
const namelessTool = "unnamed"

// normalCalls returns parts whose calls a history can hold: each has a name and an id of
// its own, and arguments that are JSON. A call that occurs twice, with the same id, name
// and arguments, is one.
func normalCalls(parts []chat.Part) []chat.Part {
	seen := map[string]*chat.ToolCall{}
	out := make([]chat.Part, 0, len(parts))
	for _, p := range parts {
		c, ok := p.(*chat.ToolCall)
		if !ok {
			if p = normalPart(p); p != nil {
				out = append(out, p)
			}
			continue
		}
		c = normalCall(c)
		switch twin := seen[c.ID]; {
		case twin == nil:
		case twin.Name == c.Name && bytes.Equal(twin.Arguments, c.Arguments):
			continue
		default: // some servers number every call of an answer alike
			renamed := *c
			renamed.ID = chat.NewID()
			c = &renamed
		}
		seen[c.ID] = c
		out = append(out, c)
	}
	return out
}

// normalPart quotes data that is not JSON and drops an unknown part that is not:
// either would make the whole answer impossible to store. A tool's result is not
// a model's to give.
func normalPart(p chat.Part) chat.Part {
	switch p := p.(type) {
	case *chat.ToolResult:
		return nil
	case *chat.Data:
		if len(p.Value) > 0 && jsondoc.Check(p.Value) != nil {
			return &chat.Data{Value: jsondoc.Quote(string(p.Value)), Extra: p.Extra}
		}
	case *chat.Unknown:
		if jsondoc.Check(p.JSON) != nil {
			return nil
		}
	}
	return p
}

// normalCall fills in the missing fields of a call. Arguments that are not JSON
// become a JSON string, and the model gets an error for it when the tool would run.
// Bytes that are no UTF-8 become U+FFFD, as encoding/json has it.
func normalCall(c *chat.ToolCall) *chat.ToolCall {
	args := bytes.TrimSpace(c.Arguments)
	if c.ID != "" && c.Name != "" && jsondoc.Check(c.Arguments) == nil {
		return c
	}
	fixed := *c
	if fixed.ID == "" {
		fixed.ID = chat.NewID()
	}
	if fixed.Name == "" {
		fixed.Name = namelessTool
	}
	switch repaired := backquotedStrings(args); {
	case len(args) == 0:
		fixed.Arguments = json.RawMessage("{}")
	case jsondoc.Check(args) == nil:
		fixed.Arguments = args // without the white space of Unicode that JSON does not know
	case jsondoc.Check(repaired) == nil:
		fixed.Arguments = repaired
	default:
		fixed.Arguments = jsondoc.Quote(string(args))
	}
	return &fixed
}

// backquotedStrings makes JSON strings of the texts between backquotes outside
// strings: models that write code write {"code": `x := "y"`}.
func backquotedStrings(args []byte) json.RawMessage {
	out := make([]byte, 0, len(args)+8)
	for i := 0; i < len(args); i++ {
		end := i
		switch args[i] {
		case '"':
			end = jsondoc.StringEnd(args, i)
			out = append(out, args[i:end+1]...)
		case '`':
			n := bytes.IndexByte(args[i+1:], '`')
			if n < 0 {
				return args
			}
			end = i + 1 + n
			out = jsondoc.AppendString(out, string(args[i+1:end]))
		default:
			out = append(out, args[i])
		}
		i = end
	}
	return out
}

// Normalize returns the answer to a request in the form that a history can hold: each
// call has a name, an id of its own and arguments that are JSON, the usage is bounded,
// or estimated if the model reports none, and there is a finish reason. resp stays
// unchanged, because a model may give it to several callers. An answer of more than
// limit bytes or 128 calls has code resource_exhausted, one with a nil part internal.
func Normalize(req *Request, resp *Response, limit int) (*Response, error) {
	calls, size := 0, 0
	for _, p := range resp.Parts {
		switch p := p.(type) {
		case nil:
			return nil, fault.Errorf(fault.Internal, "answer has a part that is nil")
		case *chat.ToolCall:
			calls++
			size += len(p.Arguments)
		case *chat.Text:
			size += len(p.Text)
		case *chat.Reasoning:
			size += len(p.Text) + len(p.Signature)
		case *chat.Media:
			size += len(p.Data) + len(p.URL)
		case *chat.Unknown:
			size += len(p.JSON)
		}
		for _, m := range chat.ExtraOf(p) {
			size += len(m.Value)
		}
	}
	if calls > maxToolCallsPerAnswer {
		return nil, fault.Errorf(fault.ResourceExhausted, "answer calls %d tools, more than %d", calls, maxToolCallsPerAnswer)
	}
	if size > limit {
		return nil, TooLong(limit)
	}
	own := *resp
	own.Parts, own.Usage = normalCalls(resp.Parts), resp.Usage.Bounded()
	if own.Usage == (chat.Usage{}) {
		own.Usage = EstimateUsage(req, resp)
	}
	if own.FinishReason == "" {
		own.FinishReason = chat.FinishStop
	}
	return &own, nil
}

// TooLong returns the error of an answer that is longer than the limit ResponseBytes of
// a run.
func TooLong(limit int) error {
	return fault.Errorf(fault.ResourceExhausted, "answer is longer than the limit ResponseBytes of %d", limit)
}
