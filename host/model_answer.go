package host

import (
	"bytes"
	"encoding/json"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Normalizing a model's answer: its calls get one form, its size is checked, its
// tokens are estimated where it names none.

// normalCalls makes an answer's calls fit for a history: each has a name and an
// id of its own, and arguments that are JSON. A call that occurs twice, with the
// same id, name and arguments, is one.
func normalCalls(parts []Part) []Part {
	seen := map[string]*ToolCall{}
	out := make([]Part, 0, len(parts))
	for _, p := range parts {
		c, ok := p.(*ToolCall)
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
			renamed.ID = NewID()
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
func normalPart(p Part) Part {
	switch p := p.(type) {
	case *ToolResult:
		return nil
	case *Data:
		if len(p.Value) > 0 && jsondoc.Check(p.Value) != nil {
			return &Data{Value: jsondoc.Quote(string(p.Value)), Extra: p.Extra}
		}
	case *Unknown:
		if jsondoc.Check(p.JSON) != nil {
			return nil
		}
	}
	return p
}

// normalCall fills in the missing fields of a call. Arguments that are not JSON
// become a JSON string, and the model gets an error for it when the tool would run.
// Bytes that are no UTF-8 become U+FFFD, as encoding/json has it.
func normalCall(c *ToolCall) *ToolCall {
	args := bytes.TrimSpace(c.Arguments)
	if c.ID != "" && c.Name != "" && jsondoc.Check(c.Arguments) == nil {
		return c
	}
	fixed := *c
	if fixed.ID == "" {
		fixed.ID = NewID()
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

// checkAnswer returns an answer of our own, complete and within the limits. The
// model's is left alone: it may be one that it gives to many.
func (c *modelCalls) checkAnswer(req *ModelRequest, resp *ModelResponse) (*ModelResponse, error) {
	calls, size := 0, 0
	for _, p := range resp.Parts {
		switch p := p.(type) {
		case nil:
			return nil, Errorf(Internal, "answer has a part that is nil")
		case *ToolCall:
			calls++
			size += len(p.Arguments)
		case *Text:
			size += len(p.Text)
		case *Reasoning:
			size += len(p.Text) + len(p.Signature)
		case *Media:
			size += len(p.Data) + len(p.URL)
		case *Unknown:
			size += len(p.JSON)
		}
		for _, m := range chat.ExtraOf(p) {
			size += len(m.Value)
		}
	}
	if calls > maxToolCallsPerAnswer {
		return nil, Errorf(ResourceExhausted, "answer calls %d tools, more than %d", calls, maxToolCallsPerAnswer)
	}
	if size > c.limits.ResponseBytes {
		return nil, answerTooLong(c.limits.ResponseBytes)
	}
	own := *resp
	own.Parts, own.Usage = normalCalls(resp.Parts), boundedUsage(resp.Usage)
	if own.Usage == (Usage{}) {
		own.Usage = estimateUsage(req, resp)
	}
	if own.FinishReason == "" {
		own.FinishReason = FinishStop
	}
	return &own, nil
}

// maxAnswerTokens is the most that one answer is believed to have cost, either
// way: more would make sums of it overflow.
const maxAnswerTokens = 1 << 30

// boundedUsage returns a usage whose counts are neither negative nor too large to sum
// up. A negative count of a server would refund its tenant the cost of other calls.
func boundedUsage(u Usage) Usage {
	for _, n := range []*int{&u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.ReasoningTokens} {
		*n = min(max(*n, 0), maxAnswerTokens)
	}
	return u
}

func answerTooLong(limit int) error {
	return Errorf(ResourceExhausted, "answer is longer than the limit ResponseBytes of %d", limit)
}

func estimateUsage(req *ModelRequest, resp *ModelResponse) Usage {
	in, out := 0, 0
	for _, m := range req.Messages {
		n, _ := m.Size()
		in += n
	}
	for _, t := range req.Tools {
		in += len(t.Parameters) + len(t.Description)
	}
	for _, t := range req.ProviderTools {
		in += len(t.Declaration)
	}
	out, _ = (&Message{Parts: resp.Parts}).Size()
	return Usage{InputTokens: in / bytesPerToken, OutputTokens: out / bytesPerToken, Estimated: true}
}
