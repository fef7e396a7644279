package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/runlog"
)

// Run is a run rebuilt from its steps.
type Run struct {
	Begin      *Begin
	Results    []*chat.Result
	Stack      []string
	Iterations int
	Usage      chat.Usage
	Cost       chat.Cost
	Artifacts  []chat.Artifact
	Made       []chat.Artifact // by calls, also those that others have replaced
	Tokens     int64
	ToolCalls  int64
	Answered   bool
	Service    string                   // the conversation that a model's service keeps
	Current    *SavedTurn               // the agent at work
	Branches   map[string]*SavedTurn    // agents used as tools, by the key of the call
	Nested     map[string][]*NestedCall // calls that tools have made, by the key of the caller
	Named      map[string]*NamedStep
	Patches    [][]jsondoc.Op
	Undo       []jsondoc.Op // behind Patches: undoes the changes of calls that are made again
	Waiting    []*OpenCall  // of an agent's run that has ended
	End        *EndStep
}

// Read rebuilds a run that did not end from its steps. Code data_loss for steps that
// cannot be read, failed_precondition for those of another version.
func Read(rec *runlog.Record) (*Run, error) {
	p := &Run{Branches: map[string]*SavedTurn{}, Nested: map[string][]*NestedCall{}, Named: map[string]*NamedStep{}}
	for i, raw := range rec.Steps {
		var e Entry
		err := json.Unmarshal(raw, &e)
		if err == nil {
			err = p.apply(i, &e, rec.Run)
		}
		if err != nil {
			if fault.CodeOf(err) == fault.FailedPrecondition {
				return nil, err
			}
			return nil, fault.Errorf(fault.DataLoss, "step %d of run %q in the journal cannot be read: %w", i, rec.Run, err)
		}
	}
	if p.Begin == nil {
		return nil, fault.Errorf(fault.DataLoss, "run %q has no beginning in the journal", rec.Run)
	}
	p.addNestedArtifacts()
	return p, nil
}

// KeyOf returns the credential that the use of an open run is recorded by; "" for any other
// record, which may be nil.
func KeyOf(rec *runlog.Record) string {
	var e Entry
	if rec == nil || rec.Status != runlog.Open || len(rec.Steps) == 0 || json.Unmarshal(rec.Steps[0], &e) != nil || e.Begin == nil {
		return ""
	}
	return e.Begin.Key
}

func (p *Run) apply(i int, e *Entry, run string) error {
	if (i == 0) != (e.Begin != nil) {
		return fmt.Errorf("it is not where a beginning is")
	}
	if !e.SameUndo {
		p.Undo = e.Undo
	}
	if len(e.State) > 0 {
		p.Patches = append(p.Patches, e.State)
	}
	switch {
	case e.Begin != nil:
		return p.beginning(e.Begin, run)
	case e.Route != nil:
		p.Stack = append(p.Stack, e.Route.Next...)
		p.Usage, p.Cost, p.Tokens = e.Route.Usage, e.Route.Cost, e.Route.Tokens
		return nil
	case e.Answer != nil:
		return p.answer(e.In, e.Answer, run)
	case e.Call != nil:
		return p.call(e.In, e.Call)
	case e.Agent != nil:
		return p.agent(e.Agent)
	case e.Step != nil:
		p.Named[e.Step.Name] = e.Step
		return nil
	case e.End != nil:
		p.End = e.End
		return nil
	}
	return fmt.Errorf("it is of no kind that this version knows")
}

func (p *Run) beginning(b *Begin, run string) error {
	if b.V != Version {
		return errOtherVersion(run, b.V)
	}
	p.Begin = b
	if c := b.From; c != nil {
		if err := c.check(); err != nil {
			return err
		}
		p.Stack, p.Iterations, p.Tokens, p.ToolCalls = c.Stack, c.Iterations, c.Tokens, c.ToolCalls
		p.Current = c.Turn(fmt.Sprintf("%s/%d", run, c.Iterations))
		AddBranches(p.Branches, c.Calls)
		AddNested(p.Nested, c.Calls)
	}
	return nil
}

// turnIn returns the agent at work in the run or in a call.
func (p *Run) turnIn(in string) *SavedTurn {
	if in == "" {
		return p.Current
	}
	return p.Branches[in]
}

