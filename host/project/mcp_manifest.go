package project

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/plugin"
)

// addManifest adds the resources and prompts that the manifest of a plugin has.
func (c *mcpCatalog) addManifest(o *mcpserver.Offers, p parts) error {
	m := manifestOf(p)
	if m == nil {
		return nil
	}
	tool := func(name string) (*host.Tool, error) {
		if name == "" {
			return nil, nil
		}
		t, err := p.Tool(name, c.project.plugins.naming(p.ID())) // its approvals are of the name that agents use
		if err != nil {
			return nil, err
		}
		list, err := c.project.builder.withOptions([]*host.Tool{t})
		if err != nil {
			return nil, err
		}
		return list[0], nil
	}
	for i := range m.Resources {
		t, err := tool(m.Resources[i].Tool)
		if host.CodeOf(err) == host.FailedPrecondition { // the plugin is unloaded
			return nil
		}
		if err != nil {
			return err
		}
		o.Resources = append(o.Resources, resourceOf(&m.Resources[i], t))
	}
	for i := range m.Prompts {
		t, err := tool(m.Prompts[i].Tool)
		if host.CodeOf(err) == host.FailedPrecondition {
			return nil
		}
		if err != nil {
			return err
		}
		o.Prompts = append(o.Prompts, promptOf(&m.Prompts[i], t))
	}
	return nil
}

// resourceOf returns a resource of a manifest, which a tool reads; nil is its text.
func resourceOf(r *plugin.ResourceInfo, tool *host.Tool) mcpserver.Resource {
	out := mcpserver.Resource{URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MediaType: r.MediaType, Tool: tool}
	if tool == nil {
		out.Read = func(context.Context, mcpserver.Caller, string) ([]host.Part, error) {
			if r.MediaType != "" {
				return []host.Part{&chat.Media{MediaType: r.MediaType, Data: []byte(r.Text)}}, nil
			}
			return []host.Part{&chat.Text{Text: r.Text}}, nil
		}
	}
	return out
}

// promptOf returns a prompt of a manifest, which a tool writes; nil is its text.
func promptOf(p *plugin.PromptInfo, tool *host.Tool) mcpserver.Prompt {
	out := mcpserver.Prompt{Name: p.Name, Title: p.Title, Description: p.Description, Tool: tool}
	for _, a := range p.Arguments {
		out.Arguments = append(out.Arguments, mcpserver.Argument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	if tool == nil {
		out.Messages = func(_ context.Context, _ mcpserver.Caller, arguments map[string]string) ([]*host.Message, error) {
			return []*host.Message{host.UserText(p.Fill(arguments))}, nil
		}
	}
	return out
}
