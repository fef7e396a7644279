package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/threads"
)

// The addresses of artifacts.
const (
	artifactTemplate = "agenthost://threads/{thread}/artifacts/{digest}"
	artifactPrefix   = "agenthost://threads/"
	artifactMiddle   = "/artifacts/"
)

// threadsOfPage is how many threads a page of the list of resources looks at.
const threadsOfPage = 50

func artifactURI(thread, digest string) string {
	return artifactPrefix + escaped(thread) + artifactMiddle + escaped(digest)
}

// escaped returns text as the value of a variable of a template has it: all but the
// unreserved characters is escaped.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// parseArtifactURI is the reverse of artifactURI.
func parseArtifactURI(uri string) (thread, digest string, ok bool) {
	rest, ok := strings.CutPrefix(uri, artifactPrefix)
	if !ok {
		return "", "", false
	}
	first, second, ok := strings.Cut(rest, artifactMiddle)
	if !ok {
		return "", "", false
	}
	thread, err := url.PathUnescape(first)
	if err != nil {
		return "", "", false
	}
	digest, err = url.PathUnescape(second)
	return thread, digest, err == nil && thread != "" && digest != ""
}

// offersArtifacts reports whether callers read the artifacts of threads.
func (e *endpoint) offersArtifacts() bool {
	return e.mayRead && e.owner.opts.Threads != nil && !e.owner.opts.View.HidesArtifacts()
}

// offerResources offers the resources of the catalog, and the artifacts of threads.
func (e *endpoint) offerResources(ctx context.Context, offers *Offers, next map[string]string) {
	if e.offersArtifacts() {
		t := &mcp.ResourceTemplate{URITemplate: artifactTemplate, Name: "artifact", Title: "Artifact", Description: "A result beside a conversation."}
		e.offer(ctx, next, kindTemplate+t.URITemplate, t, func() { e.server.AddResourceTemplate(t, e.readArtifact) })
	}
	for i := range offers.Resources {
		r := &offers.Resources[i]
		if isOffered(r.URI, next) || r.Tool != nil && !e.mayCallTools() {
			continue // the first of a URI is offered
		}
		if strings.ContainsRune(r.URI, '{') {
			t := &mcp.ResourceTemplate{URITemplate: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MediaType}
			e.resources.Store(r.URI, r)
			e.offer(ctx, next, kindTemplate+r.URI, t, func() { e.server.AddResourceTemplate(t, e.readResource(r.URI)) })
			continue
		}
		t := &mcp.Resource{URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MediaType}
		e.resources.Store(r.URI, r)
		e.offer(ctx, next, kindResource+r.URI, t, func() { e.server.AddResource(t, e.readResource(r.URI)) })
	}
}

// isOffered reports whether a resource of a URI, or a template, is offered already.
func isOffered(uri string, next map[string]string) bool {
	_, plain := next[kindResource+uri]
	_, template := next[kindTemplate+uri]
	return plain || template
}

// readResource returns the handler of a resource of the catalog.
func (e *endpoint) readResource(key string) mcp.ResourceHandler {
	return func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		from := requestOf(ctx, req.Extra)
		known, ok := e.resources.Load(key)
		if from == nil || !ok {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		r := known.(*Resource)
		var parts []chat.Part
		var err error
		if r.Tool != nil {
			parts, err = e.readByTool(ctx, from, r, req.Params.URI)
		} else {
			parts, err = r.Read(ctx, from.caller, req.Params.URI)
		}
		if err != nil {
			return nil, e.resourceError(req.Params.URI, err)
		}
		return contentsOf(req.Params.URI, parts), nil
	}
}

