package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/schema"
	"github.com/agenthost/agenthost/host/internal/toolfault"
	"github.com/agenthost/agenthost/host/llm"
)

// ToolHandler runs one call of a tool. Arguments have been checked against the
// tool's schema, and integers in them are written as digits: 2, not 2.0 or 2e0. An
// error becomes the call's result for the model and does not end the run: its first
// line (of an [*Error], the message without the hint), at most 500 bytes, or
// general words where it is one of files or connections. Stacks are left out, and
// paths of files and addresses of servers read (path) and (address); pointers into
// JSON, routes and addresses of web pages stay. The host's log has the whole error.
// (AgentKit sends it the name, the message and the stack.)
//
// Handlers run concurrently, each in a goroutine of its own. One that panics has
// failed. One that does not return after ctx has ended is abandoned after a short
// grace: the run continues without it, so it must not change anything any more.
type ToolHandler func(ctx context.Context, call *Call) (*ToolOutput, error)

// Tool is something a model may call. Make one with [NewTool] or [NewRawTool];
// it is immutable and may belong to any number of agents.
type Tool struct {
	llm.ToolSpec
	ReadOnly   bool          // changes nothing
	Idempotent bool          // running it twice is running it once
	Timeout    time.Duration // of one attempt; 0 is the host's
	Retries    int           // attempts after the first
	handler    ToolHandler
	approve    ApprovalRule
	terms      TermsRule
	client     bool   // the client executes it
	agent      *Agent // that the tool runs, if it is one
	provider   string // the context provider that has added it, if one has
	ways       toolWays
	schema     *schema.Schema
	wrapped    bool // the schema was not an object: {"value": ...} on the wire
	live       func(context.Context) *Tool
	mistake    error // of a tool that cannot be used
}

// toolWays are the ways to a tool and from there to others.
type toolWays struct {
	foundBy string   // the tool whose results offer it; empty: it is always offered
	calls   []string // the tools that it may call
	alone   bool     // it has no other effects than its calls
}

// ToolOptions are the optional parts of a tool.
type ToolOptions struct {
	ReadOnly   bool
	Idempotent bool
	Timeout    time.Duration // of one attempt; 0 is the host's limit, which it cannot exceed

	// Retries is how often a call that failed is tried again, at most
	// [MaxToolRetries]; 0 is never. Only a failure that may pass is tried again:
	// an [*Error] that says Retryable or has code unavailable, and a timeout if
	// the tool is ReadOnly or Idempotent. All attempts have one idempotency key.
	// The waits between them grow from 200 ms to 5 s.
	Retries int

	// Approve says which calls a person must agree to; nil is none. See also
	// [NetworkOptions].Approve and [Options].Approve.
	Approve ApprovalRule

	// Terms gives the terms of questions about calls; nil is none. See also
	// [NetworkOptions].Terms and [Options].Terms.
	Terms TermsRule

	// Schema is the Parameters of [NewRawTool], compiled before: many tools can be
	// made of one. nil compiles them. [Tool.With] does not look at it.
	Schema *Schema

	// FoundBy names the tool that finds this one: it is offered to models only once a
	// result of that, an [llm.Findings], names it. It saves tokens and guards nothing: tools
	// that call others may call it, and so may a model that knows its name.
	FoundBy string

	// Calls names the tools that the tool may call, of those that its agent has: see
	// [Call.CallTools]. [nested.EveryTool] is each of them, nil none. [Tool.With] does
	// not look at it.
	Calls []string

	// OnlyCalls says that the tool has no effects but its calls: where its process
	// ended it starts again, as if it were Idempotent, and no person is asked. Its
	// changes of the state are taken back then.
	OnlyCalls bool
}

// MaxToolRetries is the most that [ToolOptions].Retries can be.
const MaxToolRetries = replay.MaxToolRetries

// ToolOutput is the answer of a tool.
type ToolOutput struct {
	Content   json.RawMessage // any JSON; absent, the result says that the tool was executed
	Media     []*chat.Media   // shown to models that take it; with Content within [Limits].ResultBytes
	State     []PatchOp       // applied to the run's state, all or nothing
	Artifacts []Artifact
	Schedule  []string   // agents to run next
	Interrupt *Interrupt // ask a person instead of answering
	Cost      *Cost      // set by sandboxed tools
	Usage     *Usage     // set by agents used as tools

	inside *replay.Inside // of an agent used as a tool that asks a person
}

