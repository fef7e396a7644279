package abi

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
	"github.com/agenthost/agenthost/host/plugin/permission"
)

// maxHealthCalls bounds the health calls of a manifest.
const maxHealthCalls = 16

// MaxParts bounds the tools of a manifest, and its processors, routers and
// providers each: every one has schemas to compile, and models read them.
const MaxParts = 1000

// MaxManifestBytes bounds a manifest: the section, or the answer of describe.
const MaxManifestBytes = 1 << 20

// Manifest is a plugin's description of itself: the parts that it offers and the
// permissions that it asks for. Its name is for people; a plugin is known by the id
// under which the operator loaded it.
type Manifest struct {
	ABI         int             `json:"abi"`
	Name        string          `json:"name"`
	Version     string          `json:"version,omitempty"`
	Description string          `json:"description,omitempty"`
	Tools       []ToolInfo      `json:"tools,omitempty"`
	Processors  []ProcessorInfo `json:"processors,omitempty"`
	Routers     []PartInfo      `json:"routers,omitempty"`
	Providers   []PartInfo      `json:"providers,omitempty"`
	Resources   []ResourceInfo  `json:"resources,omitempty"`
	Prompts     []PromptInfo    `json:"prompts,omitempty"`
	Permissions permission.Set  `json:"permissions,omitzero"`
	Requires    []string        `json:"requires,omitempty"` // operations it cannot live without
	Health      []HealthCall    `json:"health,omitempty"`   // calls that must succeed before it replaces another version

	raw json.RawMessage
}

// JSON returns the manifest as the plugin wrote it.
func (m *Manifest) JSON() json.RawMessage { return m.raw }

// Complete makes a manifest that the host has written as if the plugin had: JSON returns
// its fields. It returns the first of its problems.
func (m *Manifest) Complete() (err error) {
	if m.raw, err = json.Marshal(m); err != nil {
		return refusal.Invalid("manifest: %w", err)
	}
	return refusal.First(m.Problems())
}

// ToolInfo is a tool in a manifest.
type ToolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	Export      string          `json:"export,omitempty"` // of an Extism plugin: the function that is the tool
	Annotations struct {
		ReadOnly      bool `json:"read_only,omitempty"`
		Destructive   bool `json:"destructive,omitempty"`
		Idempotent    bool `json:"idempotent,omitempty"`
		NeedsApproval bool `json:"needs_approval,omitempty"`
	} `json:"annotations,omitzero"`
}

// textParameters is the schema of a tool that takes one text.
const textParameters = `{"type":"object","properties":{"input":{"type":"string","description":"What the function is given."}},"required":["input"],"additionalProperties":false}`

// Spec returns the description of a tool for a model. A function of an Extism plugin
// without a schema takes one text.
func (info *ToolInfo) Spec() llm.ToolSpec {
	spec := llm.ToolSpec{Name: info.Name, Description: info.Description, Parameters: info.Parameters}
	if info.Export != "" && len(spec.Parameters) == 0 {
		spec.Parameters = json.RawMessage(textParameters)
	}
	return spec
}

// ProcessorInfo is a processor in a manifest.
type ProcessorInfo struct {
	Name   string          `json:"name"`
	Input  string          `json:"input,omitempty"` // messages (default) or outline
	Tokens *TokensInfo     `json:"tokens,omitempty"`
	Config json.RawMessage `json:"config,omitempty"` // JSON Schema
}

// HealthCall is a call that must succeed.
type HealthCall struct {
	Export string          `json:"export"` // tool, process, route, provide or observe
	Input  json.RawMessage `json:"input"`
}

// TokensInfo says in which encoding a processor wants its outline's tokens:
// one, the one that a key of its configuration names, or the model's.
type TokensInfo struct {
	Encoding  string `json:"encoding,omitempty"`
	ConfigKey string `json:"config_key,omitempty"`
	Model     bool   `json:"model,omitempty"`
}

func (t *TokensInfo) chosen() bool {
	n := 0
	for _, set := range []bool{t.Encoding != "", t.ConfigKey != "", t.Model} {
		if set {
			n++
		}
	}
	return n == 1
}

// PartInfo is a router or provider in a manifest.
type PartInfo struct {
	Name    string          `json:"name"`
	Config  json.RawMessage `json:"config,omitempty"`
	Observe *bool           `json:"observe,omitempty"` // false: a provider that does not observe runs
}