func (p *Run) answer(in string, a *AnswerStep, run string) error {
	if a.Message == nil {
		return fmt.Errorf("an answer has no message")
	}
	t := p.turnIn(in)
	switch {
	case a.First:
		keys, n := run, p.Iterations
		if in != "" {
			keys, n = in, 0
		}
		t = &SavedTurn{Agent: a.Agent, Result: &chat.Result{ID: fmt.Sprintf("%s/%d", keys, n), Agent: a.Agent, CreatedAt: a.CreatedAt}}
		if in != "" {
			p.Branches[in] = t
		} else {
			p.Current = t
		}
	case t == nil:
		return fmt.Errorf("an answer belongs to no agent")
	default:
		p.joinOutcomes(in, t)
	}
	r := t.Result
	r.Rounds, r.FinishReason, r.Usage, r.Output, t.Misfit = a.Round, a.Finish, a.Usage, a.Output, a.Misfit
	r.Messages = append(r.Messages, a.Message)
	for _, c := range a.Message.ToolCalls() {
		t.Calls = append(t.Calls, &OpenCall{Part: &CallPart{ID: c.ID, Name: c.Name, Arguments: c.Arguments}})
	}
	p.ToolCalls += int64(len(t.Calls))
	p.Tokens = a.Tokens
	if in == "" {
		p.Stack, p.Cost, p.Service, p.Answered = a.Stack, a.Cost, a.Service, true
	}
	return nil
}

func (p *Run) call(in string, c *CallStep) error {
	if c.Of != "" {
		return p.addNested(c)
	}
	t := p.turnIn(in)
	if t != nil {
		for _, o := range t.Calls {
			if o.Part.ID != c.ID {
				continue
			}
			if c.Done == nil {
				o.Begun, o.Began = c.Attempt, c.began(o.Began)
			} else {
				o.Done = c.Done
				delete(p.Nested, c.Key)
				if in == "" { // an agent's, as a tool, are those of its call
					p.Made = append(p.Made, c.Done.Artifacts...)
				}
			}
			return nil
		}
	}
	return fmt.Errorf("there is no call %q", c.ID)
}

// began returns when a call began that begins, or begins to make others. before is what the steps
// before say.
func (c *CallStep) began(before time.Time) time.Time {
	if c.Began.IsZero() {
		return before
	}
	return c.Began
}

// joinOutcomes adds the outcomes of the last calls to the agent's result, as
// a run does.
func (p *Run) joinOutcomes(in string, t *SavedTurn) {
	var joined *chat.Message
	for _, o := range t.Calls {
		if o.Done == nil {
			continue
		}
		switch m := o.Done.Message; {
		case m == nil:
		case o.Done.Joined:
			joined = chat.JoinResults(joined, m)
		default:
			t.Result.Messages = append(t.Result.Messages, m)
		}
		if o.Done.Usage != nil {
			t.Result.Usage = t.Result.Usage.Add(*o.Done.Usage)
		}
		artifacts, stack, cost := &t.Artifacts, &t.Stack, &t.Cost
		if in == "" {
			artifacts, stack, cost = &p.Artifacts, &p.Stack, &p.Cost
		}
		for _, a := range o.Done.Artifacts {
			*artifacts = chat.PutArtifact(*artifacts, a)
		}
		*stack = append(*stack, o.Done.Schedule...)
		cost.Add(o.Done.Cost)
	}
	if joined != nil {
		t.Result.Messages = append(t.Result.Messages, joined)
	}
	t.Calls = nil
}

func (p *Run) agent(a *AgentStep) error {
	t := p.Current
	if t == nil {
		return fmt.Errorf("the end of an agent's run has no beginning")
	}
	for _, o := range t.Calls {
		if o.Done != nil && o.Done.Open != nil {
			p.Waiting = append(p.Waiting, o.Done.Open)
		}
	}
	p.joinOutcomes("", t)
	t.Result.FinishReason = a.Finish
	if slices.Contains(a.Messages, nil) {
		return fmt.Errorf("the end of an agent's run has a message that is null")
	}
	if a.Messages != nil {
		t.Result.Messages = a.Messages
	}
	p.Results = append(p.Results, t.Result)
	p.Usage = p.Usage.Add(t.Result.Usage)
	p.Iterations++
	p.Current = nil
	return nil
}

// Branches are the agents used as tools that had begun when a process ended, by
// the keys of their calls.
type Branches struct {
	mu    sync.Mutex
	byKey map[string]*SavedTurn
}

// NewBranches returns agents by the keys of their calls; it owns the map.
func NewBranches(byKey map[string]*SavedTurn) *Branches { return &Branches{byKey: byKey} }

// Take returns the saved agent run of a call, once: another attempt starts over.
func (b *Branches) Take(key string) *SavedTurn {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.byKey[key]
	delete(b.byKey, key)
	return t
}

// MessageIDs returns the ids of the run's messages.
func (p *Run) MessageIDs() map[string]bool {
	ids := map[string]bool{}
	add := func(r *chat.Result) {
		for _, m := range r.Messages {
			ids[m.ID] = true
		}
	}
	for _, r := range p.Results {
		add(r)
	}
	if p.Current != nil {
		add(p.Current.Result)
		for _, o := range p.Current.Calls {
			if o.Done != nil && o.Done.Message != nil {
				ids[o.Done.Message.ID] = true
			}
		}
	}
	return ids
}
