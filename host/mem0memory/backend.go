package mem0memory

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/memory"
)

// DefaultBaseURL is Mem0's own server.
const DefaultBaseURL = "https://api.mem0.ai"

// Options are a backend's. APIKey must be set.
type Options struct {
	APIKey  string
	BaseURL string        // default: DefaultBaseURL
	Timeout time.Duration // of one request (30 s)
	Client  *http.Client  // default: one of its own, which follows no redirect
}

// Backend is a client of Mem0's. It is safe for concurrent use.
type Backend struct{ api *api }

var _ memory.Backend = (*Backend)(nil)

// New returns a backend. Code invalid_argument without a key, or for an address
// that is none.
func New(opts *Options) (*Backend, error) {
	if opts == nil {
		opts = &Options{}
	}
	a, err := newAPI(*opts)
	if err != nil {
		return nil, err
	}
	return &Backend{a}, nil
}

// userOf is the name that a scope has with Mem0.
func userOf(s memory.Scope) string {
	names := []string{s.Tenant, s.Application, s.User, s.Agent, s.Run}
	if s.Tenant == "" {
		names[0] = host.DefaultTenant
	}
	for i, name := range names {
		names[i] = url.PathEscape(name)
	}
	return strings.Join(names, "/")
}

// ownID is the name in a memory's metadata of the caller's id.
const ownID = "agenthost_id"

// record is a memory as Mem0 has it.
type record struct {
	ID       string                     `json:"id"`
	Memory   string                     `json:"memory"`
	User     string                     `json:"user_id"`
	Metadata map[string]json.RawMessage `json:"metadata"`
	Score    float64                    `json:"score"`
	Created  time.Time                  `json:"created_at"`
	Updated  time.Time                  `json:"updated_at"`
	Expires  string                     `json:"expiration_date"` // a day
}

func (r *record) memory() *memory.Memory {
	m := &memory.Memory{ID: r.ID, Text: r.Memory, Created: r.Created, Updated: r.Updated}
	m.Expires, _ = time.Parse(time.DateOnly, r.Expires) // none, or one that is not a day, is never
	for name, value := range r.Metadata {
		if name == ownID {
			continue
		}
		if m.Metadata == nil {
			m.Metadata = map[string]json.RawMessage{}
		}
		m.Metadata[name] = value
	}
	return m
}

