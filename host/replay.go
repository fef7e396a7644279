package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/chat"
)

// replay is a run rebuilt from its steps.
type replay struct {
	begin      *beginning
	results    []*Result
	stack      []string
	iterations int
	usage      Usage
	cost       Cost
	artifacts  []Artifact
	made       []Artifact // by calls, also those that others have replaced
	tokens     int64
	toolCalls  int64
	answered   bool
	service    string                // the conversation that a model's service keeps
	current    *savedTurn            // the agent at work
	branches   map[string]*savedTurn // agents used as tools, by the key of the call
	named      map[string]*namedStep
	patches    [][]PatchOp
	waiting    []*openCall // of an agent's run that has ended
	end        *endStep
}

// newReplay reads the steps of a run that did not end.
func newReplay(rec *RunRecord) (*replay, error) {
	p := &replay{branches: map[string]*savedTurn{}, named: map[string]*namedStep{}}
	for i, raw := range rec.Steps {
		var e entry
		err := json.Unmarshal(raw, &e)
		if err == nil {
			err = p.apply(i, &e, rec.Run)
		}
		if err != nil {
			if CodeOf(err) == FailedPrecondition {
				return nil, err
			}
			return nil, Errorf(DataLoss, "step %d of run %q in the journal cannot be read: %w", i, rec.Run, err)
		}
	}
	if p.begin == nil {
		return nil, Errorf(DataLoss, "run %q has no beginning in the journal", rec.Run)
	}
	return p, nil
}

func (p *replay) apply(i int, e *entry, run string) error {
	if (i == 0) != (e.Begin != nil) {
		return fmt.Errorf("it is not where a beginning is")
	}
	if len(e.State) > 0 {
		p.patches = append(p.patches, e.State)
	}
	switch {
	case e.Begin != nil:
		return p.beginning(e.Begin, run)
	case e.Route != nil:
		p.stack = append(p.stack, e.Route.Next...)
		p.usage, p.cost, p.tokens = e.Route.Usage, e.Route.Cost, e.Route.Tokens
		return nil
	case e.Answer != nil:
		return p.answer(e.In, e.Answer, run)
	case e.Call != nil:
		return p.call(e.In, e.Call)
	case e.Agent != nil:
		return p.agent(e.Agent)
	case e.Step != nil:
		p.named[e.Step.Name] = e.Step
		return nil
	case e.End != nil:
		p.end = e.End
		return nil
	}
	return fmt.Errorf("it is of no kind that this version knows")
}

func (p *replay) beginning(b *beginning, run string) error {
	if b.V != checkpointVersion {
		return errOtherVersion(run, b.V)
	}
	p.begin = b
	if c := b.From; c != nil {
		if err := c.check(); err != nil {
			return err
		}
		p.stack, p.iterations, p.tokens, p.toolCalls = c.Stack, c.Iterations, c.Tokens, c.ToolCalls
		p.current = c.turn(fmt.Sprintf("%s/%d", run, c.Iterations))
		addBranches(p.branches, c.Calls)
	}
	return nil
}

// turnIn returns the agent at work in the run or in a call.
func (p *replay) turnIn(in string) *savedTurn {
	if in == "" {
		return p.current
	}
	return p.branches[in]
}

func (p *replay) answer(in string, a *answerStep, run string) error {
	if a.Message == nil {
		return fmt.Errorf("an answer has no message")
	}
	t := p.turnIn(in)
	switch {
	case a.First:
		keys, n := run, p.iterations
		if in != "" {
			keys, n = in, 0
		}
		t = &savedTurn{agent: a.Agent, result: &Result{ID: fmt.Sprintf("%s/%d", keys, n), Agent: a.Agent, CreatedAt: a.CreatedAt}}
		if in != "" {
			p.branches[in] = t
		} else {
			p.current = t
		}
	case t == nil:
		return fmt.Errorf("an answer belongs to no agent")
	default:
		p.joinOutcomes(in, t)
	}
	r := t.result
	r.Rounds, r.FinishReason, r.Usage, r.Output, t.misfit = a.Round, a.Finish, a.Usage, a.Output, a.Misfit
	r.Messages = append(r.Messages, a.Message)
	for _, c := range a.Message.ToolCalls() {
		t.calls = append(t.calls, &openCall{Part: &callPart{c.ID, c.Name, c.Arguments}})
	}
	p.toolCalls += int64(len(t.calls))
	p.tokens = a.Tokens
	if in == "" {
		p.stack, p.cost, p.service, p.answered = a.Stack, a.Cost, a.Service, true
	}
	return nil
}

