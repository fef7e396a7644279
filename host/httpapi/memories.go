package httpapi

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/memory"
)

// MemoryScope says whose memories are meant, within the tenant. Without a name they are
// those that all of the tenant's runs share.
type MemoryScope struct {
	Application string `json:"application,omitempty"`
	User        string `json:"user,omitempty"`
	Agent       string `json:"agent,omitempty"`
	Run         string `json:"run,omitempty"`
}

// MemoryScopes is the answer of GET /v1/memory/scopes.
type MemoryScopes struct {
	Scopes []MemoryScope `json:"scopes" description:"those that have memories"`
	Next   string        `json:"next,omitempty" description:"the cursor of the next page; absent if this is the last"`
}

// MemoryPage is the answer of GET /v1/memories.
type MemoryPage struct {
	Memories []*memory.Memory `json:"memories"`
	Next     string           `json:"next,omitempty" description:"the cursor of the next page; absent if this is the last"`
}

// MemoryHits is the answer of GET /v1/memory/search.
type MemoryHits struct {
	Hits []memory.Hit `json:"hits"`

	WordsOnly bool `json:"words_only,omitempty" description:"the model of embeddings was not reached, or its budget is used up: the search was by words"`
}

// MemoryEvents is the answer of GET /v1/memories/{memory}/history.
type MemoryEvents struct {
	Events []*memory.Event `json:"events" description:"the oldest first"`
}

// NewMemory is the body of POST /v1/memories.
type NewMemory struct {
	ID       string                     `json:"id,omitempty" description:"a name of the client's: sent again, nothing is added"`
	Text     string                     `json:"text"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	Expires  time.Time                  `json:"expires,omitzero" description:"absent is never"`
}

// MemoryChange is the body of PATCH /v1/memories/{memory}.
type MemoryChange struct {
	Text     string                     `json:"text,omitempty" description:"absent stays as it was, like the others"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty" description:"in the place of the one before"`
	Expires  time.Time                  `json:"expires,omitzero"`
}

// MemoryChanges is the body of POST /v1/memory/changes.
type MemoryChanges struct {
	Changes []memory.Change `json:"changes"`
}

// ChangedMemories is the answer of POST /v1/memory/changes.
type ChangedMemories struct {
	Memories []*memory.Memory `json:"memories" description:"of each change: the memory after it, of a deletion the one before"`
}

// memoryHandlers answer the routes of memories.
type memoryHandlers struct{ store *memory.Store }

