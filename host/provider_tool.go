package host

// checkProviderTools refuses declarations that no provider could tell apart.
func (a *Agent) checkProviderTools() error {
	for _, t := range a.opts.ProviderTools {
		if err := t.Check(); err != nil {
			return wrapError(err, "agent %q", a.name)
		}
		if name := t.Name(); a.set.byName[name] != nil {
			return Errorf(InvalidArgument, "agent %q: two tools are named %q, one of them the provider's", a.name, name)
		}
	}
	return nil
}

// hasProviderTool reports whether the tool choice c is a provider's tool.
func (a *Agent) hasProviderTool(c ToolChoice) bool {
	for _, t := range a.opts.ProviderTools {
		if c == ToolChoiceAny || t.Name() == string(c) {
			return true
		}
	}
	return false
}
