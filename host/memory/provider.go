package memory

import (
	"context"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// DefaultHeading introduces the recalled memories.
const DefaultHeading = "What is remembered from earlier conversations, which may or may not matter here:"

// ProviderOptions are the optional parts of [NewProvider].
type ProviderOptions struct {
	Limit   int    // of memories; default DefaultHits
	Heading string // default: DefaultHeading

	// Remember returns the memories to keep of a run that has succeeded. An
	// error of Remember, or of writing, is an event of the run and does not fail
	// it.
	Remember func(ctx context.Context, req *host.ObserveRequest) ([]Change, error)
}

// NewProvider returns a context provider that recalls the memories that fit the
// newest input. The memories come as a user's message behind the history and
// before the turn, not as instructions, because users wrote their text; that
// message is not stored. A search that fails ends the run: an agent without its
// memories is worse than an unavailable one. scope is called for each run, and its
// failure ends the run likewise.
func NewProvider(name string, backend Backend, scope ScopeFunc, opts *ProviderOptions) host.Provider {
	p := &provider{name: name, backend: backend, scope: scope}
	if opts != nil {
		p.ProviderOptions = *opts
	}
	if p.Heading == "" {
		p.Heading = DefaultHeading
	}
	return p
}

type provider struct {
	name    string
	backend Backend
	scope   ScopeFunc
	ProviderOptions
}

func (p *provider) Name() string { return p.name }

// ReadsOnly implements [llm.Reader].
func (p *provider) ReadsOnly() {}

func (p *provider) Provide(ctx context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	query := newestInput(req.Messages)
	if query == "" {
		return nil, nil
	}
	scope, err := p.scope(req.Scope, req.State)
	if err != nil {
		return nil, err
	}
	hits, err := p.backend.Search(ctx, scope, query, &SearchOptions{Limit: p.Limit})
	if err != nil || len(hits) == 0 {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(p.Heading)
	for _, h := range hits {
		b.WriteString("\n- " + strings.Join(strings.Fields(h.Text), " "))
	}
	return &host.Provided{Messages: []*host.Message{host.UserText(b.String())}}, nil
}

// newestInput is the text of the newest message of the user's.
func newestInput(messages []*host.Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if m := messages[i]; m.Role == host.User {
			return m.Text()
		}
	}
	return ""
}

// Observe implements [host.Observer].
func (p *provider) Observe(ctx context.Context, req *host.ObserveRequest) (*host.Cost, error) {
	if p.Remember == nil || req.Err != nil {
		return nil, nil
	}
	changes, err := p.Remember(ctx, req)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	scope, err := p.scope(req.Scope, req.State)
	if err == nil {
		_, err = p.backend.Apply(ctx, scope, changes...)
	}
	return nil, err
}
