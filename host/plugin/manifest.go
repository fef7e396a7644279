package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/strictjson"
)

// ABIVersion is the version of the JSON contract that this host speaks.
const ABIVersion = 1

// maxHealthCalls bounds the health calls of a manifest.
const maxHealthCalls = 16

// maxManifestParts bounds the tools of a manifest, and its processors, routers and
// providers each: every one has schemas to compile, and models read them.
const maxManifestParts = 1000

// maxManifestBytes bounds a manifest: the section, or the answer of describe.
const maxManifestBytes = 1 << 20

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
	Permissions Permissions     `json:"permissions,omitzero"`
	Requires    []string        `json:"requires,omitempty"` // operations it cannot live without
	Health      []HealthCall    `json:"health,omitempty"`   // calls that must succeed before it replaces another version

	raw json.RawMessage
}

// JSON returns the manifest as the plugin wrote it.
func (m *Manifest) JSON() json.RawMessage { return m.raw }

// ToolInfo is a tool in a manifest.
type ToolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	Export      string          `json:"export,omitempty"` // of an Extism plugin: the function that is the tool
	Annotations struct {
		ReadOnly      bool `json:"read_only,omitempty"`
		Idempotent    bool `json:"idempotent,omitempty"`
		NeedsApproval bool `json:"needs_approval,omitempty"`
	} `json:"annotations,omitzero"`
}

// ProcessorInfo is a processor in a manifest.
type ProcessorInfo struct {
	Name   string          `json:"name"`
	Input  string          `json:"input,omitempty"` // messages (default) or outline
	Tokens *TokensInfo     `json:"tokens,omitempty"`
	Config json.RawMessage `json:"config,omitempty"` // JSON Schema
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
	Observe *bool           `json:"observe,omitempty"` // false: a provider that is not told how runs went
}

// readManifest reads a manifest. Unknown fields are kept; a wrong shape, a
// missing or unknown abi, a name given twice and an operation this host does
// not have are errors.
func readManifest(raw []byte) (*Manifest, error) {
	m, err := decodeManifest(raw)
	if err != nil {
		return nil, err
	}
	if err := first(m.problems()); err != nil {
		return nil, err
	}
	return m, nil
}

func decodeManifest(raw []byte) (*Manifest, error) {
	if len(raw) > maxManifestBytes {
		return nil, refuse("manifest is %d bytes, more than %d", len(raw), maxManifestBytes)
	}
	m := &Manifest{raw: bytes.Clone(raw)}
	if err := strictjson.Unmarshal(raw, m); err != nil {
		return nil, refuse("manifest: %w", err).WithHint("see pdk/ABI.md for what it looks like")
	}
	return m, nil
}

// problems lists why a manifest cannot be used.
func (m *Manifest) problems() (list []error) {
	switch {
	case m.ABI == 0:
		list = append(list, refuse("manifest has no abi").WithHint("it must say \"abi\":%d", ABIVersion))
	case m.ABI != ABIVersion:
		list = append(list, unsupported("manifest says abi %d; this host speaks %d", m.ABI, ABIVersion).
			WithHint("update the host, or build the plugin for version %d", ABIVersion))
	}
	if strings.TrimSpace(m.Name) == "" {
		list = append(list, refuse("manifest has no name"))
	}
	list = append(list, m.nameProblems()...)
	if err := m.Permissions.Check(); err != nil {
		list = append(list, refuse("manifest: %w", err))
	}
	list = append(list, m.healthProblems()...)
	for _, op := range m.Requires {
		if !slices.Contains(Operations(), op) {
			list = append(list, unsupported("plugin needs the operation %q, which this host does not have", clean(op)).WithHint("update the host"))
		}
	}
	return list
}

func (m *Manifest) healthProblems() (list []error) {
	if len(m.Health) > maxHealthCalls {
		list = append(list, refuse("manifest declares %d health calls, more than %d", len(m.Health), maxHealthCalls))
	}
	for _, c := range m.Health {
		if e := slices.Index(exportNames[exportTool:], exportPrefix+c.Export); e < 0 {
			list = append(list, refuse("manifest: health call of %q", clean(c.Export)).WithHint("use tool, process, route, provide or observe"))
		}
	}
	return list
}

// toolName matches the tool names that every model provider takes.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (m *Manifest) nameProblems() (list []error) {
	for _, t := range m.Tools {
		if t.Name != "" && !toolName.MatchString(t.Name) {
			list = append(list, refuse("manifest: tool name %q is not of 1 to 64 letters, digits, _ and -", clean(t.Name)))
		}
	}
	for _, p := range m.Processors {
		if p.Tokens != nil && !p.Tokens.chosen() {
			list = append(list, refuse("manifest: tokens of processor %q needs exactly one of encoding, config_key and model", clean(p.Name)))
		}
		if p.Input != "" && p.Input != "messages" && p.Input != "outline" {
			list = append(list, refuse("manifest: input of processor %q is %q, not messages or outline", clean(p.Name), clean(p.Input)))
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
		if len(kind.names) > maxManifestParts {
			list = append(list, refuse("manifest has %d %ss, more than %d", len(kind.names), kind.name, maxManifestParts).
				WithHint("make several plugins of it"))
		}
		slices.Sort(kind.names)
		for i, n := range kind.names {
			if n == "" || i > 0 && kind.names[i-1] == n {
				list = append(list, refuse("manifest: %s name %q is empty or given twice", kind.name, clean(n)))
			}
		}
	}
	return list
}

// needs returns the exports that call the parts of the manifest.
func (m *Manifest) needs() []export {
	var need []export
	if slices.ContainsFunc(m.Tools, func(t ToolInfo) bool { return t.Export == "" }) {
		need = append(need, exportTool)
	}
	if len(m.Processors) > 0 {
		need = append(need, exportProcess)
	}
	if len(m.Routers) > 0 {
		need = append(need, exportRoute)
	}
	if len(m.Providers) > 0 {
		need = append(need, exportProvide)
	}
	if slices.ContainsFunc(m.Providers, func(p PartInfo) bool { return p.Observe != nil && *p.Observe }) {
		need = append(need, exportObserve)
	}
	return need
}

func (m *Manifest) tool(name string) *ToolInfo {
	for i := range m.Tools {
		if m.Tools[i].Name == name {
			return &m.Tools[i]
		}
	}
	return nil
}

// processor returns the processor of a name; "" is the only one.
func (m *Manifest) processor(name string) *ProcessorInfo {
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