// Apply implements [memory.Backend], but for "all or none": see the package.
func (b *Backend) Apply(ctx context.Context, scope memory.Scope, changes ...memory.Change) ([]*memory.Memory, error) {
	if err := memory.CheckChanges(scope, changes); err != nil {
		return nil, err
	}
	var out []*memory.Memory
	for _, c := range changes {
		m, err := b.apply(ctx, userOf(scope), c)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func (b *Backend) apply(ctx context.Context, user string, c memory.Change) (*memory.Memory, error) {
	if c.Kind == memory.Add {
		return b.add(ctx, user, c)
	}
	r, err := b.find(ctx, user, c.ID)
	if err != nil {
		return nil, err
	}
	m := r.memory()
	if c.Kind == memory.Delete {
		return m, b.api.do(ctx, call{method: http.MethodDelete, path: memoryPath(r.ID), again: true}, nil)
	}
	body := map[string]any{}
	if c.Text != "" {
		m.Text, body["text"] = c.Text, c.Text
	}
	if c.Metadata != nil {
		metadata := map[string]json.RawMessage{}
		for name, value := range c.Metadata {
			metadata[name] = value
		}
		if own, ok := r.Metadata[ownID]; ok {
			metadata[ownID] = own
		}
		m.Metadata, body["metadata"] = c.Metadata, metadata
	}
	if !c.Expires.IsZero() {
		m.Expires, body["expiration_date"] = c.Expires, c.Expires.UTC().Format(time.DateOnly)
	}
	m.Updated = time.Now().UTC()
	return m, b.api.do(ctx, call{method: http.MethodPut, path: memoryPath(r.ID), body: body, again: true}, nil)
}

func memoryPath(id string) string { return "/v1/memories/" + url.PathEscape(id) + "/" }

func (b *Backend) add(ctx context.Context, user string, c memory.Change) (*memory.Memory, error) {
	if c.ID != "" {
		switch known, err := b.byOwnID(ctx, user, c.ID); {
		case err != nil:
			return nil, err
		case known != nil:
			return known.memory(), nil
		}
	}
	metadata := map[string]any{}
	for name, value := range c.Metadata {
		metadata[name] = value
	}
	if c.ID != "" {
		metadata[ownID] = c.ID
	}
	body := map[string]any{
		"messages": []map[string]string{{"role": "user", "content": c.Text}}, "user_id": user, "metadata": metadata,
		"infer": false, "async_mode": false, "version": "v2", "output_format": "v1.1",
	}
	if !c.Expires.IsZero() {
		body["expiration_date"] = c.Expires.UTC().Format(time.DateOnly)
	}
	var answer list
	if err := b.api.do(ctx, call{method: http.MethodPost, path: "/v1/memories/", body: body}, &answer); err != nil {
		return nil, err
	}
	if len(answer) == 0 || answer[0].ID == "" {
		return nil, errNonsense("an addition without an id")
	}
	now := time.Now().UTC()
	return &memory.Memory{ID: answer[0].ID, Text: c.Text, Metadata: c.Metadata, Created: now, Updated: now, Expires: c.Expires}, nil
}

// find returns a memory of a user by Mem0's id or the caller's.
func (b *Backend) find(ctx context.Context, user, id string) (*record, error) {
	var r record
	err := b.api.do(ctx, call{method: http.MethodGet, path: memoryPath(id), again: true}, &r)
	code := host.CodeOf(err)
	switch {
	case err == nil && r.User == user:
		return &r, nil
	case err != nil && code != host.NotFound && code != host.InvalidArgument: // an id of ours is none of Mem0's
		return nil, err
	}
	known, err := b.byOwnID(ctx, user, id)
	if err == nil && known == nil {
		err = host.Errorf(host.NotFound, "there is no memory %q in this scope", id).WithHint("search the scope for the ids that it has")
	}
	return known, err
}

// byOwnID returns the memory that was added with an id of the caller's; nil
// without one.
func (b *Backend) byOwnID(ctx context.Context, user, id string) (*record, error) {
	var found list
	body := map[string]any{"filters": map[string]any{"AND": []any{
		map[string]string{"user_id": user}, map[string]any{"metadata": map[string]string{ownID: id}}}}}
	if err := b.api.do(ctx, call{method: http.MethodPost, path: "/v2/memories/", body: body, again: true}, &found); err != nil {
		return nil, err
	}
	for i := range found {
		var own string
		if json.Unmarshal(found[i].Metadata[ownID], &own) == nil && own == id && found[i].User == user {
			return &found[i], nil
		}
	}
	return nil, nil
}

// Search implements [memory.Backend]: by meaning, with Mem0's scores.
func (b *Backend) Search(ctx context.Context, scope memory.Scope, query string, opts *memory.SearchOptions) ([]memory.Hit, error) {
	if err := memory.CheckChanges(scope, nil); err != nil {
		return nil, err
	}
	limit := memory.DefaultHits
	if opts != nil && opts.Limit > 0 {
		limit = min(opts.Limit, memory.MaxHits)
	}
	if strings.TrimSpace(query) == "" {
		return nil, nil
	}
	user := userOf(scope)
	var found list
	body := map[string]any{"query": query, "top_k": limit, "filters": map[string]any{"AND": []any{map[string]string{"user_id": user}}}}
	if err := b.api.do(ctx, call{method: http.MethodPost, path: "/v2/memories/search/", body: body, again: true}, &found); err != nil {
		return nil, err
	}
	var hits []memory.Hit
	for i := range found {
		if r := &found[i]; r.User == "" || r.User == user { // other memories are not this scope's
			hits = append(hits, memory.Hit{Memory: r.memory(), Score: r.Score})
		}
		if len(hits) == limit {
			break
		}
	}
	return hits, nil
}

// list is an answer of several memories: alone, or as results.
type list []record

// UnmarshalJSON reads both forms.
func (l *list) UnmarshalJSON(b []byte) error {
	if strings.HasPrefix(strings.TrimSpace(string(b)), "[") {
		return json.Unmarshal(b, (*[]record)(l))
	}
	var in struct{ Results []record }
	err := json.Unmarshal(b, &in)
	*l = in.Results
	return err
}
