package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
)

// MaxEmbedded is how many memories an Embed embeds at most.
const MaxEmbedded = 10_000

// Embed gives vectors to memories of a tenant that have none of the store's embedder: those
// that were written while it was not reached, or without one, or with another, and returns
// how many. A host calls it now and then; without an embedder it does nothing. An error of
// the embedder ends the call; the vectors that were stored before stay.
func (s *Store) Embed(ctx context.Context, tenant string) (embedded int, err error) {
	partition, err := host.TenantPartition(tenant)
	if err != nil || s.meaning == nil {
		return 0, err
	}
	for e, err := range kv.All(ctx, s.driver, partition, kv.Range{Prefix: scopeKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return embedded, kverror.Wrap(err, "embed memories")
		}
		rest, _ := e.Key.CutPrefix(scopeKeys)
		scope, ok := scopeOf(tenant, rest)
		o := &opened{scope: scope, revision: e.Revision}
		if !ok || decode(e.Value, &o.scopeRecord, &o.V) != nil || o.Count == 0 || s.meaning.complete(o) {
			continue
		}
		if scope == (Scope{}) {
			o.scope.Tenant = defaultTenant
		}
		n, err := s.embedScope(ctx, o, MaxEmbedded-embedded)
		if embedded += n; err != nil || embedded >= MaxEmbedded {
			return embedded, err
		}
	}
	return embedded, nil
}

// mark is what the record of a scope has in Embedded when all of its memories have vectors.
func (m *meaning) mark() string {
	return fmt.Sprintf("%x/%d", m.print, m.dimensions.Load())
}

// complete reports whether all memories of a scope have vectors. The length of vectors is
// compared from the first on that the embedder has returned.
func (m *meaning) complete(o *opened) bool {
	if m.dimensions.Load() == 0 {
		prefix := fmt.Sprintf("%x/", m.print)
		return len(o.Embedded) > len(prefix) && o.Embedded[:len(prefix)] == prefix
	}
	return o.Embedded == m.mark()
}

// embedScope embeds at most limit memories of a scope.
func (s *Store) embedScope(ctx context.Context, o *opened, limit int) (embedded int, err error) {
	has := map[string]fingerprint{} // the texts of the vectors that there are, by memory
	err = eachVector(ctx, s.driver, o, func(id string, entry []byte) {
		if v, text, ok := decodeVector(entry, s.meaning.print); ok && s.meaning.fits(v) && len(has) < MaxMemories {
			has[id] = text
		}
	})
	if err != nil {
		return 0, err
	}
	var group []*Memory
	prefix := o.content().memories()
	for e, err := range kv.All(ctx, s.driver, o.scope.partition(), kv.Range{Prefix: prefix, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return embedded, kverror.Wrap(err, "embed memories")
		}
		m := &storedMemory{}
		if err := decode(e.Value, m, &m.V); err != nil {
			return embedded, err
		}
		if text, ok := has[m.ID]; ok && text == fingerprintOf(m.Text) {
			continue
		}
		if embedded+len(group) >= limit {
			return embedded, nil // the rest is for the next time
		}
		if group = append(group, &m.Memory); len(group) == llm.MaxEmbedTexts {
			n, err := s.embedGroup(ctx, o.scope, o.Content, group)
			if embedded, group = embedded+n, nil; err != nil {
				return embedded, err
			}
		}
	}
	if len(group) > 0 {
		n, err := s.embedGroup(ctx, o.scope, o.Content, group)
		if embedded += n; err != nil {
			return embedded, err
		}
	}
	return embedded, s.markEmbedded(ctx, o, embedded)
}

// fits reports whether a vector has the length of those that the embedder returns now.
func (m *meaning) fits(v vector) bool {
	d := m.dimensions.Load()
	return d == 0 || int64(len(v.values)) == d
}