// Interrupt is a tool's own question: the run ends with finish reason
// interrupted. When there is an answer the tool is called again, from its
// beginning, with the answer in [Call].Resumed; a run of its own, in the same
// thread, then continues. The output's other fields are ignored.
type Interrupt struct {
	Reason string          `json:"reason"`
	Data   json.RawMessage `json:"data,omitempty"`
	Terms  *QuestionTerms  `json:"-"` // nil: those of the rules
}

// NewTool returns a tool whose parameters' JSON Schema is inferred from In and
// whose result is Out as JSON; an Out of struct{} says only that it was
// executed. An Out of *[ToolOutput] is the whole answer, as a [ToolHandler] gives
// it: content, state, artifacts (media too), agents to run next, an interrupt. It
// counts its Cost and Usage beside an error, too.
//
// Pointers and fields of In with omitempty or omitzero are required and nullable in
// the schema, as strict providers want it; null, and one left out, arrives as nil.
// Nothing else is nullable. An In that is not a struct or map arrives wrapped as
// {"value": ...} from the model and unwrapped here.
//
// Tags of In's fields say more of a parameter:
//
//	Unit string   `json:"unit" enum:"celsius,fahrenheit"`  // one of these
//	Day  string   `json:"day" format:"date" description:"the first day"`
//	Tags []string `json:"tags" enum:"red,green"`           // each one of these
//
// enum lists values, separated by commas, of texts, numbers and booleans; of a
// slice, array or map, those of its elements. format is one of JSON Schema's, of
// texts alike; the model sees it, and arguments are not checked against it: date,
// time, date-time, email, uuid and the like are what every provider takes.
// description may also be written as jsonschema.
//
// A mistake (an In that has no JSON Schema, such as a channel, a function or a cycle;
// a tag that does not suit its field; a name or options that no tool has) is reported
// where the tool is first used, with code invalid_argument: by [NewAgent], by
// [Tool.With], or by the run whose context provider adds the tool. Tools can so be made
// where they are listed.
func NewTool[In, Out any](name, description string, fn func(ctx context.Context, call *Call, in In) (Out, error), opts *ToolOptions) *Tool {
	told, checked, err := schema.Infer(reflect.TypeFor[In]())
	if err != nil {
		return mistakenTool(name, Errorf(InvalidArgument, "parameters of tool %q: %w", name, err).WithHint("give its arguments a type that JSON can hold"))
	}
	if fn == nil {
		return mistakenTool(name, Errorf(InvalidArgument, "tool %q has no function", name))
	}
	handler := func(ctx context.Context, call *Call) (*ToolOutput, error) {
		var in In
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return nil, argumentError(err)
		}
		out, err := fn(ctx, call, in)
		if whole, ok := any(out).(*ToolOutput); ok {
			return whole, err
		}
		if err != nil {
			return nil, err
		}
		switch out := any(out).(type) {
		case struct{}:
			return &ToolOutput{}, nil
		case ToolOutput:
			return &out, nil
		}
		content, err := jsondoc.Marshal(out)
		if err != nil {
			return nil, Errorf(Internal, "The result of %s is not JSON: %v.", name, err)
		}
		return &ToolOutput{Content: content}, nil
	}
	tool, err := newTool(llm.ToolSpec{Name: name, Description: description, Parameters: told}, checked, handler, opts)
	if err != nil {
		return mistakenTool(name, err)
	}
	return tool
}

// mistakenTool returns a tool that cannot be used; err says why.
func mistakenTool(name string, err error) *Tool {
	return &Tool{ToolSpec: llm.ToolSpec{Name: name}, mistake: err}
}

// argumentError names the argument that fits the schema and not the Go type.
func argumentError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return Errorf(InvalidArgument, "the argument %q cannot be %s", wrong.Field, wrong.Value)
	}
	return Errorf(InvalidArgument, "the arguments cannot be read: %v", err)
}