func (h *memoryHandlers) routes() []*route {
	scope := func(more ...param) []param {
		return append([]param{
			{name: "application", kind: "string", doc: "a name in the scope of the memories"},
			{name: "user", kind: "string", doc: "likewise"}, {name: "agent", kind: "string", doc: "likewise"}, {name: "run", kind: "string", doc: "likewise"},
		}, more...)
	}
	query := param{name: "q", kind: "string", doc: "words to look for"}
	return []*route{
		{method: "GET", path: "/v1/memory/scopes", id: "memoryScopes", group: "memory", scope: ReadMemory, query: scope(limitParam, cursorParam),
			summary: "List the scopes that have memories, and all of the given names.", answer: MemoryScopes{}, handle: h.memoryScopes},
		{method: "GET", path: "/v1/memory/search", id: "searchMemories", group: "memory", scope: ReadMemory, query: scope(query, limitParam),
			summary: "Find memories of a scope by their words, the best first.", answer: MemoryHits{}, handle: h.searchMemories},
		{method: "POST", path: "/v1/memory/changes", id: "changeMemories", group: "memory", scope: WriteMemory, audit: "memory.change", query: scope(),
			summary: "Make all changes of memories of a scope, or none.", body: MemoryChanges{}, answer: ChangedMemories{}, handle: h.changeMemories},
		{method: "GET", path: "/v1/memories", id: "listMemories", group: "memory", scope: ReadMemory, query: scope(limitParam, cursorParam),
			summary: "List the memories of a scope.", answer: MemoryPage{}, handle: h.listMemories},
		{method: "POST", path: "/v1/memories", id: "addMemory", group: "memory", scope: WriteMemory, audit: "memory.add", query: scope(), headers: []param{keyParam},
			summary: "Remember a text. A text or id that the scope has is answered with that memory, unchanged.", body: NewMemory{}, status: http.StatusCreated, answer: memory.Memory{}, handle: h.addMemory},
		{method: "DELETE", path: "/v1/memories", id: "forgetMemories", group: "memory", scope: WriteMemory, audit: "memory.forget", query: scope(),
			summary: "Forget everything that a scope has, with its history.", status: http.StatusNoContent, handle: h.forgetMemories},
		{method: "GET", path: "/v1/memories/{memory}", id: "getMemory", group: "memory", scope: ReadMemory, query: scope(),
			summary: "Read a memory.", answer: memory.Memory{}, handle: h.getMemory},
		{method: "PATCH", path: "/v1/memories/{memory}", id: "updateMemory", group: "memory", scope: WriteMemory, audit: "memory.change", query: scope(),
			summary: "Change a memory.", body: MemoryChange{}, answer: memory.Memory{}, handle: h.updateMemory},
		{method: "DELETE", path: "/v1/memories/{memory}", id: "deleteMemory", group: "memory", scope: WriteMemory, audit: "memory.delete", query: scope(),
			summary: "Forget a memory. Its history stays.", status: http.StatusNoContent, handle: h.deleteMemory},
		{method: "GET", path: "/v1/memories/{memory}/history", id: "memoryHistory", group: "memory", scope: ReadMemory, query: scope(),
			summary: "Read what a memory has said, also after it was forgotten.", answer: MemoryEvents{}, handle: h.memoryHistory},
	}
}

// memories returns the scope of the query, for a credential that reaches the whole tenant.
func (c *call) memories() (memory.Scope, error) {
	return memory.Scope{Tenant: c.principal.Tenant, Application: c.query.text("application"), User: c.query.text("user"), Agent: c.query.text("agent"), Run: c.query.text("run")}, c.whole()
}

// memory is memories, with the id in the path.
func (c *call) memory() (scope memory.Scope, id string, err error) {
	if scope, err = c.memories(); err == nil {
		id, err = c.path("memory")
	}
	return scope, id, err
}

func (h *memoryHandlers) memoryScopes(c *call) error {
	filter, err := c.memories()
	if err != nil {
		return err
	}
	limit, err := c.query.limit(memory.MaxListed)
	if err != nil {
		return err
	}
	after, err := scopeAfter(filter.Tenant, c.query.text("cursor"))
	if err != nil {
		return err
	}
	list, more, err := h.store.ScopesAfter(c.ctx, filter, after, limit)
	if err != nil {
		return err
	}
	answer := MemoryScopes{Scopes: []MemoryScope{}}
	for _, s := range list {
		answer.Scopes = append(answer.Scopes, MemoryScope{Application: s.Application, User: s.User, Agent: s.Agent, Run: s.Run})
	}
	if more {
		answer.Next = scopeCursor(&list[limit-1])
	}
	return c.answer(answer)
}

// scopeCursor returns the cursor of the scopes after s. Its names have no NUL.
func scopeCursor(s *memory.Scope) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{s.Application, s.User, s.Agent, s.Run}, "\x00")))
}

// scopeAfter returns the scope that a cursor is after; nil without one.
func scopeAfter(tenant, cursor string) (*memory.Scope, error) {
	if cursor == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	names := strings.Split(string(raw), "\x00")
	if err != nil || len(names) != 4 || !utf8.Valid(raw) {
		return nil, host.Errorf(host.InvalidArgument, "the cursor is not one of this list: %.60q", cursor).WithHint("send the member next of the page before")
	}
	return &memory.Scope{Tenant: tenant, Application: names[0], User: names[1], Agent: names[2], Run: names[3]}, nil
}

