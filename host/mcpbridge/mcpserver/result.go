package mcpserver

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/runs"
)

// result returns the result of a run that has ended.
func (c *call) result(o *outcome) *mcp.CallToolResult {
	r := &mcp.CallToolResult{Meta: mcp.Meta{metaRun: o.run.ID}}
	if c.tool != nil {
		c.resultOfTool(r, o)
		return r
	}
	answer := struct {
		Text   string `json:"text"`
		Thread string `json:"thread,omitempty"`
	}{o.text, ""}
	if c.endpoint.owner.opts.Threads != nil && o.run.Thread != "" {
		answer.Thread, r.Meta[metaThread] = o.run.Thread, o.run.Thread
	}
	r.StructuredContent = answer
	r.Content = []mcp.Content{&mcp.TextContent{Text: o.text}}
	c.addArtifacts(r, o)
	return r
}

// resultOfTool gives a result the content of a tool's.
func (c *call) resultOfTool(r *mcp.CallToolResult, o *outcome) {
	if o.result == nil {
		*r = *c.failed(host.Errorf(host.Internal, "the run of tool %q has no result", c.tool.Name), o.run.ID)
		return
	}
	content := o.result.Content
	if r.IsError = o.result.IsError; !r.IsError && bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		r.StructuredContent = content
	}
	text := string(content)
	if plain, isText := jsondoc.Unquote(content); isText {
		text = plain
	}
	r.Content = []mcp.Content{&mcp.TextContent{Text: text}}
	for _, m := range o.result.Media {
		r.Content = append(r.Content, contentOfMedia(c.tool.Name, m))
	}
	for i := range o.artifacts {
		r.Content = append(r.Content, contentOf(&o.artifacts[i])...)
	}
}

// addArtifacts gives the result of a target links to what the run has made, which clients
// read as resources.
func (c *call) addArtifacts(r *mcp.CallToolResult, o *outcome) {
	for i := range o.artifacts {
		a := &o.artifacts[i]
		if !c.endpoint.offersArtifacts() || o.run.Thread == "" {
			r.Content = append(r.Content, contentOf(a)...)
			continue
		}
		r.Content = append(r.Content, &mcp.ResourceLink{URI: artifactURI(o.run.Thread, a.Digest()), Name: nameOf(a.Name), MIMEType: mediaTypeOf(a)})
	}
}

// contentOf returns the parts of an artifact as content of a result.
func contentOf(a *chat.Artifact) (list []mcp.Content) {
	for _, p := range a.Parts {
		switch p := p.(type) {
		case *chat.Text:
			list = append(list, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "artifact:" + FitName(nameOf(a.Name)), MIMEType: "text/plain", Text: p.Text}})
		case *chat.Data:
			list = append(list, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "artifact:" + FitName(nameOf(a.Name)), MIMEType: "application/json", Text: string(p.Value)}})
		case *chat.Media:
			list = append(list, contentOfMedia(a.Name, p))
		}
	}
	return list
}

func contentOfMedia(name string, p *chat.Media) mcp.Content {
	kind, _, _ := strings.Cut(p.MediaType, "/")
	switch {
	case len(p.Data) == 0 && p.URL != "":
		return &mcp.ResourceLink{URI: p.URL, Name: nameOf(name), MIMEType: p.MediaType}
	case kind == "image":
		return &mcp.ImageContent{Data: p.Data, MIMEType: p.MediaType}
	case kind == "audio":
		return &mcp.AudioContent{Data: p.Data, MIMEType: p.MediaType}
	}
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "artifact:" + FitName(nameOf(name)), MIMEType: p.MediaType, Blob: p.Data}}
}

func nameOf(name string) string {
	if name == "" {
		return "artifact"
	}
	return name
}

// mediaTypeOf returns the media type of an artifact of one part; "" of any other.
func mediaTypeOf(a *chat.Artifact) string {
	if len(a.Parts) != 1 {
		return ""
	}
	switch p := a.Parts[0].(type) {
	case *chat.Text:
		return "text/plain"
	case *chat.Data:
		return "application/json"
	case *chat.Media:
		return p.MediaType
	}
	return ""
}

// decodeArguments reads the arguments of a target strictly.
func decodeArguments(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return host.Errorf(host.InvalidArgument, "the arguments do not fit the schema of the tool")
	}
	return nil
}

// runOf returns a run of which only the id is known.
func runOf(tenant, id string) *runs.Run { return &runs.Run{Tenant: tenant, ID: id} }