// NewRawTool returns a tool with a JSON Schema given as such. The schema is
// compiled here, once; it may not refer to other documents. Absent parameters
// mean an empty object. Errors have code invalid_argument.
func NewRawTool(spec llm.ToolSpec, handler ToolHandler, opts *ToolOptions) (*Tool, error) {
	if len(bytes.TrimSpace(spec.Parameters)) == 0 {
		spec.Parameters = json.RawMessage(emptyObjectSchema)
	}
	return newTool(spec, spec.Parameters, handler, opts)
}

// NewLiveTool returns a tool that may change while agents have it: at the start
// of each agent's run, now is called for the current tool, and the whole of that
// run has its description, parameters and handler. The name stays: if now returns
// nil, a tool of another name or one that is live itself, the run has the tool t.
// now is called by many runs at once and must be quick.
func NewLiveTool(t *Tool, now func(ctx context.Context) *Tool) *Tool {
	live := *t
	live.live = now
	return &live
}

// current returns the current version of a live tool, and t for any other.
func (t *Tool) current(ctx context.Context) *Tool {
	if t.live == nil {
		return t
	}
	if now := t.live(ctx); now != nil && now.Name == t.Name && now.live == nil && now.handler != nil {
		return now
	}
	return t
}

// newTool makes a tool that tells models spec.Parameters and checks arguments
// against checked.
func newTool(spec llm.ToolSpec, checked json.RawMessage, handler ToolHandler, opts *ToolOptions) (t *Tool, err error) {
	if err := toolfault.CheckName(spec.Name); err != nil {
		return nil, err
	}
	if handler == nil {
		return nil, Errorf(InvalidArgument, "tool %q has no handler", spec.Name)
	}
	if opts == nil {
		opts = &ToolOptions{}
	}
	if err := opts.check(spec.Name); err != nil {
		return nil, err
	}
	t = &Tool{ToolSpec: spec, ReadOnly: opts.ReadOnly, Idempotent: opts.Idempotent, Timeout: opts.Timeout, Retries: opts.Retries,
		approve: opts.Approve, terms: opts.Terms, handler: handler, ways: toolWays{foundBy: opts.FoundBy, calls: slices.Clone(opts.Calls), alone: opts.OnlyCalls}}
	if opts.Schema != nil {
		t.schema = opts.Schema.schema
	} else if t.schema, err = schema.Compile(context.Background(), checked); err != nil {
		return nil, Errorf(InvalidArgument, "parameters of tool %q: %w", spec.Name, err)
	}
	if t.schema.IsObject() {
		t.Parameters = schema.Complete(t.Parameters)
	} else {
		t.wrapped = true
		t.Parameters = schema.Wrap(t.Parameters)
	}
	return t, nil
}

// NewClientTool returns a tool that is only declared: the client, or another reader
// of the run's events, executes it. A call of it is a question of the kind
// [AskResult]; the arguments have been checked then. Errors have code
// invalid_argument.
func NewClientTool(spec llm.ToolSpec) (*Tool, error) {
	tool, err := NewRawTool(spec, func(context.Context, *Call) (*ToolOutput, error) {
		return nil, Errorf(FailedPrecondition, "The tool %s is executed by the client.", spec.Name)
	}, nil)
	if err != nil {
		return nil, err
	}
	tool.client = true
	return tool, nil
}

const emptyObjectSchema = `{"type":"object","properties":{},"additionalProperties":false}`

// arguments checks and unwraps the model's arguments, and writes their integers as
// digits. Its error is a sentence for the model.
func (t *Tool) arguments(ctx context.Context, raw json.RawMessage, limit int) (json.RawMessage, error) {
	if len(raw) > limit {
		return nil, Errorf(InvalidArgument, "the arguments are %d bytes long, more than the %d that are allowed", len(raw), limit)
	}
	raw, err := jsondoc.ReadArguments(raw)
	if err == nil && t.wrapped {
		raw, err = jsondoc.UnwrapArguments(raw)
	}
	if err != nil {
		return nil, err
	}
	fits, err := t.schema.Arguments(ctx, raw)
	if err == nil {
		return schema.CanonicalIntegers(fits), nil
	}
	return nil, Errorf(InvalidArgument, "the arguments do not fit the schema: %w", err)
}
