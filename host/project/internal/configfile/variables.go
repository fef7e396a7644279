package configfile

import (
	"maps"
	"slices"
)

// checkVariables checks that the keys for environment variables hold names of
// variables. A key or an address written there by mistake is a secret, which later
// errors would quote; this error does not.
func (c *Config) checkVariables() error {
	check := func(at KeyPath, name, example string) error {
		if name == "" || isVariable(name) {
			return nil
		}
		return c.ErrorAt(at, "this is not the name of an environment variable").
			WithHint("write the name of the variable, such as %s, and set that to the value", example)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		if err := check(Keys("models", name, "key_env"), c.Models[name].KeyEnv, "OPENAI_API_KEY"); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Memory)) {
		if err := check(Keys("memory", name, "key_env"), c.Memory[name].KeyEnv, Mem0KeyVariable); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if mc := c.Agents[name].Messages; mc != nil {
			if err := check(Keys("agents", name, "messages", "address_env"), mc.AddressEnv, "REDIS_URL"); err != nil {
				return err
			}
		}
	}
	return nil
}

// isVariable reports whether a shell can set a variable of that name: letters,
// digits and underscores, and no digit first.
func isVariable(name string) bool {
	for i, r := range name {
		switch {
		case r == '_', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		case i > 0 && '0' <= r && r <= '9':
		default:
			return false
		}
	}
	return name != ""
}