// ReadManifest reads a manifest. Unknown fields are kept; a wrong shape, a
// missing or unknown abi, a name given twice and an operation this host does
// not have are errors.
func ReadManifest(raw []byte) (*Manifest, error) {
	m, err := DecodeManifest(raw)
	if err != nil {
		return nil, err
	}
	if err := refusal.First(m.Problems()); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeManifest reads a manifest that may have problems.
func DecodeManifest(raw []byte) (*Manifest, error) {
	if len(raw) > MaxManifestBytes {
		return nil, refusal.Invalid("manifest is %d bytes, more than %d", len(raw), MaxManifestBytes)
	}
	m := &Manifest{raw: bytes.Clone(raw)}
	if err := jsondoc.Unmarshal(raw, m); err != nil {
		return nil, refusal.Invalid("manifest: %w", err).WithHint("see pdk/ABI.md for what it looks like")
	}
	return m, nil
}

// Problems lists why a manifest cannot be used.
func (m *Manifest) Problems() (list []error) {
	switch {
	case m.ABI == 0:
		list = append(list, refusal.Invalid("manifest has no abi").WithHint("it must say \"abi\":%d", Version))
	case m.ABI != Version:
		list = append(list, refusal.Unsupported("manifest says abi %d; this host speaks %d", m.ABI, Version).
			WithHint("update the host, or build the plugin for version %d", Version))
	}
	if strings.TrimSpace(m.Name) == "" {
		list = append(list, refusal.Invalid("manifest has no name"))
	}
	list = append(list, m.nameProblems()...)
	list = append(list, m.resourceProblems()...)
	list = append(list, m.promptProblems()...)
	if err := m.Permissions.Check(); err != nil {
		list = append(list, refusal.Invalid("manifest: %w", err))
	}
	list = append(list, m.healthProblems()...)
	return append(list, m.MissingOperations(permission.ValidOperation)...)
}

// MissingOperations lists the operations that the plugin cannot live without and that are
// neither of the contract nor, as has says, the embedder's. [Manifest.Problems] takes every
// name that an embedder's operation may have.
func (m *Manifest) MissingOperations(has func(op string) bool) (list []error) {
	for _, op := range m.Requires {
		if slices.Contains(Operations(), op) || has(op) {
			continue
		}
		err := refusal.Unsupported("plugin needs the operation %q, which this host does not have", guesttext.Clean(op))
		if permission.ValidOperation(op) {
			list = append(list, err.WithHint("update the host, or add the operation to the option Operations of the runtime"))
			continue
		}
		list = append(list, err.WithHint("update the host"))
	}
	return list
}

func (m *Manifest) healthProblems() (list []error) {
	if len(m.Health) > maxHealthCalls {
		list = append(list, refusal.Invalid("manifest declares %d health calls, more than %d", len(m.Health), maxHealthCalls))
	}
	for _, c := range m.Health {
		if e, ok := ExportNamed(c.Export); !ok || e == Describe {
			list = append(list, refusal.Invalid("manifest: health call of %q", guesttext.Clean(c.Export)).WithHint("use tool, process, route, provide or observe"))
		}
	}
	return list
}

var toolName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

// ValidToolName reports whether every model provider takes a name of a tool.
func ValidToolName(name string) bool { return toolName().MatchString(name) }

func (m *Manifest) nameProblems() (list []error) {
	for _, t := range m.Tools {
		if t.Name != "" && !ValidToolName(t.Name) {
			list = append(list, refusal.Invalid("manifest: tool name %q is not of 1 to 64 letters, digits, _ and -", guesttext.Clean(t.Name)))
		}
	}
	for _, p := range m.Processors {
		if p.Tokens != nil && !p.Tokens.chosen() {
			list = append(list, refusal.Invalid("manifest: tokens of processor %q needs exactly one of encoding, config_key and model", guesttext.Clean(p.Name)))
		}
		if p.Input != "" && p.Input != "messages" && p.Input != "outline" {
			list = append(list, refusal.Invalid("manifest: input of processor %q is %q, not messages or outline", guesttext.Clean(p.Name), guesttext.Clean(p.Input)))
		}
	}
	for _, kind := range []struct {
		name  string
		names []string
	}{
		{"tool", names(m.Tools, func(t ToolInfo) string { return t.Name })},
		{"processor", names(m.Processors, func(p ProcessorInfo) string { return p.Name })},
		{"router", names(m.Routers, func(r PartInfo) string { return r.Name })},
		{"provider", names(m.Providers, func(p PartInfo) string { return p.Name })},
	} {
		if len(kind.names) > MaxParts {
			list = append(list, refusal.Invalid("manifest has %d %ss, more than %d", len(kind.names), kind.name, MaxParts).
				WithHint("make several plugins of it"))
		}
		slices.Sort(kind.names)
		for i, n := range kind.names {
			if n == "" || i > 0 && kind.names[i-1] == n {
				list = append(list, refusal.Invalid("manifest: %s name %q is empty or given twice", kind.name, guesttext.Clean(n)))
			}
		}
	}
	return list
}

// Needs returns the exports that call the parts of the manifest.
func (m *Manifest) Needs() []Export {
	var need []Export
	if slices.ContainsFunc(m.Tools, func(t ToolInfo) bool { return t.Export == "" }) {
		need = append(need, Tool)
	}
	if len(m.Processors) > 0 {
		need = append(need, Process)
	}
	if len(m.Routers) > 0 {
		need = append(need, Route)
	}
	if len(m.Providers) > 0 {
		need = append(need, Provide)
	}
	if slices.ContainsFunc(m.Providers, func(p PartInfo) bool { return p.Observe != nil && *p.Observe }) {
		need = append(need, Observe)
	}
	return need
}

// Tool returns the tool of a name; nil if the plugin does not have it.
func (m *Manifest) Tool(name string) *ToolInfo {
	for i := range m.Tools {
		if m.Tools[i].Name == name {
			return &m.Tools[i]
		}
	}
	return nil
}

// Processor returns the processor of a name; "" is the only one. nil if the plugin does
// not have it.
func (m *Manifest) Processor(name string) *ProcessorInfo {
	if name == "" && len(m.Processors) == 1 {
		return &m.Processors[0]
	}
	for i := range m.Processors {
		if m.Processors[i].Name == name {
			return &m.Processors[i]
		}
	}
	return nil
}

func names[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = name(v)
	}
	return out
}
