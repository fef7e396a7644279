package stream

import (
	"encoding/json"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/runevent"
)

// ChatOptions are those of answers in the form of OpenAI's Chat Completions.
type ChatOptions struct {
	Run   string // the id of the answer is chatcmpl-RUN
	Model string // as the client named it

	Created   int64 // in seconds
	Usage     bool  // a stream ends with the usage
	JSON      bool  // the answer is JSON: the last one alone is sent, whole
	Approvals bool  // the client has declared [ApprovalTool]
}

// ChatCompletions returns an encoder of chunks of OpenAI's Chat Completions:
//
//	{"id":"chatcmpl-RUN","object":"chat.completion.chunk","created","model","choices":[{"index":0,"delta":{...},"finish_reason"}]}
//
// One answer is the whole run: the texts of its agents and rounds follow each other behind
// blank lines, and the network's own tools are not shown. Calls that the client is to execute
// are tool_calls, each whole, once the host has checked it. Reasoning is reasoning_content, as
// servers of open models have it. The last chunk has the member agenthost beside the
// protocol's, with the run, the thread and its questions. A run that fails ends with
// {"error":{...}}, any other with [DONE].
func ChatCompletions(opts *ChatOptions) Encoder {
	c := &chatChunks{opts: *opts, text: answerText{structured: opts.JSON}}
	head := append([]byte(`{"id":`), appendQuoted(nil, "chatcmpl-"+opts.Run)...)
	head = strconv.AppendInt(append(head, `,"object":"chat.completion.chunk","created":`...), opts.Created, 10)
	head = appendQuoted(append(head, `,"model":`...), opts.Model)
	c.head = append(head, `,"choices":[`...)
	return c
}

// chatChunks is the encoder of one run.
type chatChunks struct {
	openAIFailures
	opts   ChatOptions
	head   []byte // of every chunk
	text   answerText
	thread string
	calls  int
	answer chat.FinishReason // of the last agent

	questions []*host.Question
	replayed  bool
}

// Encode implements Encoder.
func (c *chatChunks) Encode(dst []Frame, ev host.Event) ([]Frame, error) {
	switch d := ev.Data.(type) {
	case *runevent.RunStarted:
		c.thread, c.replayed = d.Thread, d.Replayed
		return append(dst, c.chunk(`{"role":"assistant","content":""}`, "")), nil
	case *runevent.TextDelta:
		return c.content(dst, "content", c.text.delta(d.Text)), nil
	case *runevent.ReasoningDelta:
		return c.content(dst, "reasoning_content", d.Text), nil
	case *runevent.ModelRetried, *runevent.ModelFellBack:
		c.text.again()
	case *runevent.MessageDone:
		return c.content(dst, "content", c.text.done(d.Message)), nil
	case *runevent.Interrupted:
		return c.ask(dst, ev.Run, d.Question), nil
	case *runevent.AgentFinished:
		c.answer = d.FinishReason
	case *runevent.RunFinished:
		return c.finish(dst, ev.ForClient().Data.(*runevent.RunFinished))
	}
	return dst, nil
}

// chunk returns a chunk of a delta, with a finish reason unless that is empty.
func (c *chatChunks) chunk(delta, finish string) Frame {
	b := make([]byte, 0, len(c.head)+len(delta)+64)
	b = append(append(append(b, c.head...), `{"index":0,"delta":`...), delta...)
	if finish == "" {
		return Frame{Data: append(b, `,"finish_reason":null}]}`...)}
	}
	return Frame{Data: append(appendQuoted(append(b, `,"finish_reason":`...), finish), `}]}`...)}
}

// content appends a chunk with a text, if there is one.
func (c *chatChunks) content(dst []Frame, member, text string) []Frame {
	if text == "" {
		return dst
	}
	b := make([]byte, 0, len(c.head)+len(text)+80)
	b = append(append(append(append(b, c.head...), `{"index":0,"delta":{"`...), member...), `":`...)
	return append(dst, Frame{Data: append(appendQuoted(b, text), `},"finish_reason":null}]}`...)})
}

// ask appends the question of a run: a call of the client's tools, or a text.
func (c *chatChunks) ask(dst []Frame, run string, q *host.Question) []Frame {
	call, ok := callOf(run, q, c.opts.Approvals)
	if !ok {
		c.questions = append(c.questions, q)
		return c.content(dst, "content", c.text.notice(waitingText(run, q)))
	}
	b := strconv.AppendInt([]byte(`{"tool_calls":[{"index":`), int64(c.calls), 10)
	b = appendQuoted(append(b, `,"id":`...), call.id)
	b = appendQuoted(append(b, `,"type":"function","function":{"name":`...), call.name)
	b = appendQuoted(append(b, `,"arguments":`...), call.arguments)
	c.calls++
	return append(dst, c.chunk(string(append(b, `}}]}`...)), ""))
}

