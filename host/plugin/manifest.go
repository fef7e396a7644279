package plugin

import (
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// ABIVersion is the version of the JSON contract that this host speaks.
const ABIVersion = abi.Version

// GuestError is an error that a plugin returned, as opposed to one it ran into; Plugin is
// its id. Error returns the plugin's own words, Unwrap a [*host.Error].
type GuestError = abi.GuestError

// Manifest is a plugin's description of itself: ABI, Name (for people; a plugin is known
// by the id under which the operator loaded it), Version, Description, the parts that it
// offers (Tools, Processors, Routers, Providers, Resources, Prompts), the Permissions that it asks for, the
// operations that it Requires, and the Health calls that must succeed before it replaces
// another version. JSON returns it as the plugin wrote it.
type Manifest = abi.Manifest

// ToolInfo is a tool in a manifest: Name, Description, JSON Schemas of Parameters and
// Result, Export (of an Extism plugin: the function that is the tool) and Annotations
// (ReadOnly, Destructive, Idempotent, NeedsApproval).
type ToolInfo = abi.ToolInfo

// ResourceInfo is a resource in a manifest: URI, Name, and a Text or the Tool that reads it.
type ResourceInfo = abi.ResourceInfo

// PromptInfo is a prompt in a manifest: Name, Arguments, and a Text, which Fill fills in, or
// the Tool that writes it.
type PromptInfo = abi.PromptInfo

// ProcessorInfo is a processor in a manifest: Name, Input (messages, the default, or
// outline), Tokens of its outline, and the JSON Schema of its Config.
type ProcessorInfo = abi.ProcessorInfo

// TokensInfo says in which encoding a processor wants its outline's tokens: one
// (Encoding), the one that a key of its configuration names (ConfigKey), or the Model's.
type TokensInfo = abi.TokensInfo

// PartInfo is a router or provider in a manifest: Name, the JSON Schema of its Config,
// and Observe, which is false for a provider that does not observe runs.
type PartInfo = abi.PartInfo

// HealthCall is a call that must succeed: an Export (tool, process, route, provide or
// observe) with an Input.
type HealthCall = abi.HealthCall

// notOffered is the error for a part that a plugin does not have.
func notOffered(id, kind, name string, have []string) error {
	if name == "" && len(have) == 0 {
		return host.Errorf(host.NotFound, "plugin %q has no %s", id, kind).WithHint("name a plugin that offers one")
	}
	if name == "" {
		return host.Errorf(host.NotFound, "plugin %q has more than one %s", id, kind).WithHint("name one of: %s", strings.Join(have, ", "))
	}
	return host.Errorf(host.NotFound, "plugin %q has no %s %q", id, kind, name).
		WithHint("%s", offered(kind, have))
}

func offered(kind string, have []string) string {
	if len(have) == 0 {
		return fmt.Sprintf("it offers no %s", kind)
	}
	return fmt.Sprintf("it offers: %s", strings.Join(have, ", "))
}
