package replay

import (
	"cmp"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/chat"
)

// Effects are those on the run of the calls that a call has made, each once. The zero
// value has none. Safe for concurrent use.
type Effects struct {
	mu        sync.Mutex
	artifacts []chat.Artifact
	schedule  []string
	cost      *chat.Cost
	usage     *chat.Usage
}

// Add adds the effects of a call that is done.
func (e *Effects) Add(done *CallDone) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.artifacts, e.schedule = append(e.artifacts, done.Artifacts...), append(e.schedule, done.Schedule...)
	e.cost, e.usage = sumCost(e.cost, done.Cost), sumUsage(e.usage, done.Usage)
}

// Artifacts returns the artifacts that the calls have made.
func (e *Effects) Artifacts() []chat.Artifact {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.artifacts)
}

// AddTo adds the effects to the outcome of the call that has made the calls. succeeded
// says that agents to run count, and alone leaves out the call's own.
func (e *Effects) AddTo(done *CallDone, succeeded, alone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	done.Cost, done.Usage = sumCost(e.cost, done.Cost), sumUsage(e.usage, done.Usage)
	if alone {
		done.Artifacts, done.Schedule = nil, nil
	}
	if len(e.artifacts) > 0 {
		done.Artifacts = slices.Concat(e.artifacts, done.Artifacts)
	}
	if succeeded && len(e.schedule) > 0 {
		done.Schedule = slices.Concat(e.schedule, done.Schedule)
	}
}

func sumCost(a, b *chat.Cost) *chat.Cost {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a
	sum.Add(b)
	return &sum
}

func sumUsage(a, b *chat.Usage) *chat.Usage {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := a.Add(*b)
	return &sum
}