func (c *chatChunks) finish(dst []Frame, d *runevent.RunFinished) ([]Frame, error) {
	if d.Error != nil {
		return append(dst, Frame{Data: c.encodeFailure(d.Error)}), nil
	}
	if c.calls == 0 && len(c.questions) == 0 {
		dst = c.content(dst, "content", c.text.end())
	}
	last := c.chunk(`{}`, openAIFinish(d.FinishReason, c.answer, c.calls))
	own, err := json.Marshal(openAIRun{Run: c.opts.Run, Thread: d.Thread, Questions: c.questions, Replayed: c.replayed})
	if err != nil {
		return dst, host.Errorf(host.Internal, "write the last chunk of run %q: %w", c.opts.Run, err)
	}
	last.Data = append(append(append(last.Data[:len(last.Data)-1], `,"agenthost":`...), own...), '}')
	dst = append(dst, last)
	if c.opts.Usage {
		usage, err := json.Marshal(newOpenAIUsage(d.Usage))
		if err != nil {
			return dst, host.Errorf(host.Internal, "write the usage of run %q: %w", c.opts.Run, err)
		}
		b := append(append([]byte(nil), c.head...), `],"usage":`...)
		dst = append(dst, Frame{Data: append(append(b, usage...), '}')})
	}
	return append(dst, Frame{Data: json.RawMessage(`[DONE]`)}), nil
}

// ChatCompletion is the answer of a run in the form of OpenAI's Chat Completions.
type ChatCompletion struct {
	ID        string       `json:"id"`
	Object    string       `json:"object"`
	Created   int64        `json:"created"`
	Model     string       `json:"model"`
	Choices   []chatChoice `json:"choices"`
	Usage     *openAIUsage `json:"usage"`
	AgentHost openAIRun    `json:"agenthost"`
}

type chatChoice struct {
	Index        int         `json:"index"`
	Message      chatMessage `json:"message"`
	Logprobs     *struct{}   `json:"logprobs"`
	FinishReason string      `json:"finish_reason"`
}

type chatMessage struct {
	Role      string         `json:"role"`
	Content   *string        `json:"content"`
	Refusal   *string        `json:"refusal"`
	Reasoning string         `json:"reasoning_content,omitempty"`
	ToolCalls []chatToolCall `json:"tool_calls,omitempty"`
}

type chatToolCall struct {
	ID       string           `json:"id"`
	Type     string           `json:"type"`
	Function chatFunctionCall `json:"function"`
}

type chatFunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// NewChatCompletion returns the answer of a run that did not fail. It says what the chunks of
// [ChatCompletions] say together.
func NewChatCompletion(r *runevent.RunResult, opts *ChatOptions) *ChatCompletion {
	m := chatMessage{Role: "assistant"}
	own := openAIRun{Run: opts.Run, Thread: r.Thread, Replayed: r.Replayed}
	text := ""
	if !opts.JSON || len(r.Questions) == 0 {
		text = resultText(r, opts.JSON)
	}
	for _, q := range r.Questions {
		call, ok := callOf(r.Run, q, opts.Approvals)
		if !ok {
			own.Questions = append(own.Questions, q)
			notice := answerText{written: text != ""}
			text += notice.notice(waitingText(r.Run, q))
			continue
		}
		m.ToolCalls = append(m.ToolCalls, chatToolCall{ID: call.id, Type: "function", Function: chatFunctionCall{Name: call.name, Arguments: call.arguments}})
	}
	if text != "" || len(m.ToolCalls) == 0 {
		m.Content = &text
	}
	m.Reasoning = reasoningOf(r)
	var answer chat.FinishReason
	if n := len(r.Results); n > 0 {
		answer = r.Results[n-1].FinishReason
	}
	return &ChatCompletion{ID: "chatcmpl-" + opts.Run, Object: "chat.completion", Created: opts.Created, Model: opts.Model,
		Choices: []chatChoice{{Message: m, FinishReason: openAIFinish(r.FinishReason, answer, len(m.ToolCalls))}},
		Usage:   newOpenAIUsage(r.Usage), AgentHost: own}
}

// reasoningOf returns the reasoning of a run's answers.
func reasoningOf(r *runevent.RunResult) (text string) {
	for _, result := range r.Results {
		for _, m := range result.Messages {
			for _, p := range m.Parts {
				if p, ok := p.(*chat.Reasoning); ok {
					text += p.Text
				}
			}
		}
	}
	return text
}