func (p *replay) call(in string, c *callStep) error {
	t := p.turnIn(in)
	if t != nil {
		for _, o := range t.calls {
			if o.Part.ID != c.ID {
				continue
			}
			if c.Done == nil {
				o.begun = c.Attempt
			} else {
				o.done = c.Done
				if in == "" { // an agent's, as a tool, are those of its call
					p.made = append(p.made, c.Done.Artifacts...)
				}
			}
			return nil
		}
	}
	return fmt.Errorf("there is no call %q", c.ID)
}

// joinOutcomes adds the outcomes of the last calls to the agent's result, as
// [turn.addResult] does in a run.
func (p *replay) joinOutcomes(in string, t *savedTurn) {
	var joined *Message
	for _, o := range t.calls {
		if o.done == nil {
			continue
		}
		switch m := o.done.Message; {
		case m == nil:
		case o.done.Joined:
			joined = chat.JoinResults(joined, m)
		default:
			t.result.Messages = append(t.result.Messages, m)
		}
		if o.done.Usage != nil {
			t.result.Usage = t.result.Usage.Add(*o.done.Usage)
		}
		artifacts, stack, cost := &t.artifacts, &t.stack, &t.cost
		if in == "" {
			artifacts, stack, cost = &p.artifacts, &p.stack, &p.cost
		}
		for _, a := range o.done.Artifacts {
			*artifacts = chat.PutArtifact(*artifacts, a)
		}
		*stack = append(*stack, o.done.Schedule...)
		cost.Add(o.done.Cost)
	}
	if joined != nil {
		t.result.Messages = append(t.result.Messages, joined)
	}
	t.calls = nil
}

func (p *replay) agent(a *agentStep) error {
	t := p.current
	if t == nil {
		return fmt.Errorf("the end of an agent's run has no beginning")
	}
	for _, o := range t.calls {
		if o.done != nil && o.done.Open != nil {
			p.waiting = append(p.waiting, o.done.Open)
		}
	}
	p.joinOutcomes("", t)
	t.result.FinishReason = a.Finish
	if a.Messages != nil {
		t.result.Messages = a.Messages
	}
	p.results = append(p.results, t.result)
	p.usage = p.usage.Add(t.result.Usage)
	p.iterations++
	p.current = nil
	return nil
}

// branches are the agents used as tools that had begun when a process ended, by
// the keys of their calls.
type branches struct {
	mu    sync.Mutex
	byKey map[string]*savedTurn
}

// takeSaved returns the saved agent run of a call, once: another attempt starts
// over.
func (b *branches) takeSaved(key string) *savedTurn {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.byKey[key]
	delete(b.byKey, key)
	return t
}

// applyReplay puts the run where the steps end.
func (r *run) applyReplay(p *replay) error {
	for _, ops := range p.patches {
		if err := r.state.view().PatchAgain(ops); err != nil {
			return Errorf(DataLoss, "a change of the state of run %q cannot be made again: %w", r.scope.Run, err)
		}
	}
	r.state.view().TakeAllChanges()
	r.conv.results, r.routes.stack, r.routes.iterations, r.ledger.usage, r.ledger.cost = p.results, p.stack, p.iterations, p.usage, p.cost
	r.ledger.artifacts = p.artifacts
	r.journal.saved, r.journal.ended, r.journal.openCalls = p.current, p.end, p.waiting
	r.ledger.spent.tokens.Store(p.tokens)
	r.ledger.spent.toolCalls.Store(p.toolCalls)
	r.ledger.spent.instructions.Add(p.cost.Instructions)
	for i := range p.made {
		r.ledger.spent.artifacts.Add(1)
		r.ledger.spent.artifactBytes.Add(int64(len(p.made[i].AppendJSON(nil))))
	}
	r.journal.steps.restore(p.named)
	r.journal.branches = &branches{byKey: p.branches}
	r.service.answered, r.service.id = p.answered, p.service
	names := slices.Clone(p.stack)
	if p.current != nil {
		names = append(names, p.current.agent)
	}
	if name, ok := r.routes.unknownAgent(names); ok {
		return Errorf(FailedPrecondition, "run %q has to run the agent %q, which %q does not have", r.scope.Run, name, r.net.name).
			WithHint("agents that a router brings along are gone with its process: put them on call")
	}
	return nil
}

// messages returns the ids of the run's messages.
func (p *replay) messages() map[string]bool {
	ids := map[string]bool{}
	add := func(r *Result) {
		for _, m := range r.Messages {
			ids[m.ID] = true
		}
	}
	for _, r := range p.results {
		add(r)
	}
	if p.current != nil {
		add(p.current.result)
		for _, o := range p.current.calls {
			if o.done != nil && o.done.Message != nil {
				ids[o.done.Message.ID] = true
			}
		}
	}
	return ids
}
