package mcpclient

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of resources.
const (
	maxURI       = 2 << 10
	maxResources = 200 // of a list that a model reads
)

// Resource is an entry of a server's list of resources.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	MediaType   string `json:"media_type,omitempty"`
}

// Resources returns the resources of a server that a tenant has, at most 200 of them.
func (s *Servers) Resources(ctx context.Context, tenant, server string) ([]Resource, error) {
	l, err := s.link(tenant, server)
	if err != nil {
		return nil, err
	}
	return l.resources(ctx)
}

func (l *link) resources(ctx context.Context) ([]Resource, error) {
	var list []Resource
	err := l.use(ctx, func(ctx context.Context, s *session) error {
		return eachPage(ctx, l, func(ctx context.Context, cursor string) (string, error) {
			page, err := s.cs.ListResources(ctx, &mcp.ListResourcesParams{Cursor: cursor})
			if err != nil {
				return "", err
			}
			for _, r := range page.Resources {
				if r == nil || len(list) == maxResources {
					continue
				}
				list = append(list, Resource{URI: plainLine(r.URI, maxURI), Name: plainLine(r.Name, maxOwnName),
					Description: plainLine(r.Description, maxReportText), MediaType: plainLine(r.MIMEType, maxOwnName)})
			}
			if len(list) == maxResources {
				return "", nil
			}
			return page.NextCursor, nil
		})
	})
	return list, err
}

// use runs a function with the session, in the time of one call. Its error is a sentence for
// a model.
func (l *link) use(ctx context.Context, fn func(ctx context.Context, s *session) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.server.Timeout)
	defer cancel()
	s, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer l.release(s)
	done := make(chan error, 1)
	go func() { done <- guarded(func() error { return fn(ctx, s) }) }() // ends with the session at the latest
	select {
	case err := <-done:
		if err != nil {
			return s.callError(ctx, err)
		}
		return nil
	case <-ctx.Done():
		return fault.ContextError(ctx)
	}
}

// ReadResource returns the texts of a resource, in the order of its parts. Parts that are no
// text are left out.
func (s *Servers) ReadResource(ctx context.Context, tenant, server, uri string) ([]string, error) {
	l, err := s.link(tenant, server)
	if err != nil {
		return nil, err
	}
	parts, err := l.readResource(ctx, uri)
	var texts []string
	for _, p := range parts {
		if p != nil && len(p.Blob) == 0 {
			texts = append(texts, p.Text)
		}
	}
	return texts, err
}

func (l *link) readResource(ctx context.Context, uri string) ([]*mcp.ResourceContents, error) {
	if uri == "" || len(uri) > maxURI {
		return nil, fault.Errorf(fault.InvalidArgument, "The URI of a resource has 1 to %d bytes.", maxURI)
	}
	var result *mcp.ReadResourceResult
	err := l.use(ctx, func(ctx context.Context, s *session) (err error) {
		result, err = s.cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(result.Contents) > maxParts:
		return nil, fault.Errorf(fault.ResourceExhausted, "The resource has %d parts, more than %d.", len(result.Contents), maxParts)
	}
	return result.Contents, nil
}

// readResource returns the text of a part of a resource; one that is no text becomes an
// artifact.
func readResource(call *host.Call, server *Server, r *mcp.ResourceContents) (string, error) {
	if r == nil {
		return "", nil
	}
	if len(r.Blob) > 0 {
		return addMedia(call, server, mediaOf(r.MIMEType, r.Blob))
	}
	return r.Text, nil
}

// resourceTools returns the tools that list and read resources.
func (l *link) resourceTools() ([]*host.Tool, error) {
	from := " of the MCP server " + l.server.Name + "."
	list := host.NewTool(l.server.toolName("list_resources"), "Lists the resources"+from,
		func(ctx context.Context, _ *host.Call, _ struct{}) ([]Resource, error) { return l.resources(ctx) },
		&host.ToolOptions{ReadOnly: true, Timeout: l.server.Timeout})
	read := host.NewTool(l.server.toolName("read_resource"), "Reads a resource"+from,
		func(ctx context.Context, call *host.Call, in struct {
			URI string `json:"uri" description:"as in the list of resources"`
		}) (*host.ToolOutput, error) {
			parts, err := l.readResource(ctx, in.URI)
			if err != nil {
				return nil, err
			}
			var texts []string
			for _, p := range parts {
				text, err := readResource(call, l.server, p)
				if err != nil {
					return nil, err
				}
				texts = append(texts, text)
			}
			raw, err := json.Marshal(strings.Join(texts, "\n"))
			return &host.ToolOutput{Content: raw}, err
		}, &host.ToolOptions{ReadOnly: true, Timeout: l.server.Timeout})
	return []*host.Tool{list, read}, nil
}
