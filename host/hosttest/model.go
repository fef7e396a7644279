package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// Reply is one answer of a scripted [Model]. [Say], [Call] and [Fail] make the
// usual ones.
type Reply struct {
	Reasoning    string
	Text         string
	Calls        []*host.ToolCall  // an empty ID is filled in: call_1, call_2...
	Parts        []host.Part       // after the above, unchanged
	FinishReason host.FinishReason // default: tool_calls with calls, else stop
	Usage        host.Usage        // default: one token each way
	Err          error             // instead of an answer, after the streamed fields above
}

// Say returns an answer of text.
func Say(text string) Reply { return Reply{Text: text} }

// Call returns an answer that calls one tool. arguments is JSON, or any text that a
// model might write instead.
func Call(tool, arguments string) Reply { return Say("").Call(tool, arguments) }

// Call returns the answer with one more call.
func (r Reply) Call(tool, arguments string) Reply {
	r.Calls = append(slices.Clip(r.Calls), &host.ToolCall{Name: tool, Arguments: json.RawMessage(arguments)})
	return r
}

// Fail returns a reply that is an error.
func Fail(err error) Reply { return Reply{Err: err} }

// Model is a [host.Model] that answers from a script and records its requests. It
// streams its text word by word. Safe for concurrent use; the replies are then given in
// the order of the requests.
type Model struct {
	name   string
	answer func(ctx context.Context, req *llm.Request) Reply

	mu       sync.Mutex
	replies  []Reply
	requests []*llm.Request
	calls    int
}

// NewModel returns a model that gives each reply once. After the last reply its answer
// is an error of code failed_precondition.
func NewModel(replies ...Reply) *Model {
	return &Model{name: "scripted", replies: slices.Clone(replies)}
}

// ModelFunc returns a model whose replies are made by fn, which must be safe for
// concurrent use if the model is used so.
func ModelFunc(fn func(ctx context.Context, req *llm.Request) Reply) *Model {
	return &Model{name: "scripted", answer: fn}
}

// Named sets the model's name and returns it.
func (m *Model) Named(name string) *Model {
	m.name = name
	return m
}

// Name returns "scripted", or the name set by Named.
func (m *Model) Name() string { return m.name }

// Queue adds replies to the script.
func (m *Model) Queue(replies ...Reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replies = append(m.replies, replies...)
}

// Requests returns the requests to the model, in order. The messages are the host's: do
// not change them.
func (m *Model) Requests() []*llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Left returns the number of unused replies.
func (m *Model) Left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.replies)
}

// Generate streams the next reply.
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		r := m.next(ctx, req)
		resp := m.response(&r)
		for _, chunk := range deltas(&r) {
			if !yield(chunk, nil) {
				return
			}
		}
		if r.Err != nil {
			yield(llm.Chunk{}, r.Err)
			return
		}
		yield(llm.Chunk{Response: resp}, nil)
	}
}

func (m *Model) next(ctx context.Context, req *llm.Request) Reply {
	m.mu.Lock()
	copied := *req
	copied.Messages, copied.Tools = slices.Clone(req.Messages), slices.Clone(req.Tools)
	m.requests = append(m.requests, &copied)
	if m.answer != nil {
		m.mu.Unlock()
		return m.answer(ctx, req)
	}
	defer m.mu.Unlock()
	if len(m.replies) == 0 {
		return Fail(host.Errorf(host.FailedPrecondition, "the script has no reply to request %d, which ends with %s", len(m.requests), lastOf(req)))
	}
	r := m.replies[0]
	m.replies = m.replies[1:]
	return r
}

func lastOf(req *llm.Request) string {
	if len(req.Messages) == 0 {
		return "nothing"
	}
	m := req.Messages[len(req.Messages)-1]
	return fmt.Sprintf("%s %.80s", m.Role, m.AppendCountedText(nil))
}

// response makes the whole answer, with defaults for the empty fields of r.
func (m *Model) response(r *Reply) *llm.Response {
	resp := &llm.Response{Model: m.name, FinishReason: r.FinishReason, Usage: r.Usage}
	if r.Reasoning != "" {
		resp.Parts = append(resp.Parts, &host.Reasoning{Text: r.Reasoning})
	}
	if r.Text != "" {
		resp.Parts = append(resp.Parts, &host.Text{Text: r.Text})
	}
	r.Calls = slices.Clone(r.Calls)
	for i, c := range r.Calls {
		r.Calls[i] = m.withID(c)
		resp.Parts = append(resp.Parts, r.Calls[i])
	}
	resp.Parts = append(resp.Parts, r.Parts...)
	if resp.FinishReason == "" {
		resp.FinishReason = chat.FinishStop
		if len(r.Calls) > 0 {
			resp.FinishReason = chat.FinishToolCalls
		}
	}
	if resp.Usage == (host.Usage{}) {
		resp.Usage = host.Usage{InputTokens: 1, OutputTokens: 1}
	}
	return resp
}

func (m *Model) withID(c *host.ToolCall) *host.ToolCall {
	if c.ID != "" {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	named := *c
	named.ID = fmt.Sprintf("call_%d", m.calls)
	return &named
}

func deltas(r *Reply) []llm.Chunk {
	var out []llm.Chunk
	if r.Reasoning != "" {
		out = append(out, llm.Chunk{Reasoning: r.Reasoning})
	}
	for _, word := range strings.SplitAfter(r.Text, " ") {
		if word != "" {
			out = append(out, llm.Chunk{Text: word})
		}
	}
	for i, c := range r.Calls {
		out = append(out, llm.Chunk{ToolCall: &llm.ToolCallDelta{Index: i, ID: c.ID, Name: c.Name, Arguments: string(c.Arguments)}})
	}
	return out
}

var _ host.Model = (*Model)(nil)
