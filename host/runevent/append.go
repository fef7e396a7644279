package runevent

import (
	"encoding/json"
	"strconv"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// appendData appends the JSON of an event's data. The events of each run are written member by
// member, which takes a fraction of the time of encoding/json; all others by it. A test
// compares the two.
func appendData(dst []byte, data Data) ([]byte, error) {
	w := writer{dst: dst}
	switch d := data.(type) {
	case *TextDelta:
		w.text("text", d.Text)
	case *ReasoningDelta:
		w.text("text", d.Text)
	case *RunStarted:
		w.optionalText("tenant", d.Tenant)
		w.optionalText("thread", d.Thread)
		w.optionalText("branch", d.Branch)
		w.optionalText("message", d.Message)
		w.optionalText("resumes", d.Resumes)
		w.optionalTrue("replayed", d.Replayed)
	case *AgentStarted:
		w.text("model", d.Model)
		w.optionalText("result", d.Result)
	case *ModelCalled:
		w.text("model", d.Model)
		w.number("round", int64(d.Round))
		w.number("messages", int64(d.Messages))
		w.optionalNumber("tools", int64(d.Tools))
	case *MessageDone:
		w.message("message", d.Message)
		if d.Usage != nil {
			w.usage("usage", d.Usage)
		}
		if len(d.Raw) > 0 {
			w.raw("raw", d.Raw)
		}
	case *ToolStarted:
		w.text("id", d.ID)
		w.optionalText("key", d.Key)
		w.text("name", d.Name)
		w.raw("arguments", d.Arguments)
		w.optionalText("provider", d.Provider)
		w.optionalText("parent", d.Parent)
	case *ToolFinished:
		w.text("id", d.ID)
		w.optionalText("key", d.Key)
		w.text("name", d.Name)
		w.raw("content", d.Content)
		w.optionalTrue("is_error", d.IsError)
		w.optionalTrue("unknown", d.Unknown)
		w.number("duration_us", d.DurationUS)
		if d.Cost != nil {
			w.cost("cost", d.Cost)
		}
		w.optionalText("parent", d.Parent)
	case *AgentFinished:
		w.text("finish_reason", string(d.FinishReason))
		w.number("rounds", int64(d.Rounds))
		w.optionalText("limit", d.Limit)
		w.usage("usage", &d.Usage)
	case *RunFinished:
		w.text("finish_reason", string(d.FinishReason))
		w.optionalText("thread", d.Thread)
		w.usage("usage", &d.Usage)
		w.cost("cost", &d.Cost)
		w.number("duration_us", d.DurationUS)
		if d.Error != nil {
			w.value("error", d.Error)
		}
	default:
		raw, err := json.Marshal(data)
		return append(dst, raw...), err
	}
	return w.end()
}

// writer appends the members of an object.
type writer struct {
	dst   []byte
	begun bool
	err   error // the first of a value that cannot be written
}

// name begins a member.
func (w *writer) name(name string) {
	if w.begun {
		w.dst = append(w.dst, ',', '"')
	} else {
		w.dst = append(w.dst, '{', '"')
	}
	w.begun = true
	w.dst = append(append(w.dst, name...), '"', ':')
}

func (w *writer) text(name, value string) {
	w.name(name)
	w.dst = jsondoc.AppendString(w.dst, value)
}

func (w *writer) optionalText(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func (w *writer) number(name string, value int64) {
	w.name(name)
	w.dst = strconv.AppendInt(w.dst, value, 10)
}

func (w *writer) optionalNumber(name string, value int64) {
	if value != 0 {
		w.number(name, value)
	}
}

func (w *writer) optionalTrue(name string, value bool) {
	if value {
		w.name(name)
		w.dst = append(w.dst, "true"...)
	}
}

// raw writes a value that is JSON already.
func (w *writer) raw(name string, value json.RawMessage) {
	if value != nil && !json.Valid(value) {
		w.value(name, value) // encoding/json reports the invalid value
		return
	}
	w.name(name)
	w.dst = jsondoc.AppendRaw(w.dst, value)
}

// value writes a value by encoding/json.
func (w *writer) value(name string, value any) {
	raw, err := json.Marshal(value)
	if w.err == nil {
		w.err = err
	}
	w.name(name)
	w.dst = append(w.dst, raw...)
}

func (w *writer) message(name string, m *chat.Message) {
	w.name(name)
	if m == nil {
		w.dst = append(w.dst, "null"...)
		return
	}
	w.dst = m.AppendJSON(w.dst)
}

func (w *writer) usage(name string, u *chat.Usage) {
	w.name(name)
	of := writer{dst: w.dst}
	of.number("input_tokens", int64(u.InputTokens))
	of.number("output_tokens", int64(u.OutputTokens))
	of.optionalNumber("cached_tokens", int64(u.CachedTokens))
	of.optionalNumber("reasoning_tokens", int64(u.ReasoningTokens))
	of.optionalTrue("estimated", u.Estimated)
	w.dst, _ = of.end()
}

func (w *writer) cost(name string, c *chat.Cost) {
	w.name(name)
	of := writer{dst: w.dst}
	of.optionalText("plugin", c.Plugin)
	of.number("instructions", c.Instructions)
	of.number("duration_us", c.DurationUS)
	of.optionalNumber("peak_memory_bytes", c.PeakMemory)
	of.optionalNumber("host_calls", int64(c.HostCalls))
	of.optionalNumber("input_bytes", int64(c.InputBytes))
	of.optionalNumber("output_bytes", int64(c.OutputBytes))
	of.optionalNumber("wait_us", c.WaitUS)
	of.optionalNumber("throttled_us", c.ThrottledUS)
	w.dst, _ = of.end()
}

// end ends the object.
func (w *writer) end() ([]byte, error) {
	if !w.begun {
		w.dst = append(w.dst, '{')
	}
	return append(w.dst, '}'), w.err
}
