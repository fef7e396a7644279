package memory

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/cache"
	"github.com/agenthost/agenthost/host/llm"
)

// The bounds of asking an embedder.
const (
	embedTimeout  = 30 * time.Second // for texts to be kept, which can wait
	queryTimeout  = 5 * time.Second  // for the query of a search, which cannot
	embedderPause = 10 * time.Second // after an embedder was not reached
)

// DefaultMinSimilarity is the default of Options.MinSimilarity.
const DefaultMinSimilarity = 0.25

// meaning is the part of a store that compares meanings: nil in a store without an embedder.
type meaning struct {
	embedder      llm.Embedder
	print         fingerprint
	minSimilarity float32
	maxBytes      int
	cache         *cache.Cache[content, *scopeVectors]
	logger        *slog.Logger
	now           func() time.Time

	downUntil  atomic.Int64 // in nanoseconds: the embedder was not reached
	dimensions atomic.Int64 // of its vectors; 0 before the first
}

func newMeaning(opts *Options, now func() time.Time) *meaning {
	if opts.Embedder == nil {
		return nil
	}
	m := &meaning{embedder: opts.Embedder, print: fingerprintOf(opts.Embedder.Name()), minSimilarity: float32(opts.MinSimilarity), maxBytes: opts.VectorBytes, logger: opts.Logger, now: now}
	if m.minSimilarity == 0 {
		m.minSimilarity = DefaultMinSimilarity
	}
	if m.maxBytes <= 0 {
		m.maxBytes = DefaultVectorBytes
	}
	if m.logger == nil {
		m.logger = slog.New(slog.DiscardHandler)
	}
	m.cache = newVectorCache(m.maxBytes)
	return m
}

// embed returns the vectors of texts, at most [llm.MaxEmbedTexts].
func (m *meaning) embed(ctx context.Context, scope Scope, texts []string, query bool, timeout time.Duration) ([]vector, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, host.Errorf(host.DeadlineExceeded, "embed texts: no answer within %s", timeout))
	defer cancel()
	req := &llm.EmbedRequest{Texts: texts, Query: query, Scope: scopeOfCaller(ctx, scope)}
	got, err := m.embedder.Embed(ctx, req)
	if err == nil {
		err = got.Check(req)
	}
	if err != nil {
		return nil, err
	}
	m.downUntil.Store(0)
	m.dimensions.Store(int64(len(got.Vectors[0])))
	out := make([]vector, len(got.Vectors))
	for i, v := range got.Vectors {
		out[i] = vectorOf(v)
	}
	return out, nil
}

// scopeOfCaller is who asks an embedder: the run that ctx is of, for the scope's tenant.
func scopeOfCaller(ctx context.Context, s Scope) llm.Scope {
	of := host.ScopeOf(ctx)
	of.Tenant = s.partition()
	return of
}

// embedNow is embed for a caller that does without vectors: after a failure to reach the
// embedder it is not asked again for a while, so that callers do not wait for it one after
// the other.
func (m *meaning) embedNow(ctx context.Context, scope Scope, texts []string, query bool, timeout time.Duration) ([]vector, error) {
	if m.now().UnixNano() < m.downUntil.Load() {
		return nil, host.Errorf(host.Unavailable, "the embedder %q was not reached a moment ago", m.embedder.Name()).
			WithHint("it is asked again within %s", embedderPause)
	}
	got, err := m.embed(ctx, scope, texts, query, timeout)
	if err != nil && ctx.Err() == nil && isDown(err) {
		m.downUntil.Store(m.now().Add(embedderPause).UnixNano())
	}
	return got, err
}

// isDown reports whether an error says that the embedder answers no tenant: one of a tenant's
// own limits does not.
func isDown(err error) bool {
	var own *llm.CallerError
	if errors.As(err, &own) {
		return false
	}
	switch host.CodeOf(err) {
	case host.Unavailable, host.DeadlineExceeded, host.Unauthenticated, host.PermissionDenied, host.NotFound:
		return true
	}
	return false
}

// beginning returns as much of a query as a memory can have.
func beginning(query string) string {
	query = strings.ToValidUTF8(strings.TrimSpace(query), "")
	if len(query) <= MaxTextBytes {
		return query
	}
	n := MaxTextBytes
	for n > 0 && !utf8.RuneStart(query[n]) {
		n--
	}
	return query[:n]
}

// tooLate reports whether an error is the end of the caller's own context.
func tooLate(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || host.CodeOf(err) == host.Canceled || host.CodeOf(err) == host.DeadlineExceeded)
}
