package mcpclient

//lint:file-ignore SA1019 servers of versions before 2026-07-28 ask for samples

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// askBack answers the requests that a server sends of its own: questions to the model and
// to the person of the run whose call is in progress. The protocol does not always say
// which call a request belongs to, so a server with this permission gets one call at a time.
type askBack struct {
	sampling    bool
	elicitation bool
	calling     chan struct{} // holds a value while a call runs

	mu      sync.Mutex
	current *callAsks
}

// begin waits until no other call runs, if the server may ask back, and returns a function that
// ends the call.
func (a *askBack) begin(ctx context.Context, c *callAsks) (end func(), err error) {
	if !a.sampling && !a.elicitation {
		return func() {}, nil
	}
	select {
	case a.calling <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.ContextError(ctx)
	}
	a.set(c)
	return func() { a.set(nil); <-a.calling }, nil
}

func (a *askBack) set(c *callAsks) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current = c
}

// now returns the call in progress. Code failed_precondition without one.
func (a *askBack) now() (*callAsks, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "no call of a tool is in progress")
	}
	return a.current, nil
}

// createMessage answers a question to the model that comes as a request.
func (a *askBack) createMessage(_ context.Context, req *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	c, err := a.now()
	if err != nil {
		return nil, err
	}
	return c.sample(req.Params)
}

// elicit answers a question to the person that comes as a request. Without an answer yet,
// the call ends: it is made again when the person has answered.
func (a *askBack) elicit(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	c, err := a.now()
	if err != nil {
		return nil, err
	}
	result, err := c.answer(req.Params)
	if result == nil && err == nil {
		c.stop()
		_ = sleep(ctx, unansweredWait) // the server learns that the call has ended, not that the person declined
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	return result, err
}

// unansweredWait is how long a request without an answer yet stays open, while its call ends.
const unansweredWait = 2 * time.Second

// callAsks are the questions of one call.
type callAsks struct {
	ctx    context.Context // its lifetime is that of the call
	server *Server
	limits *Limits
	call   *host.Call
	stop   func() // ends the call

	program AnswerFunc // is asked before the person; may be nil

	mu       sync.Mutex
	samples  int
	usage    host.Usage
	answered int             // questions that have had their answers
	asks     *host.Interrupt // a question without an answer; the call ends
}

// pending returns the question that the call ends with; nil without one.
func (c *callAsks) pending() *host.Interrupt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asks
}

// used returns the tokens of the model's answers; nil without any.
func (c *callAsks) used() *host.Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.samples == 0 {
		return nil
	}
	u := c.usage
	return &u
}

// The bounds of a question to a person.
const (
	maxQuestionText   = 1 << 10
	maxQuestionSchema = 16 << 10
)

// Elicitation is a server's question to a person; its JSON is the data of the run's
// question.
type Elicitation struct {
	Server  string          `json:"mcp_server"`
	Message string          `json:"-"`                // the question's reason
	Schema  json.RawMessage `json:"schema,omitempty"` // that the content of the answer fits
}

// answer returns the answer to a question, nil if the person has to be asked first. A call
// that is made again asks its questions again, in their order.
func (c *callAsks) answer(p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p == nil || p.Mode != "" && p.Mode != "form" {
		return &mcp.ElicitResult{Action: "decline"}, nil // pages of others are opened by no one
	}
	raw, err := json.Marshal(p.RequestedSchema)
	if err != nil || len(raw) > maxQuestionSchema {
		return nil, fault.Errorf(fault.InvalidArgument, "the schema of the question is longer than %d bytes", maxQuestionSchema)
	}
	var schema *host.Schema
	if p.RequestedSchema != nil {
		if schema, err = host.CompileSchemaContext(c.ctx, raw); err != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "the schema of the question cannot be read")
		}
	} else {
		raw = nil
	}
	if given := c.nextAnswer(); given != nil {
		return elicitResult(given, schema, raw)
	}
	q := &Elicitation{Server: c.server.Name, Message: "The MCP server " + c.server.Name + " asks: " + plainText(p.Message, maxQuestionText), Schema: raw}
	if c.program != nil {
		if given, err := c.program(c.ctx, c.call, q); given != nil || err != nil {
			if err != nil {
				return nil, err
			}
			return elicitResult(given, schema, raw)
		}
	}
	data, err := json.Marshal(q)
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "the question is not JSON")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks == nil {
		c.asks = &host.Interrupt{Reason: q.Message, Data: data}
	}
	return nil, nil
}

// nextAnswer returns the person's answer to the next question; nil if there is none yet.
func (c *callAsks) nextAnswer() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered == len(c.call.Resumed) {
		return nil
	}
	c.answered++
	return c.call.Resumed[c.answered-1].Answer
}

// elicitResult turns a person's answer into the server's form: {"action", "content"?}, or
// the content alone, which accepts. Members that it leaves out have the defaults of the asked
// schema.
func elicitResult(given json.RawMessage, schema *host.Schema, asked json.RawMessage) (*mcp.ElicitResult, error) {
	var whole struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(given, &whole); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "The answer to the question is not an object.")
	}
	switch whole.Action {
	case "decline", "cancel":
		return &mcp.ElicitResult{Action: whole.Action}, nil
	case "accept":
	default:
		whole.Content = given
	}
	if len(whole.Content) == 0 {
		whole.Content = json.RawMessage("{}")
	}
	result := &mcp.ElicitResult{Action: "accept"}
	if err := json.Unmarshal(whole.Content, &result.Content); err != nil || result.Content == nil {
		return nil, fault.Errorf(fault.InvalidArgument, "The answer to the question is not an object.")
	}
	if schema == nil {
		return result, nil
	}
	fillDefaults(result.Content, asked)
	content, err := json.Marshal(result.Content)
	if err == nil {
		err = schema.Validate(content)
	}
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "The answer does not fit the question: %v.", err)
	}
	return result, nil
}

// fillDefaults adds the members that an answer leaves out and the question has defaults for.
func fillDefaults(content map[string]any, asked json.RawMessage) {
	var form struct {
		Properties map[string]struct{ Default any }
	}
	_ = json.Unmarshal(asked, &form) // of another form it has no defaults
	for name, p := range form.Properties {
		if _, given := content[name]; !given && p.Default != nil {
			content[name] = p.Default
		}
	}
}