func (h *memoryHandlers) searchMemories(c *call) error {
	scope, err := c.memories()
	if err != nil {
		return err
	}
	limit, err := c.query.integer("limit")
	if err != nil {
		return err
	}
	var out MemoryHits
	hits, err := h.store.Search(c.ctx, scope, c.query.text("q"), &memory.SearchOptions{Limit: limit, Degraded: func(error) { out.WordsOnly = true }})
	if err != nil {
		return err
	}
	if hits == nil {
		hits = []memory.Hit{}
	}
	out.Hits = hits
	return c.answer(out)
}

func (h *memoryHandlers) changeMemories(c *call) error {
	var in MemoryChanges
	if err := c.body(&in); err != nil {
		return err
	}
	scope, err := c.memories()
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	changed, err := h.store.Apply(c.ctx, scope, in.Changes...)
	if err != nil {
		return err
	}
	if changed == nil {
		changed = []*memory.Memory{}
	}
	return c.answer(ChangedMemories{changed})
}

func (h *memoryHandlers) listMemories(c *call) error {
	scope, err := c.memories()
	if err != nil {
		return err
	}
	limit, err := c.query.limit(memory.MaxListed)
	if err != nil {
		return err
	}
	list, err := h.store.List(c.ctx, scope, &memory.ListOptions{After: c.query.text("cursor"), Limit: limit})
	if err != nil {
		return err
	}
	page := MemoryPage{Memories: list}
	if list == nil {
		page.Memories = []*memory.Memory{}
	}
	if len(list) == limit {
		page.Next = list[limit-1].ID
	}
	return c.answer(page)
}

func (h *memoryHandlers) addMemory(c *call) error {
	var in NewMemory
	if err := c.body(&in); err != nil {
		return err
	}
	scope, err := c.memories()
	if err != nil {
		return err
	}
	key, err := c.takeKey(&in)
	if err != nil {
		return err
	}
	in.ID = cmp.Or(in.ID, key.id("memory"))
	if err := c.audit.recordOf(c.tenant(), objectOf("memory", in.ID)); err != nil {
		return err
	}
	m, err := h.store.Add(c.ctx, scope, in.Text, &memory.AddOptions{ID: in.ID, Metadata: in.Metadata, Expires: in.Expires})
	if err != nil {
		return err
	}
	c.audit.made("memory", m.ID)
	c.w.Header().Set("Location", "/v1/memories/"+url.PathEscape(m.ID))
	return c.answer(m)
}

func (h *memoryHandlers) forgetMemories(c *call) error {
	scope, err := c.memories()
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	if err := h.store.DeleteAll(c.ctx, scope); err != nil {
		return err
	}
	return c.answer(nil)
}

func (h *memoryHandlers) getMemory(c *call) error {
	scope, id, err := c.memory()
	if err != nil {
		return err
	}
	m, err := h.store.Get(c.ctx, scope, id)
	if err != nil {
		return err
	}
	return c.answer(m)
}

func (h *memoryHandlers) updateMemory(c *call) error {
	var in MemoryChange
	if err := c.body(&in); err != nil {
		return err
	}
	scope, id, err := c.memory()
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	changed, err := h.store.Apply(c.ctx, scope, memory.Change{Kind: memory.Update, ID: id, Text: in.Text, Metadata: in.Metadata, Expires: in.Expires})
	if err != nil {
		return err
	}
	return c.answer(changed[0])
}

func (h *memoryHandlers) deleteMemory(c *call) error {
	scope, id, err := c.memory()
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	if err := h.store.Delete(c.ctx, scope, id); err != nil {
		return err
	}
	return c.answer(nil)
}

func (h *memoryHandlers) memoryHistory(c *call) error {
	scope, id, err := c.memory()
	if err != nil {
		return err
	}
	events, err := h.store.History(c.ctx, scope, id)
	if err != nil {
		return err
	}
	return c.answer(MemoryEvents{events})
}
