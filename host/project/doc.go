// Package project turns an agenthost.yaml into a running host: its models, sandboxed
// plugins, agents, networks, memories, the data directory, the queue and the rest.
// [Load] reads, checks and wires a project, [Project.Close] ends it, and a [Reloader]
// replaces plugins, grants, tenants, prices and MCP servers while it serves. It reads no flags and prints
// nothing: an embedding program and the command use the same code.
//
//	p, err := project.Load(ctx, "shop", nil)
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	result, err := p.Run(ctx, &host.Request{Text: "where is order 1042?"})
//
// Errors in the configuration have code invalid_argument, the file with line and
// column, and a suggestion.
package project
