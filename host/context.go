package host

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/callbatch"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/runusage"
	"github.com/agenthost/agenthost/host/internal/schema"
	"github.com/agenthost/agenthost/host/runevent"
)

// Call is one call of a tool, and the tool's way to the run it happens in. A
// sandboxed tool gets the same through the plugin contract. Its methods may be
// used until the handler returns.
type Call struct {
	ID             string // the model's id of this call
	Tool           string
	IdempotencyKey string          // the same when this very call is tried again
	Attempt        int             // from 1
	Arguments      json.RawMessage // checked against the tool's schema, integers as digits
	Scope          Scope
	State          *State       // its changes are sent at once; those of a call that fails are taken back
	SoFar          *SoFar       // the conversation, the results and the agents when the call began; nil outside a run
	Resumed        []Resumption // answers to the questions that this call has asked, in order
	Began          time.Time    // to the millisecond; a tool that calls others finds the same when it starts again, or zero if an older version began it

	limits  *Limits
	emit    func(EventData) error
	mention func(any)  // says that something changed or was made; nil outside a batch
	before  []Artifact // of the run
	steps   replay.CallSteps
	spent   *runusage.Total // of the run
	branch  *run            // for a tool that is an agent
	nest    *nestedCalls    // of the attempt; nil for a tool that calls no others

	earlier *earlierArtifacts // nil outside a run

	mu  sync.Mutex
	out callOutput
}

// again returns the call for another attempt, without the artifacts and schedule of
// the last one.
func (c *Call) again() *Call {
	return &Call{
		ID: c.ID, Tool: c.Tool, IdempotencyKey: c.IdempotencyKey, Attempt: c.Attempt + 1, Arguments: c.Arguments,
		Scope: c.Scope, State: c.State, SoFar: c.SoFar, Resumed: c.Resumed, Began: c.Began, limits: c.limits, emit: c.emit, mention: c.mention, before: c.before, steps: c.steps.Again(), spent: c.spent, branch: c.branch, earlier: c.earlier,
	}
}

// callOutput holds the effects of a handler beside its result.
type callOutput struct {
	artifacts []Artifact
	untold    []Artifact // of them and of its agent's, those that no event has sent
	held      bool       // emit the artifacts only when the attempt is over: another may follow
	schedule  []string
	events    int
}

// NewCall returns a call outside any run, for testing tools: events are
// dropped, state is as given (nil is an empty object), and integers in the
// arguments are written as digits, as in a run.
func NewCall(tool string, arguments json.RawMessage, state *State) *Call {
	if state == nil {
		state, _ = NewState(nil, 0)
	}
	if json.Valid(arguments) {
		arguments = schema.CanonicalIntegers(arguments)
	}
	limits := Limits{}.WithDefaults()
	return &Call{
		ID: NewID(), Tool: tool, Attempt: 1, Arguments: arguments, State: state,
		limits: &limits, emit: func(EventData) error { return nil }, steps: replay.CallSteps{Of: replay.NewSteps(), Tool: tool}, spent: &runusage.Total{},
	}
}

// Progress is the progress report of a long call, emitted under the kind
// [ProgressKind]: plugins emit the same. Any member may be left out.
type Progress struct {
	Message string  `json:"message,omitempty"` // one sentence for people
	Done    float64 `json:"done,omitempty"`    // of Total, in any unit
	Total   float64 `json:"total,omitempty"`
}

// ProgressKind is the kind of the event that [Progress] is the data of.
const ProgressKind = "progress"

// Progress emits how far the call is: see [Call.Emit].
func (c *Call) Progress(p Progress) error { return c.Emit(ProgressKind, p) }

// maxKindBytes bounds the kind of an event that a tool emits.
const maxKindBytes = 128

