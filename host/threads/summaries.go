package threads

import (
	"context"
	"errors"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/reduce"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// Summaries returns where reducers keep the newest summary of each thread of the store:
// beside its log, so that it goes when the thread goes. A summary says which message it
// reaches to; it covers the thread up to that one, and is not loaded any more when a
// message it covers is edited, deleted or rewound. A summary is no part of the
// conversation, and saving one moves no head.
func (s *Store) Summaries() reduce.Summaries { return summaries{s} }

type summaries struct{ store *Store }

// storedSummary is the stored form of a summary.
type storedSummary struct {
	version
	reduce.Summary
	// Covers are the parts of the log of Content that the summary covers; empty if
	// the thread does not show Through.
	Content string      `json:"content,omitempty"`
	Covers  []view.Part `json:"covers,omitempty"`
}

func (c content) summary() kv.Key { return c.all().With("summary") }

// Load implements [reduce.Summaries]. A thread that does not exist has no summary.
func (s summaries) Load(ctx context.Context, scope host.Scope) (*reduce.Summary, error) {
	if scope.Thread == "" {
		return nil, nil
	}
	t, err := readerOf(s.store.driver, scope.Tenant).open(ctx, scope.Thread)
	if err != nil || t == nil {
		return nil, err
	}
	raw, err := t.contents().get(ctx, t.root().summary())
	if err != nil || raw == nil {
		return nil, err
	}
	var stored storedSummary
	if err := decode(raw, &stored, "summary of thread", scope.Thread); err != nil {
		return nil, err
	}
	if !stored.isOf(t) {
		return nil, nil
	}
	return &stored.Summary, nil
}

// isOf reports whether a thread begins with what the summary covers.
func (s *storedSummary) isOf(t *Moment) bool {
	return len(s.Covers) == 0 || s.Content == t.rec.Content && slices.Equal(t.messageList().Slice(0, view.TotalLen(s.Covers)), s.Covers)
}

// through returns the parts that the thread shows up to and with a message; none if
// it does not show it.
func (l log) through(ctx context.Context, id string) ([]view.Part, error) {
	if chat.ValidateID("message", id, MaxMessageIDBytes) != nil {
		return nil, nil
	}
	at, found, err := l.position(ctx, id)
	if err != nil || !found {
		return nil, err
	}
	shown := l.shown
	return shown.Slice(0, shown.IndexOf(at)+1), nil
}

// Save implements [reduce.Summaries]. Code not_found if the thread does not
// exist any more.
func (s summaries) Save(ctx context.Context, scope host.Scope, summary *reduce.Summary) error {
	for range maxAttempts {
		t, err := readerOf(s.store.driver, scope.Tenant).find(ctx, scope.Thread)
		if err != nil {
			return err
		}
		covers, err := t.log().through(ctx, summary.Through)
		if err != nil {
			return err
		}
		raw, err := encode(storedSummary{version: version{V: layout}, Summary: *summary, Content: t.rec.Content, Covers: covers})
		if err != nil {
			return err
		}
		_, err = t.part.Apply(ctx, kv.Tx{Writes: []kv.Write{kv.Put(t.root().summary(), raw)},
			Conds: []kv.Cond{kv.AtRevision(threadKey(scope.Thread), t.revision)}}) // or it might be gone
		if !errors.Is(err, kv.ErrPrecondition) {
			return wrap(err, "store the summary of thread %q", scope.Thread)
		}
	}
	return host.Errorf(host.Conflict, "store the summary of thread %q: others changed it first, %d times", scope.Thread, maxAttempts)
}