// readArtifact reads an artifact of a thread of the tenant.
func (e *endpoint) readArtifact(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	thread, digest, ok := parseArtifactURI(req.Params.URI)
	if !ok || !e.offersArtifacts() || e.thread != "" && e.thread != thread {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	of := e.owner.opts.Threads.For(e.tenant)
	list, err := of.Artifacts(ctx, thread)
	if err != nil {
		return nil, e.resourceError(req.Params.URI, err)
	}
	for _, info := range list {
		if info.Content != digest && info.Digest != digest {
			continue
		}
		a, err := of.Artifact(ctx, thread, info.Digest)
		if err != nil {
			return nil, e.resourceError(req.Params.URI, err)
		}
		return contentsOf(req.Params.URI, a.Parts), nil
	}
	return nil, mcp.ResourceNotFoundError(req.Params.URI)
}

// contentsOf returns parts as the contents of a resource.
func contentsOf(uri string, parts []chat.Part) *mcp.ReadResourceResult {
	r := &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}}
	for _, p := range parts {
		switch p := p.(type) {
		case *chat.Text:
			r.Contents = append(r.Contents, &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: p.Text})
		case *chat.Data:
			r.Contents = append(r.Contents, &mcp.ResourceContents{URI: uri, MIMEType: "application/json", Text: string(p.Value)})
		case *chat.Media:
			if strings.HasPrefix(p.MediaType, "text/") || p.MediaType == "application/json" {
				r.Contents = append(r.Contents, &mcp.ResourceContents{URI: uri, MIMEType: p.MediaType, Text: string(p.Data)})
				continue
			}
			blob := p.Data
			if blob == nil {
				blob = []byte{}
			}
			r.Contents = append(r.Contents, &mcp.ResourceContents{URI: uri, MIMEType: p.MediaType, Blob: blob})
		}
	}
	return r
}

// resourceError returns the error of reading a resource as clients read it.
func (e *endpoint) resourceError(uri string, err error) error {
	if host.CodeOf(err) == host.NotFound {
		return mcp.ResourceNotFoundError(uri)
	}
	return e.protocolError(err)
}

// protocolError returns an error as one of JSON-RPC.
func (e *endpoint) protocolError(err error) error {
	shown := e.owner.forClient(err, "")
	code := int64(jsonrpc.CodeInternalError)
	if shown.Code == fault.InvalidArgument {
		code = jsonrpc.CodeInvalidParams
	}
	data, err := json.Marshal(map[string]string{"code": string(shown.Code)})
	if err != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: code, Message: shown.Error(), Data: data}
}

// threadCursor begins the cursors of pages of artifacts, which are those of lists of threads.
const threadCursor = "threads:"

// listResources lists the resources of the catalog, and on the pages after them the artifacts
// of the tenant's threads, those of the thread that was updated last first.
func (e *endpoint) listResources(ctx context.Context, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	params, ok := req.GetParams().(*mcp.ListResourcesParams)
	cursor := ""
	if ok && params != nil {
		cursor = params.Cursor
	}
	after, artifacts := strings.CutPrefix(cursor, threadCursor)
	if artifacts {
		return e.listArtifacts(ctx, after, &mcp.ListResourcesResult{Resources: []*mcp.Resource{}})
	}
	result, err := next(ctx, "resources/list", req)
	page, ok := result.(*mcp.ListResourcesResult)
	if err != nil || !ok || page.NextCursor != "" {
		return result, err
	}
	return e.listArtifacts(ctx, "", page)
}

// listArtifacts adds a page of artifacts to a list.
func (e *endpoint) listArtifacts(ctx context.Context, cursor string, page *mcp.ListResourcesResult) (mcp.Result, error) {
	if !e.offersArtifacts() {
		return page, nil
	}
	of := e.owner.opts.Threads.For(e.tenant)
	ids := []string{e.thread}
	if e.thread == "" {
		found, err := of.List(ctx, &threads.ListOptions{Limit: threadsOfPage, Cursor: cursor})
		if err != nil {
			return nil, e.protocolError(err)
		}
		ids = ids[:0]
		for _, t := range found.Threads {
			ids = append(ids, t.ID)
		}
		if found.Next != "" {
			page.NextCursor = threadCursor + found.Next
		}
	}
	for _, id := range ids {
		list, err := of.Artifacts(ctx, id)
		switch {
		case host.CodeOf(err) == host.NotFound: // it was deleted meanwhile
			continue
		case err != nil:
			return nil, e.protocolError(err)
		}
		for _, info := range list {
			page.Resources = append(page.Resources, &mcp.Resource{URI: artifactURI(id, cmp.Or(info.Content, info.Digest)), Name: nameOf(info.Name), Description: "An artifact of the thread " + id + ".", Size: int64(info.Size)})
		}
	}
	return page, nil
}
