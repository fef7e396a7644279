package project

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// agent returns a configured agent, made at the first request: on its own account, or
// for an agent that has it as a tool. path lists the agents that lead to it.
func (b *builder) agent(name string, path []string) (*host.Agent, error) {
	if agent := b.agents[name]; agent != nil {
		return agent, nil
	}
	agent, err := b.makeAgent(name, b.config.Agents[name], append(slices.Clone(path), name))
	if err != nil {
		return nil, b.config.Wrap(err, configfile.Keys("agents", name))
	}
	b.agents[name] = agent
	return agent, nil
}

func (b *builder) makeAgent(name string, ac configfile.Agent, path []string) (*host.Agent, error) {
	opts := &host.AgentOptions{
		Description: ac.Description, MaxRounds: ac.MaxRounds, OnMaxRounds: host.OnMaxRounds(ac.OnMaxRounds), Temperature: ac.Temperature, Prefill: ac.Prefill,
		MaxOutputTokens: ac.MaxTokens, ToolChoice: host.ToolChoice(ac.ToolChoice), SerialTools: ac.SerialTools, JoinResults: ac.JoinResults,
	}
	at := configfile.Keys("agents", name)
	var err error
	if opts.Model, err = b.models.find(at.To("model"), ac.Model); err != nil {
		return nil, err
	}
	if strings.Contains(ac.Instructions, "{{") {
		if opts.InstructionsFunc, err = host.TemplateInstructions(ac.Instructions); err != nil {
			return nil, b.config.Wrap(err, at.To("instructions"))
		}
	} else {
		opts.Instructions = ac.Instructions
	}
	if opts.Tools, err = b.toolsOfAgent(at, ac, path); err != nil {
		return nil, err
	}
	if opts.Processors, err = b.processors(at.To("processors"), ac.Processors); err != nil {
		return nil, err
	}
	if opts.Providers, err = b.providers(at.To("providers"), ac.Providers, opts.Tools); err != nil {
		return nil, err
	}
	own, err := b.uploaded(at.To("tools"), ac.Tools)
	if err != nil {
		return nil, err
	}
	if own != nil {
		opts.Providers = append(opts.Providers, own)
	}
	foreign, err := b.serverTools(at.To("tools"), ac.Tools)
	if err != nil {
		return nil, err
	}
	if foreign != nil {
		opts.Providers = append(opts.Providers, foreign)
	}
	if opts.ProviderTools, err = b.providerTools(at.To("provider_tools"), ac.ProviderTools); err != nil {
		return nil, err
	}
	if opts.ModelParameters, err = b.modelParameters(at.To("model_parameters"), ac.Parameters); err != nil {
		return nil, err
	}
	opts.Messages = b.messages.byAgent[name]
	if opts.Output, err = compileSchema(b.config, at.To("output"), ac.Output); err != nil {
		return nil, err
	}
	if opts.StopWhen, err = b.stopAfter(at.To("stop_after"), ac.StopAfter, opts); err != nil {
		return nil, err
	}
	return host.NewAgent(name, opts)
}

// modelParameters returns the parameters of an agent's model requests beyond the host's
// own options; nil for none.
func (b *builder) modelParameters(at configfile.KeyPath, v any) (map[string]any, error) {
	raw, err := toJSON(b.config, at, v)
	if raw == nil || err != nil {
		return nil, err
	}
	var parameters map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parameters); err != nil {
		return nil, b.config.ErrorAt(at, "model_parameters is no map").WithHint("write members with values, such as {top_p: 0.9, seed: 7}")
	}
	out := make(map[string]any, len(parameters))
	for name, value := range parameters {
		out[name] = value
	}
	return out, nil
}

// toolsOfAgent returns the tools of plugins, the agents that are tools, and the tool that runs
// code against these.
func (b *builder) toolsOfAgent(at configfile.KeyPath, ac configfile.Agent, path []string) ([]*host.Tool, error) {
	tools, err := b.tools(at.To("tools"), ac.Tools)
	if err != nil {
		return nil, err
	}
	for i, name := range ac.Agents {
		at := at.To("agents")
		if _, known := b.config.Agents[name]; !known {
			return nil, b.config.Unknown(at.To(i), "agent", name, slices.Sorted(maps.Keys(b.config.Agents)))
		}
		if slices.Contains(path, name) {
			return nil, b.config.ErrorAt(at.To(i), "agent %q would be a tool of itself: %s → %s", name, strings.Join(path, " → "), name).
				WithHint("use a network, where a router says who is next")
		}
		agent, err := b.agent(name, path)
		if err != nil {
			return nil, err
		}
		tool, err := host.NewAgentTool(agent, nil)
		if err != nil {
			return nil, b.config.Wrap(err, at.To(i))
		}
		tools = append(tools, tool)
	}
	if tools, err = b.code.tools(at.To("tools"), ac, tools); err != nil {
		return nil, err
	}
	return b.withOptions(tools)
}

// providerTools returns the tools that the models' providers run.
func (b *builder) providerTools(at configfile.KeyPath, list []configfile.ProviderTool) ([]host.ProviderTool, error) {
	var tools []host.ProviderTool
	for i, c := range list {
		if !slices.Contains(configfile.ToolProviderNames(), c.Provider) {
			return nil, b.config.Unknown(at.To(i).To("provider"), "provider", c.Provider, configfile.ToolProviderNames())
		}
		raw, err := toJSON(b.config, at.To(i).To("tool"), c.Tool)
		if err != nil {
			return nil, err
		}
		tools = append(tools, host.ProviderTool{Provider: c.Provider, Declaration: raw})
	}
	return tools, nil
}

// stopAfter returns the condition that one of the named tools has answered; nil without
// names.
func (b *builder) stopAfter(at configfile.KeyPath, names []string, opts *host.AgentOptions) (func(context.Context, *host.Result) (bool, error), error) {
	if len(names) == 0 {
		return nil, nil
	}
	var known []string
	for _, t := range opts.Tools {
		known = append(known, t.Name)
	}
	for i, name := range names {
		if !slices.Contains(known, name) && len(opts.Providers) == 0 { // a provider may add tools
			return nil, b.config.Unknown(at.To(i), "tool", name, known)
		}
	}
	return host.StopAfterTool(names...), nil
}