// embedGroup embeds memories and writes their vectors, those of memories that still say what
// was embedded, and returns how many.
func (s *Store) embedGroup(ctx context.Context, scope Scope, contentID string, group []*Memory) (written int, err error) {
	texts := make([]string, len(group))
	for i, m := range group {
		texts[i] = m.Text
	}
	vectors, err := s.meaning.embed(ctx, scope, texts, false, embedTimeout)
	if err != nil {
		return 0, err
	}
	err = s.rewrite(ctx, scope, contentID, func(b *batch) error {
		written = 0
		for i, was := range group {
			now, err := b.current(ctx, was.ID)
			if err != nil {
				return err
			}
			if now != nil && now.Text == was.Text {
				b.putVector(now, vectors[i])
				written++
			}
		}
		return nil
	})
	return written, err
}

// markEmbedded notes that all memories of a scope have vectors, if nothing was written to it
// since o was read but so many vectors.
func (s *Store) markEmbedded(ctx context.Context, o *opened, embedded int) error {
	return s.rewrite(ctx, o.scope, o.Content, func(b *batch) error {
		if b.Seq == o.Seq+uint64(embedded) && s.meaning.dimensions.Load() > 0 {
			b.Embedded, b.touched = s.meaning.mark(), true
		}
		return nil
	})
}

// rewrite changes a scope under its lock, if it still has the same content.
func (s *Store) rewrite(ctx context.Context, scope Scope, contentID string, change func(*batch) error) error {
	unlock, err := s.locks.lock(ctx, scope)
	if err != nil {
		return err
	}
	defer unlock()
	for range maxAttempts {
		o, err := s.open(ctx, scope)
		if err != nil || o.Content != contentID || o.revision == 0 {
			return err
		}
		b := s.batch(o)
		if err := change(b); err != nil {
			return err
		}
		if err := b.commit(ctx); !errors.Is(err, kv.ErrPrecondition) {
			return kverror.Wrap(err, "write the vectors of memories")
		}
	}
	return host.Errorf(host.Conflict, "write the vectors of memories: others wrote to the scope first, %d times", maxAttempts)
}

// embedChanges returns the vectors of the texts that changes add to a scope, by digest. A
// text whose vector is missing, because the embedder was not reached or the scope has the text
// already, is written without one.
func (s *Store) embedChanges(ctx context.Context, scope Scope, changes []Change) map[string]vector {
	if s.meaning == nil {
		return nil
	}
	o, err := s.open(ctx, scope)
	if err != nil {
		return nil // the write finds out
	}
	var texts []string
	for i := range changes {
		c := &changes[i]
		if c.Kind == Delete || c.Text == "" || o.revision != 0 && s.says(ctx, o, c.Text) {
			continue
		}
		texts = append(texts, c.Text)
	}
	if len(texts) == 0 {
		return nil
	}
	vectors, err := s.meaning.embedNow(ctx, scope, texts, false, embedTimeout)
	if err != nil {
		if ctx.Err() == nil {
			s.meaning.logger.WarnContext(ctx, "memories are kept without vectors for now: search finds them by their words", "tenant", scope.partition(), "memories", len(texts), "error", err)
		}
		return nil
	}
	byText := make(map[string]vector, len(texts))
	for i, text := range texts {
		byText[digestOf(text)] = vectors[i]
	}
	return byText
}

// says reports whether a scope has a memory of a text.
func (s *Store) says(ctx context.Context, o *opened, text string) bool {
	_, err := s.driver.Get(ctx, o.scope.partition(), o.content().text(digestOf(text)))
	return err == nil
}

// Vector is the vector of a memory, for exports.
type Vector struct {
	Model  string    `json:"model"`
	Values []float32 `json:"values"`
}

// Vector returns the vector of a memory; nil if it has none of the store's embedder.
func (s *Store) Vector(ctx context.Context, scope Scope, id string) (*Vector, error) {
	if s.meaning == nil {
		return nil, scope.check()
	}
	o, err := s.open(ctx, scope)
	if err != nil {
		return nil, err
	}
	e, err := s.driver.Get(ctx, scope.partition(), o.content().vector(id))
	if errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, kverror.Wrap(err, "read the vector of memory %q", id)
	}
	v, _, ok := decodeVector(e.Value, s.meaning.print)
	if !ok {
		return nil, nil
	}
	return &Vector{Model: s.meaning.embedder.Name(), Values: v.floats()}, nil
}
