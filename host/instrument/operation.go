package instrument

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// Operation is a part of the work of a host. The set is closed; its members are pointers
// to the types of this file: [Run], [Agent], [Model], [Tool], [Processor], [Provider],
// [Router], [Sandbox] and [HTTP].
type Operation interface {
	// Began returns when the operation began.
	Began() time.Time
	// End tells the instrument that the operation has ended.
	End(err error)

	state() *operation
}

// operation is the part of every operation that the guard keeps.
type operation struct {
	guard *Guard
	began time.Time
	end   func(error)
}

func (o *operation) state() *operation { return o }

// Began returns when the operation began.
func (o *operation) Began() time.Time { return o.began }

// End tells the instrument that the operation has ended.
func (o *operation) End(err error) {
	if o.end == nil {
		return
	}
	defer func() { o.guard.logPanic(context.Background(), recover()) }()
	o.end(err)
}

// Run is one run of an agent or a network, resumed and replayed ones included. A request
// that names nothing to run is none; one that is refused is.
type Run struct {
	operation
	Scope   llm.Scope // its Thread is set at the end if the run began one
	Agent   bool      // the target is an agent, and no network
	Resumes string    // the run that it resumes

	// At the end.
	FinishReason chat.FinishReason // "" if the run was refused
	Usage        chat.Usage
	Cost         chat.Cost // of sandboxed code
	Replayed     bool      // it was answered with a stored turn, and nothing ran
}

// Agent is the work of one agent in a run: rounds of model and tools.
type Agent struct {
	operation
	Scope       llm.Scope
	Description string
	Model       string
	AsTool      bool // of another agent

	// At the end.
	FinishReason chat.FinishReason
	Rounds       int
	Usage        chat.Usage
}

// Purpose says for whom a model is asked.
type Purpose string

// The purposes of calls of models.
const (
	ForAgent   Purpose = "agent"
	ForRouter  Purpose = "router"
	ForSummary Purpose = "summary" // of a long conversation
	ForPlugin  Purpose = "plugin"  // sandboxed code asks
	ForServer  Purpose = "server"  // an MCP server asks during a call of its tool
)

// Model is one call of a model, with the attempts that its client makes.
type Model struct {
	operation
	Scope    llm.Scope
	Purpose  Purpose
	Name     string // of the model
	Provider string // whose model it is, by its GenAI name; "" if the model does not say
	Request  *llm.Request

	// At the end.
	Response   *llm.Response // nil if there is none
	Answered   string        // the name of the model that answered, or of the last one asked
	Usage      chat.Usage    // also of an answer that broke off, estimated
	FirstChunk time.Duration // until something of the answer came; 0 if nothing did
	Retries    int
	Fallbacks  int
	Price      Money
}

// NewModel describes a call of a model.
func NewModel(m llm.Model, req *llm.Request, purpose Purpose) *Model {
	return &Model{Scope: req.Scope, Purpose: purpose, Name: m.Name(), Answered: m.Name(), Provider: llm.ProviderOf(m), Request: req}
}

// Note takes note of a chunk of the answer.
func (m *Model) Note(chunk *llm.Chunk) {
	switch {
	case chunk.Retry != nil:
		m.Retries++
	case chunk.Fallback != nil:
		m.Fallbacks++
		m.Answered = chunk.Fallback.To
	case m.FirstChunk == 0:
		m.FirstChunk = max(time.Since(m.began), 1)
	}
	if chunk.Response != nil {
		m.Response, m.Usage = chunk.Response, chunk.Response.Usage
	}
}

// End tells the instrument that the call has ended.
func (m *Model) End(err error) {
	if m.Response != nil && m.Response.Model != "" {
		m.Answered = m.Response.Model
	}
	if price := m.guard.opts.Price; price != nil {
		m.Price = price(m.Name, m.Usage)
	}
	m.operation.End(err)
}

// Tool is one call of a tool, with the attempts that the host makes. A call that is
// refused, waits for a person or is the client's does not run, and is none.
type Tool struct {
	operation
	Scope          llm.Scope
	Name           string // as the model wrote it
	Known          bool   // there is such a tool: models also call others
	Description    string
	Call           string // the model's id of the call
	IdempotencyKey string
	Provider       string // the context provider that offered the tool
	Agent          string // the agent that the tool is
	Arguments      json.RawMessage

	// At the end.
	Attempts    int
	Result      json.RawMessage // as the model reads it, also of a failure
	Interrupted bool            // it asks a person
}

// Processor is one run of a history processor.
type Processor struct {
	operation
	Scope llm.Scope
	Name  string
	Level string // history, network, agent or router

	// At the end. Tokens are -1 if the host does not count them.
	MessagesBefore, MessagesAfter int
	TokensBefore, TokensAfter     int
	Skipped                       error // with which it failed, if it is optional
}

// Provider is one call of a context provider.
type Provider struct {
	operation
	Scope    llm.Scope
	Name     string
	Observes bool // the call tells it how the agent's work went

	// At the end.
	Messages, Tools int // that it adds
}

// Router is one decision of a router. A router that is a model asks the model inside of it.
type Router struct {
	operation
	Scope llm.Scope
	Name  string
	Call  int // agent runs before this decision

	// At the end.
	Next     []string // the agents that run next
	Delegate string   // the router that decides instead
	Reason   string
}

// Sandbox is one call of sandboxed code.
type Sandbox struct {
	operation
	Scope   llm.Scope // Tenant is always set; the rest belongs to the operation around the call
	Plugin  string
	Owned   bool   // the plugin is a tenant's own
	Version string // by its manifest
	Digest  string // of the module
	Export  string // the function

	// At the end.
	Cost       chat.Cost
	GuestError bool // the answer is an error of the guest
}

// HTTP is one request that sandboxed code sends, with its redirects.
type HTTP struct {
	operation
	Scope  llm.Scope
	Plugin string
	Owned  bool // the plugin is a tenant's own
	Method string
	Scheme string
	Host   string // and port, if the address has one
	Body   int    // bytes

	// Header is for the instrument to fill in Begin: it goes out with the request, but for
	// names that the request has already.
	Header http.Header

	// At the end.
	Status    int // 0 if there is no answer
	Received  int // bytes of the answer's body
	Redirects int
}
