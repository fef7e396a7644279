package project

import (
	"context"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
)

// runningBuilds has one build of each plugin run at a time. It is safe for concurrent use; the
// zero value has none.
type runningBuilds struct {
	mu   sync.Mutex
	byID map[string]chan struct{} // full while a plugin is built and read
}

// begin waits until no other build of a plugin runs. end lets the next one run.
func (b *runningBuilds) begin(ctx context.Context, id string) (end func(), err error) {
	one := b.of(id)
	select {
	case one <- struct{}{}:
		return func() { <-one }, nil
	case <-ctx.Done():
		return nil, fault.ContextError(ctx)
	}
}

// tryBegin is begin without the wait; ok is false while another build of the plugin runs.
func (b *runningBuilds) tryBegin(id string) (end func(), ok bool) {
	one := b.of(id)
	select {
	case one <- struct{}{}:
		return func() { <-one }, true
	default:
		return nil, false
	}
}

// runs reports whether a plugin is being built.
func (b *runningBuilds) runs(id string) bool { return len(b.of(id)) > 0 }

func (b *runningBuilds) of(id string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.byID[id]
	if one == nil {
		if b.byID == nil {
			b.byID = map[string]chan struct{}{}
		}
		one = make(chan struct{}, 1)
		b.byID[id] = one
	}
	return one
}