// Emit sends progress or data to the run's stream. It waits for a slow reader
// and fails with code resource_exhausted past the limits EventBytes and
// EventsPerCall, invalid_argument for a kind of more than 128 bytes, and with the
// run's error once that has ended.
func (c *Call) Emit(kind string, data any) error {
	if len(kind) > maxKindBytes {
		return Errorf(InvalidArgument, "the kind of an event has %d bytes, more than %d", len(kind), maxKindBytes).WithHint("put what it says into the data")
	}
	raw, err := jsondoc.Marshal(data)
	if err != nil {
		return Errorf(InvalidArgument, "event %q is not JSON: %w", kind, err)
	}
	if len(raw) > c.limits.EventBytes {
		return Errorf(ResourceExhausted, "event %q is %d bytes, more than the limit EventBytes of %d", kind, len(raw), c.limits.EventBytes)
	}
	c.mu.Lock()
	c.out.events++
	n := c.out.events
	c.mu.Unlock()
	if n > c.limits.EventsPerCall {
		return Errorf(ResourceExhausted, "tool %s emits more than the limit EventsPerCall of %d", c.Tool, c.limits.EventsPerCall)
	}
	return c.emit(&runevent.ToolProgress{ID: c.ID, Name: c.Tool, Kind: kind, Data: raw})
}

// ResultBytes returns the limit ResultBytes for the call's result, with its media.
func (c *Call) ResultBytes() int { return c.limits.ResultBytes }

// AddArtifact adds something the call made to the run: named ones replace the
// one of that name, unnamed ones are appended. It is sent to the run's stream at
// once, by a tool that may be tried again ([ToolOptions].Retries) when the attempt is
// over: those of an attempt that is followed by another are dropped. Code resource_exhausted past
// the limits ArtifactBytes, RunArtifacts and RunArtifactBytes.
func (c *Call) AddArtifact(a Artifact) error {
	if err := c.checkArtifact(&a); err != nil {
		return err
	}
	c.putArtifact(a)
	return nil
}

// Artifacts returns the run's artifacts at the beginning of the call, and the
// call's own. They must not be changed. Those of earlier turns are not among them:
// see [Call.Artifact] and [Call.EarlierArtifacts].
func (c *Call) Artifacts() []Artifact {
	list, own := slices.Clone(c.before), c.made()
	if c.nest != nil {
		own = append(c.nest.call.effects.Artifacts(), own...)
	}
	for _, a := range own {
		list = chat.PutArtifact(list, a)
	}
	return list
}

func (c *Call) checkArtifact(a *Artifact) error {
	raw := a.AppendJSON(nil)
	if len(raw) > c.limits.ArtifactBytes {
		return Errorf(ResourceExhausted, "artifact %q is %d bytes, more than the limit ArtifactBytes of %d", a.Name, len(raw), c.limits.ArtifactBytes)
	}
	if err := jsondoc.Check(raw); err != nil {
		return Errorf(InvalidArgument, "artifact %q: %w", a.Name, err)
	}
	return c.spent.CountArtifact(len(raw), c.limits)
}

func (c *Call) putArtifact(a Artifact) {
	c.mu.Lock()
	c.out.artifacts = append(c.out.artifacts, a)
	c.mu.Unlock()
	c.tellArtifact(a)
}

// keepArtifact is putArtifact for an artifact that an event has sent.
func (c *Call) keepArtifact(a Artifact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.artifacts = append(c.out.artifacts, a)
}

// tellArtifact has an artifact sent.
func (c *Call) tellArtifact(a Artifact) {
	c.mu.Lock()
	c.out.untold = append(c.out.untold, a)
	mention := c.mention
	if c.out.held {
		mention = nil
	}
	c.mu.Unlock()
	if mention != nil {
		mention(made{c})
	}
}

// takeUntold returns the artifacts that are to be sent.
func (c *Call) takeUntold() []Artifact {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.held {
		return nil
	}
	out := c.out.untold
	c.out.untold = nil
	return out
}

// hold says whether artifacts wait for the end of the attempt: nothing takes one back
// that was sent.
func (c *Call) hold(held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.held = held
}

// release lets the held artifacts of the call be sent.
func (c *Call) release() { c.hold(false) }

// tellChange has changes of the state sent, up to a revision.
func (c *Call) tellChange(revision int64) {
	if c.mention != nil {
		c.mention(callbatch.Changed{Revision: revision})
	}
}

// made returns the artifacts of the call; a handler left behind may still add.
func (c *Call) made() []Artifact {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.out.artifacts)
}

func (c *Call) scheduled() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.out.schedule)
}

// Schedule puts agents of the network at the end of the stack: they run after
// this agent, before the router is asked again. A name the network does not know
// makes the call fail.
func (c *Call) Schedule(agents ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.schedule = append(c.out.schedule, agents...)
}
