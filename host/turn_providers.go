package host

import (
	"context"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// turnProviders are the context providers of an agent's run.
type turnProviders struct {
	run      *run
	list     []ownedProvider // of the network and of the agent
	asked    int             // how many were asked to provide
	messages []*Message      // of them, before this turn, not stored
}

// additions are parts of an agent's run with those of its context providers.
type additions struct {
	instructions string
	stored       []*Message // for the result
	tools        []*Tool
}

// provideAll asks the providers one after the other. instructions are the agent's.
func (ps *turnProviders) provideAll(ctx context.Context, instructions string) (additions, error) {
	added := additions{instructions: instructions}
	for _, p := range ps.list {
		ps.asked++
		got, err := ps.provide(ctx, p)
		if err != nil {
			return added, wrapError(err, "provider %q", p.Name())
		}
		if got == nil {
			continue
		}
		ps.run.ledger.AddCost(got.Cost)
		if err := chat.Check(got.Messages); err != nil {
			return added, Errorf(Internal, "provider %q: its messages: %w", p.Name(), err)
		}
		if got.Instructions != "" {
			added.instructions = strings.TrimPrefix(added.instructions+"\n"+got.Instructions, "\n")
		}
		if messages := attributed(got.Messages, p.Name()); got.Store {
			added.stored = append(added.stored, messages...)
		} else {
			ps.messages = append(ps.messages, messages...)
		}
		for _, tool := range got.Tools {
			added.tools = append(added.tools, tool.of(p.Name()))
		}
		ps.run.events.Emit(&runevent.ProviderRan{Provider: p.Name(), Instructions: got.Instructions != "", Messages: len(got.Messages), Tools: len(got.Tools), Cost: got.Cost})
	}
	return added, nil
}

// provide asks a context provider.
func (ps *turnProviders) provide(ctx context.Context, p ownedProvider) (*Provided, error) {
	g := ps.run.host.instrument
	if g == nil {
		return p.Provide(ctx, ps.request(p))
	}
	op := &instrument.Provider{Scope: ps.run.scope, Name: p.Name()}
	return instrument.Do(ctx, g, op, func(ctx context.Context) (*Provided, error) {
		got, err := p.Provide(ctx, ps.request(p))
		if got != nil {
			op.Messages, op.Tools = len(got.Messages), len(got.Tools)
		}
		return got, err
	})
}

func (ps *turnProviders) request(p ownedProvider) *ProvideRequest {
	messages := ps.run.conv.messages()
	if !llm.ReadsOnly(p.Provider) {
		messages = chat.DeepCloneMessages(messages)
	}
	return &ProvideRequest{Scope: ps.run.scope, Messages: messages, State: ps.run.state, Own: ps.run.thread.providers.Of(p.key)}
}

// observe tells the outcome to the providers that were asked before and are
// observers. It has a timeout of its own: observers learn from canceled runs too.
func (ps *turnProviders) observe(ctx context.Context, responses []*Message, failure error) {
	for _, p := range ps.list[:ps.asked] {
		o, ok := p.Provider.(Observer)
		if !ok {
			continue
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ps.run.limits.ToolTimeout)
		var cost *Cost
		err := ps.run.events.Guard(ctx, "it", func() (err error) {
			cost, err = ps.tellOutcome(ctx, o, &ObserveRequest{ProvideRequest: *ps.request(p), Responses: responses, Err: failure}, p.Name())
			return err
		})
		cancel()
		ps.run.ledger.AddCost(cost)
		if err != nil {
			ps.run.events.LogMasked(ctx, "provider failed", err, "provider", p.Name())
			ps.run.events.Emit(&runevent.ProviderRan{Provider: p.Name(), Error: fault.AsError(err), Cost: cost})
		}
	}
}

// tellOutcome tells a context provider how the agent's work went.
func (ps *turnProviders) tellOutcome(ctx context.Context, o Observer, req *ObserveRequest, name string) (*Cost, error) {
	g := ps.run.host.instrument
	if g == nil {
		return o.Observe(ctx, req)
	}
	op := &instrument.Provider{Scope: ps.run.scope, Name: name, Observes: true}
	return instrument.Do(ctx, g, op, func(ctx context.Context) (*Cost, error) { return o.Observe(ctx, req) })
}
