package host

import (
	"context"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/redact"
)

// The artifacts that a session had before a run: those of its thread, and those
// that a client brings.

// ArtifactLister is a history adapter whose artifacts the tools of later turns
// can read.
type ArtifactLister interface {
	// ThreadArtifacts lists the artifacts of the thread that req names, or of the
	// branch of it, as the thread shows it now, in the order in which they were
	// first put: a named one has the place of the one that it replaced. An unknown
	// thread has none. The call reads no artifact: [ArtifactRef].Open does.
	//
	// A run calls it when a tool asks for the first time, and reads the data that
	// one of its tools needs. Both may be called by several tools at once; the
	// context of both ends after [Limits].HistoryTimeout and with the tool's.
	ThreadArtifacts(ctx context.Context, req *HistoryRequest) ([]ArtifactRef, error)
}

// ArtifactRef is an artifact that is listed and not read.
type ArtifactRef struct {
	Name   string // empty for an unnamed one
	Digest string // as [Artifact.Digest] has it; empty if the adapter does not know it
	Size   int64  // about how many bytes Open reads

	// Open reads the artifact. Its parts are the caller's. Code not_found if the
	// thread does not have it any more.
	Open func(ctx context.Context) (*Artifact, error)
}

// MaxEarlierArtifacts is how many artifacts of earlier turns a run sees: the last
// of a session that has more.
const MaxEarlierArtifacts = 10_000

// EarlierArtifacts lists the artifacts that the session had before the run, those
// put first at the beginning, also the ones that an artifact of the run replaces.
// They come from the history, if it is an [ArtifactLister], and from
// [Request].Artifacts. They are listed once for a run, and none is read. The list
// must not be changed.
func (c *Call) EarlierArtifacts(ctx context.Context) ([]ArtifactRef, error) {
	if c.earlier == nil {
		return nil, nil
	}
	return c.earlier.refs(ctx)
}

// Artifact returns the artifact of a name as the session has it: the call's own,
// else the run's, else that of an earlier turn, which is read from its history
// now. It must not be changed. Code not_found if the session has no such artifact,
// and for an empty name.
func (c *Call) Artifact(ctx context.Context, name string) (*Artifact, error) {
	if name == "" {
		return nil, Errorf(NotFound, "an artifact without a name cannot be named").WithHint("Artifacts and EarlierArtifacts list them")
	}
	own := c.Artifacts()
	if i := slices.IndexFunc(own, func(a Artifact) bool { return a.Name == name }); i >= 0 {
		return &own[i], nil
	}
	earlier, err := c.EarlierArtifacts(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(earlier, func(a ArtifactRef) bool { return a.Name == name })
	if i < 0 {
		return nil, Errorf(NotFound, "the session has no artifact %q", redact.Cut(name))
	}
	return earlier[i].Open(ctx)
}

// earlierArtifacts are the artifacts that a session had before a run. Agents used
// as tools share those of the run around them.
type earlierArtifacts struct {
	run *run // the outermost

	mu     sync.Mutex
	listed bool
	list   []ArtifactRef
}

// refs lists the artifacts, from the second time on without the history. Calls
// that ask at once for the first time do not wait for each other, so that each
// ends with its own context.
func (e *earlierArtifacts) refs(ctx context.Context) ([]ArtifactRef, error) {
	e.mu.Lock()
	list, listed := e.list, e.listed
	e.mu.Unlock()
	if listed {
		return list, nil
	}
	list, err := e.run.thread.listArtifacts(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.listed { // all calls see one list
		e.list, e.listed = list, true
	}
	return e.list, nil
}

// listArtifacts lists the artifacts of the thread with those of the request in
// front of them.
func (t *runThread) listArtifacts(ctx context.Context) ([]ArtifactRef, error) {
	stored, err := t.storedArtifacts(ctx)
	if err != nil {
		return nil, wrapError(err, "list the artifacts of thread %q", t.scope.Thread)
	}
	list := make([]ArtifactRef, 0, len(stored)+len(t.content.artifacts))
	named := map[string]int{}
	put := func(ref ArtifactRef) {
		if i, ok := named[ref.Name]; ok && ref.Name != "" {
			list[i] = ref
			return
		}
		named[ref.Name] = len(list)
		list = append(list, ref)
	}
	for _, ref := range stored {
		put(t.boundRef(ref))
	}
	for i := range t.content.artifacts {
		put(broughtRef(&t.content.artifacts[i]))
	}
	return slices.Clone(list[max(0, len(list)-MaxEarlierArtifacts):]), nil
}

func (t *runThread) storedArtifacts(ctx context.Context) ([]ArtifactRef, error) {
	if t.history == nil || t.history.artifacts == nil || t.scope.Thread == "" {
		return nil, nil
	}
	return callHistory(ctx, t, historyCall[[]ArtifactRef]{method: "ThreadArtifacts", limit: historyLimit(t.limits), call: t.history.artifacts})
}

// boundRef applies the limits of a history call to the reading of an artifact.
func (t *runThread) boundRef(ref ArtifactRef) ArtifactRef {
	open := ref.Open
	ref.Open = func(ctx context.Context) (*Artifact, error) {
		a, err := callHistory(ctx, t, historyCall[*Artifact]{method: "Open of an artifact", limit: historyLimit(t.limits), call: func(ctx context.Context, _ *HistoryRequest) (*Artifact, error) { return open(ctx) }})
		if err == nil && (a == nil || slices.Contains(a.Parts, nil)) {
			err = Errorf(DataLoss, "history adapter returned a damaged artifact")
		}
		if err != nil {
			return nil, wrapError(err, "read artifact %q of thread %q", redact.Cut(ref.Name), t.scope.Thread)
		}
		return a, nil
	}
	return ref
}

// broughtRef lists an artifact that is in memory. Its digest is not computed
// until a tool needs it.
func broughtRef(a *Artifact) ArtifactRef {
	size := int64(0)
	for _, p := range a.Parts {
		size += partBytes(p)
	}
	return ArtifactRef{Name: a.Name, Size: size, Open: func(context.Context) (*Artifact, error) { return a, nil }}
}

// partBytes is about how many bytes a part has.
func partBytes(p Part) int64 {
	switch p := p.(type) {
	case *Text:
		return int64(len(p.Text))
	case *Media:
		return int64(len(p.Data) + len(p.URL))
	}
	return int64(len(chat.AppendPartJSON(nil, p)))
}

func checkBroughtArtifacts(list []Artifact) error {
	for i := range list {
		if slices.Contains(list[i].Parts, nil) {
			return Errorf(InvalidArgument, "request: artifact %d has a part that is nil", i)
		}
	}
	return nil
}
