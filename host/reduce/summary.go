package reduce

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/cache"
)

// Summary stands for the beginning of a thread.
type Summary struct {
	Text    string `json:"text"`
	Through string `json:"through"` // id of the last message that it covers
}

// message is the summary in a conversation. Its id is the same each time, so
// that a provider's prompt cache holds.
func (s *Summary) message() *host.Message {
	raw, _ := json.Marshal(s.Text) // of a string, which does not fail
	return &host.Message{ID: "summary/" + s.Through, Role: host.Assistant,
		Parts: []host.Part{&host.Text{Text: s.Text}}, Metadata: map[string]json.RawMessage{SummaryKey: raw}}
}

// Summaries keeps the newest summary of each thread. Implementations are safe for
// concurrent use, and keep tenants apart by Scope.Tenant.
type Summaries interface {
	// Load returns the thread's newest summary, or nil. A summary whose Through is
	// not among the thread's messages is skipped, so a rewound thread is summarized
	// again. Load never returns a summary that covers an edited or deleted message:
	// deleted text must not survive in a summary.
	Load(ctx context.Context, scope host.Scope) (*Summary, error)

	// Save replaces it.
	Save(ctx context.Context, scope host.Scope, s *Summary) error
}

// MaxRememberedThreads is how many threads' summaries a reducer remembers by
// itself. Threads without a turn for the longest time are forgotten first, and
// summarized again.
const MaxRememberedThreads = 10_000

// remembered are summaries in memory.
type remembered struct {
	summaries *cache.Cache[threadKey, *Summary]
}

type threadKey struct{ tenant, thread string }

func newRemembered() remembered {
	return remembered{cache.New(cache.Options[threadKey, *Summary]{MaxEntries: MaxRememberedThreads})}
}

func (r remembered) Load(_ context.Context, scope host.Scope) (*Summary, error) {
	s, _ := r.summaries.Get(threadKey{scope.Tenant, scope.Thread})
	return s, nil
}

func (r remembered) Save(_ context.Context, scope host.Scope, s *Summary) error {
	r.summaries.Put(threadKey{scope.Tenant, scope.Thread}, s)
	return nil
}
