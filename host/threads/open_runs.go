package threads

import (
	"sync"

	"github.com/agenthost/agenthost/host"
)

// maxOpenRuns bounds the runs that a store remembers. The entries of further ones are read
// when they end.
const maxOpenRuns = 4096

// openRuns remembers the open runs that this store has begun, as their entries are: the end
// of such a run reads neither its record nor the list of its steps. A run may have another
// owner since: every commit to it is under the condition that it has not.
type openRuns struct {
	mu   sync.Mutex
	runs map[openRunID]*openRun
}

type openRunID struct{ partition, run string }

// openRun is a run that has all its steps in entries of their own, without pieces.
type openRun struct {
	rec   runRecord
	steps int
}

// begun remembers a run. Beyond [maxOpenRuns] another one is forgotten.
func (o *openRuns) begun(partition string, r *openRun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs == nil {
		o.runs = map[openRunID]*openRun{}
	}
	for id := range o.runs {
		if len(o.runs) < maxOpenRuns {
			break
		}
		delete(o.runs, id)
	}
	o.runs[openRunID{partition, r.rec.Run}] = r
}

// find returns a copy of a run that ref owns; nil if it is not remembered.
func (o *openRuns) find(partition string, ref host.RunRef) *openRun {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.runs[openRunID{partition, ref.Run}]
	if r == nil || r.rec.Fence != ref.Fence {
		return nil
	}
	next := *r
	return &next
}

// contentOf returns the content of the thread in which a run has begun, "" if that is not
// remembered.
func (o *openRuns) contentOf(partition, run string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.runs[openRunID{partition, run}]; r != nil {
		return r.rec.Content
	}
	return ""
}

// grew counts n further steps of a run behind the first at ones. The run is forgotten if
// these are not all of its steps.
func (o *openRuns) grew(partition string, ref host.RunRef, at, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := openRunID{partition, ref.Run}
	r := o.runs[id]
	switch {
	case r == nil:
	case r.rec.Fence != ref.Fence || r.steps != at || at+n > deletePage:
		delete(o.runs, id)
	default:
		r.steps += n
	}
}

func (o *openRuns) forget(partition, run string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.runs, openRunID{partition, run})
}

// dropTenant forgets the runs of a tenant.
func (o *openRuns) dropTenant(partition string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.runs {
		if id.partition == partition {
			delete(o.runs, id)
		}
	}
}
