package httpapi

import (
	"cmp"
	"io"
	"net/http"
	"net/url"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/search"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// NewThread is the body of POST /v1/threads.
type NewThread struct {
	ID       string           `json:"id,omitempty" description:"absent is a fresh one; an id that the tenant has is answered with that thread, unchanged"`
	Title    string           `json:"title,omitempty"`
	Metadata threads.Metadata `json:"metadata,omitempty"`
}

// ThreadChange is the body of PATCH /v1/threads/{thread}.
type ThreadChange struct {
	Title    *string          `json:"title,omitempty"`
	Metadata threads.Metadata `json:"metadata,omitempty" description:"replaces the members it has; one that is null is removed"`
}

// Hits is the answer of GET /v1/search.
type Hits struct {
	Hits []search.Hit `json:"hits"`
}

// threadHandlers answer the routes of threads.
type threadHandlers struct {
	store *threads.Store
	view  *stream.View
}

func (h *threadHandlers) routes() []*route {
	query := param{name: "q", kind: "string", doc: "words to look for"}
	format := param{name: "format", kind: "string", doc: "the form of the export (thread)", values: names(transfer.Formats())}
	from := param{name: "format", kind: "string", doc: "the form of the file; absent is found out", values: names(transfer.ImportFormats())}
	as := param{name: "thread", kind: "string", doc: "the id to import under, if the file has none or another; of a file with many threads, what their ids begin with"}
	return []*route{
		{method: "GET", path: "/v1/threads", id: "listThreads", group: "threads", scope: ReadThreads, query: []param{limitParam, cursorParam},
			summary: "List threads, the last updated first.", answer: threads.Page{}, handle: h.listThreads},
		{method: "POST", path: "/v1/threads", id: "createThread", group: "threads", scope: WriteThreads, audit: "thread.create", headers: []param{keyParam},
			summary: "Create a thread: status 201, or 200 for one that exists.", body: NewThread{}, status: http.StatusCreated, answer: threads.Thread{}, handle: h.createThread},
		{method: "GET", path: "/v1/threads/{thread}", id: "getThread", group: "threads", scope: ReadThreads,
			summary: "Read a thread without its messages. The ETag is its head.", answer: threads.Thread{}, handle: h.getThread},
		{method: "PATCH", path: "/v1/threads/{thread}", id: "updateThread", group: "threads", scope: WriteThreads, audit: "thread.change",
			summary: "Change a thread's title and metadata.", body: ThreadChange{}, answer: threads.Thread{}, handle: h.updateThread},
		{method: "DELETE", path: "/v1/threads/{thread}", id: "deleteThread", group: "threads", scope: WriteThreads, audit: "thread.delete",
			summary: "Delete a thread and everything in it.", status: http.StatusNoContent, handle: h.deleteThread},
		{method: "GET", path: "/v1/threads/{thread}/messages", id: "threadMessages", group: "threads", scope: ReadThreads,
			query:   []param{limitParam, {name: "branch", kind: "string", doc: "messages of that branch"}, {name: "snapshot", kind: "string", doc: "messages right after that turn"}},
			summary: "Read a thread's last messages with their turns, its state and artifacts.", answer: threads.Transcript{}, handle: h.threadMessages},
		{method: "PUT", path: "/v1/threads/{thread}/messages/{message}", id: "editMessage", group: "threads", scope: WriteThreads, audit: "thread.edit", headers: []param{ifMatch},
			summary: "Put a message in the place of one. The thread before the change is kept as a branch.", body: host.Message{}, answer: threads.Thread{}, handle: h.editMessage},
		{method: "DELETE", path: "/v1/threads/{thread}/messages/{message}", id: "deleteMessage", group: "threads", scope: WriteThreads, audit: "thread.edit", headers: []param{ifMatch},
			summary: "Remove a message, with its tool calls and results. The thread before the change is kept as a branch.", answer: threads.Thread{}, handle: h.deleteMessage},
		{method: "POST", path: "/v1/threads/{thread}/rewind", id: "rewindThread", group: "threads", scope: WriteThreads, audit: "thread.rewind", headers: []param{ifMatch},
			summary: "Make a moment of a thread its present. The thread before the change is kept as a branch.", body: Moment{}, answer: threads.Thread{}, handle: h.rewindThread},
		{method: "POST", path: "/v1/threads/{thread}/forks", id: "forkThread", group: "threads", scope: WriteThreads, audit: "thread.fork", headers: []param{keyParam},
			summary: "Begin a thread at a moment of another one.", body: NewFork{}, status: http.StatusCreated, answer: threads.Thread{}, handle: h.forkThread},
		{method: "GET", path: "/v1/threads/{thread}/branches", id: "threadBranches", group: "threads", scope: ReadThreads, query: []param{limitParam, cursorParam},
			summary: "List a thread's heads: the present one, then those left behind, the last left first.", answer: Branches{}, handle: h.threadBranches},
		{method: "GET", path: "/v1/threads/{thread}/artifacts", id: "threadArtifacts", group: "threads", scope: ReadThreads,
			summary: "List a thread's artifacts.", answer: Artifacts{}, handle: h.threadArtifacts},
		{method: "GET", path: "/v1/threads/{thread}/artifacts/{digest}", id: "getArtifact", group: "threads", scope: ReadThreads,
			summary: "Read an artifact.", answer: host.Artifact{}, handle: h.getArtifact},
		{method: "GET", path: "/v1/threads/{thread}/artifacts/{digest}/content", id: "artifactContent", group: "threads", scope: ReadThreads, stream: true,
			summary: "Read the content of an artifact that is one file or text, or the parts of it that the header Range names.", raw: octets, handle: h.artifactContent},
		{method: "POST", path: "/v1/import", id: "importThreads", group: "threads", scope: WriteThreads, audit: "thread.import", query: []param{from, as}, takes: octets,
			summary: "Import threads from a file in a form of the export, or of OpenAI. Sent again, it adds what is missing.", answer: Imports{}, handle: h.importThreads},
		{method: "GET", path: "/v1/threads/{thread}/export", id: "exportThread", group: "threads", scope: ReadThreads, stream: true, query: []param{format},
			summary: "Export a thread.", raw: "application/octet-stream", handle: h.exportThread},
		{method: "GET", path: "/v1/search", id: "searchMessages", group: "threads", scope: ReadThreads, query: []param{query, limitParam},
			summary: "Find messages by their words, the best first.", answer: Hits{}, handle: h.searchMessages},
	}
}

func names(formats []transfer.Format) (list []string) {
	for _, f := range formats {
		list = append(list, string(f))
	}
	return list
}

// tenant returns the caller's threads.
func (h *threadHandlers) tenant(c *call) *threads.Tenant { return h.store.For(c.principal.Tenant) }

// thread returns the id in the path, if the credential reaches it.
func (c *call) thread() (string, error) {
	id, err := c.path("thread")
	if err != nil {
		return "", err
	}
	return id, c.mayThread(id)
}

// whole refuses a credential that reaches one thread only.
func (c *call) whole() error {
	if c.principal.Thread != "" {
		return host.Errorf(host.PermissionDenied, "the credential reaches one thread only").WithHint("use a key of the tenant")
	}
	return nil
}

func (h *threadHandlers) listThreads(c *call) error {
	if err := c.whole(); err != nil {
		return err
	}
	limit, err := c.query.integer("limit")
	if err != nil {
		return err
	}
	page, err := h.tenant(c).List(c.ctx, &threads.ListOptions{Limit: limit, Cursor: c.query.text("cursor")})
	if err != nil {
		return err
	}
	return c.answer(page)
}

func (h *threadHandlers) createThread(c *call) error {
	var in NewThread
	if err := c.body(&in); err != nil {
		return err
	}
	key, err := h.prepareThread(c, &in)
	if err != nil {
		return err
	}
	t, created, err := h.tenant(c).Create(c.ctx, &threads.CreateOptions{ID: cmp.Or(in.ID, key.id("thread")), Title: in.Title, Metadata: in.Metadata})
	if err != nil {
		return err
	}
	if !created {
		return c.answerThread(http.StatusOK, t)
	}
	return h.answerNewThread(c, t)
}

// prepareThread returns the key of a request that creates a thread, once the credential is found
// to reach more than one thread and the audit log has the request.
func (h *threadHandlers) prepareThread(c *call, body any) (requestKey, error) {
	if err := c.whole(); err != nil {
		return requestKey{}, err
	}
	key, err := c.takeKey(body)
	if err != nil {
		return key, err
	}
	return key, c.audit.record()
}

// answerNewThread answers with a thread that the request has created, and its address.
func (h *threadHandlers) answerNewThread(c *call, t *threads.Thread) error {
	c.audit.made("thread", t.ID)
	c.w.Header().Set("Location", "/v1/threads/"+url.PathEscape(t.ID))
	return c.answerThread(c.route.status, t)
}

// answerThread answers with a thread, whose head is the ETag.
func (c *call) answerThread(status int, t *threads.Thread) error {
	c.w.Header().Set("ETag", `"`+t.Head+`"`)
	return c.answerWith(status, t)
}

func (h *threadHandlers) getThread(c *call) error {
	id, err := c.thread()
	if err != nil {
		return err
	}
	t, err := h.tenant(c).Thread(c.ctx, id)
	if err != nil {
		return err
	}
	if c.r.Header.Get("If-None-Match") == `"`+t.Head+`"` {
		c.w.Header().Set("ETag", `"`+t.Head+`"`)
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.answerThread(http.StatusOK, t)
}

func (h *threadHandlers) updateThread(c *call) error {
	var in ThreadChange
	if err := c.body(&in); err != nil {
		return err
	}
	id, err := c.thread()
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	t, err := h.tenant(c).Update(c.ctx, id, threads.Change{Title: in.Title, Metadata: in.Metadata})
	if err != nil {
		return err
	}
	return c.answerThread(http.StatusOK, t)
}

func (h *threadHandlers) deleteThread(c *call) error {
	id, err := c.thread()
	if err != nil {
		return err
	}
	if err := c.whole(); err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	if err := h.tenant(c).Delete(c.ctx, id); err != nil {
		return err
	}
	return c.answer(nil)
}

func (h *threadHandlers) threadMessages(c *call) error {
	id, err := c.thread()
	if err != nil {
		return err
	}
	limit, err := c.query.integer("limit")
	if err != nil {
		return err
	}
	shown, err := h.tenant(c).ShowAt(c.ctx, id, threads.At{Branch: c.query.text("branch"), Snapshot: c.query.text("snapshot")}, limit)
	if err != nil {
		return err
	}
	view := h.view
	if shown.Messages, err = view.Messages(c.ctx, shown.Messages); err != nil {
		return err
	}
	if shown.State, err = view.State(c.ctx, shown.State); err != nil {
		return err
	}
	if view.HidesArtifacts() {
		shown.Artifacts = nil
	}
	for i, s := range shown.Snapshots {
		if s.Error != nil {
			masked := *s
			masked.Error = fault.ForClient(s.Error, s.ID)
			shown.Snapshots[i] = &masked
		}
	}
	return c.answer(shown)
}

func (h *threadHandlers) exportThread(c *call) error {
	id, err := c.thread()
	if err != nil {
		return err
	}
	if h.view != nil {
		return host.Errorf(host.PermissionDenied, "this host hides parts of threads from clients, and exports none").WithHint("ask the operator of this service for an export")
	}
	format := transfer.Format(c.query.text("format"))
	if format == "" {
		format = transfer.FormatThread
	}
	return c.file("thread-"+string(format), "application/octet-stream", func(w io.Writer) error { return transfer.Export(c.ctx, h.tenant(c), id, format, w) })
}

func (h *threadHandlers) searchMessages(c *call) error {
	if err := c.whole(); err != nil {
		return err
	}
	limit, err := c.query.integer("limit")
	if err != nil {
		return err
	}
	hits, err := search.New(h.store).Messages(c.ctx, c.principal.Tenant, c.query.text("q"), &search.Options{Limit: limit})
	if err != nil {
		return err
	}
	if hits == nil {
		hits = []search.Hit{}
	}
	return c.answer(Hits{hits})
}
