package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
)

// endpoint is what callers with the same rights connect to. All of their sessions share it.
type endpoint struct {
	rights
	owner        *Server
	server       *mcp.Server
	withSessions http.Handler // of clients with sessions
	stateless    http.Handler // of clients without: of the protocol version 2026-07-28 and later

	requests atomic.Int64 // in progress
	used     atomic.Int64 // when a request or a session was seen last, in Unix nanoseconds
	made     atomic.Bool  // the offers were read once
	logs     atomic.Bool  // a session has asked for logs of tools
	revision atomic.Uint64

	mu        sync.Mutex // held while the offers are read
	offered   map[string]string
	calls     sync.Map // of callable, by name
	prompts   sync.Map // of *Prompt, by name
	resources sync.Map // of *Resource, by URI or template

	threads sessionThreads // of sessions over HTTP
}

func newEndpoint(s *Server, r rights) *endpoint {
	e := &endpoint{rights: r, owner: s, offered: map[string]string{}}
	e.server = mcp.NewServer(s.implementation(), &mcp.ServerOptions{
		Instructions:       s.opts.Instructions,
		Capabilities:       e.capabilities(),
		CompletionHandler:  e.complete,
		SubscribeHandler:   e.subscribe,
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	e.server.AddReceivingMiddleware(e.guard)
	own := func(*http.Request) *mcp.Server { return e.server }
	// Hosts and origins are checked by the caller of Serve, which knows the names of the host.
	e.withSessions = withToken(mcp.NewStreamableHTTPHandler(own, &mcp.StreamableHTTPOptions{
		SessionTimeout: s.opts.SessionIdle, MaxRequestBodyBytes: s.opts.MaxBodyBytes, DisableLocalhostProtection: true,
	}))
	e.stateless = withToken(mcp.NewStreamableHTTPHandler(own, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: s.opts.MaxBodyBytes, DisableLocalhostProtection: true,
	}))
	return e
}

// subscribe accepts only addresses that are offered. The library keeps the address of each
// subscription until the endpoint ends, so their number is bounded. Resources of templates do
// not change.
func (e *endpoint) subscribe(_ context.Context, r *mcp.SubscribeRequest) error {
	if _, offered := e.resources.Load(r.Params.URI); !offered {
		return mcp.ResourceNotFoundError(r.Params.URI)
	}
	return nil
}

// capabilities do not depend on the present offers, because a session reads them once.
func (e *endpoint) capabilities() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{
		Tools:     &mcp.ToolCapabilities{ListChanged: true},
		Prompts:   &mcp.PromptCapabilities{ListChanged: true},
		Resources: &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
		//lint:ignore SA1019 clients of the versions with sessions read the logs of tools
		Logging: &mcp.LoggingCapabilities{},
	}
}

// sessions returns how many sessions are connected.
func (e *endpoint) sessions() (n int) {
	for range e.server.Sessions() {
		n++
	}
	return n
}

// isIdle reports whether the endpoint has neither requests nor sessions.
func (e *endpoint) isIdle() bool { return e.requests.Load() == 0 && e.sessions() == 0 }

// close ends all sessions.
func (e *endpoint) close() {
	var ending sync.WaitGroup
	for session := range e.server.Sessions() {
		ending.Go(func() { _ = session.Close() })
	}
	ending.Wait()
}

// refresh makes the server offer what the catalog offers, and sends list_changed if clients
// see a difference.
func (e *endpoint) refresh(ctx context.Context) error {
	if e.isFresh() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isFresh() {
		return nil
	}
	revision := e.owner.catalog.Revision(e.tenant) // before the offers: a change meanwhile is read again
	offers, err := e.owner.catalog.Offers(ctx, e.tenant)
	if err != nil {
		return err
	}
	if offers == nil {
		offers = &Offers{}
	}
	next := map[string]string{}
	if e.mayRun {
		e.offerCalls(ctx, offers, next)
		e.offerPrompts(offers, next)
	}
	e.offerResources(ctx, offers, next)
	e.withdraw(next)
	e.offered = next
	e.revision.Store(revision)
	e.made.Store(true)
	return nil
}

func (e *endpoint) isFresh() bool {
	return e.made.Load() && e.revision.Load() == e.owner.catalog.Revision(e.tenant)
}

// The kinds of things that are offered: they begin the keys of endpoint.offered.
const (
	kindTool     = "tool "
	kindPrompt   = "prompt "
	kindResource = "resource "
	kindTemplate = "template "
)

// offer calls add if the definition under a key differs from the one that clients have. A
// definition that the protocol's library refuses is left out and logged; the others are offered.
func (e *endpoint) offer(ctx context.Context, next map[string]string, key string, definition any, add func()) {
	raw, err := json.Marshal(definition)
	if err == nil && e.offered[key] != string(raw) {
		err = unlessPanics(add)
	}
	if err != nil {
		e.owner.opts.Logger.WarnContext(ctx, "not offered to clients", "tenant", e.tenant, "what", key, "error", err)
		return
	}
	next[key] = string(raw)
}

// unlessPanics calls fn, and returns its panic as an error: the library panics for a schema
// that it cannot read, and schemas come from plugins.
func unlessPanics(fn func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = host.Errorf(host.Internal, "%v", v)
		}
	}()
	fn()
	return nil
}

// withdraw removes the tools, prompts and resources that the next offers do not have.
func (e *endpoint) withdraw(next map[string]string) {
	gone := map[string][]string{}
	for key := range e.offered {
		if _, stays := next[key]; stays {
			continue
		}
		for _, kind := range []string{kindTool, kindPrompt, kindResource, kindTemplate} {
			if len(key) > len(kind) && key[:len(kind)] == kind {
				gone[kind] = append(gone[kind], key[len(kind):])
			}
		}
	}
	for _, name := range gone[kindTool] {
		e.calls.Delete(name)
	}
	for _, name := range gone[kindPrompt] {
		e.prompts.Delete(name)
	}
	for _, uri := range slices.Concat(gone[kindResource], gone[kindTemplate]) {
		e.resources.Delete(uri)
	}
	if names := gone[kindTool]; len(names) > 0 {
		e.server.RemoveTools(names...)
	}
	if names := gone[kindPrompt]; len(names) > 0 {
		e.server.RemovePrompts(names...)
	}
	if uris := gone[kindResource]; len(uris) > 0 {
		e.server.RemoveResources(uris...)
	}
	if uris := gone[kindTemplate]; len(uris) > 0 {
		e.server.RemoveResourceTemplates(uris...)
	}
}
