package projectcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
)

// NewConfig returns the command agenthost config.
func NewConfig(t *ui.Terminal) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Look up the keys of a configuration",
		Args:  cli.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(configReference(t))
	return c
}

func configReference(t *ui.Terminal) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "reference [KEY]",
		Short: "Print all keys of " + project.FileName + ", or those of one key",
		Long: `Print all keys of ` + project.FileName + `, with their types and meanings, or one key with
those below it. It is made from the schema (agenthost schema), so it is this program's. NAME
stands for a name of yours, and [] for an element of a list.`,
		Example: "  agenthost config reference agents.NAME.tools\n  agenthost config reference limits",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, list []string) error {
			keys, err := configKeys()
			if err != nil {
				return err
			}
			if len(list) > 0 {
				if keys, err = below(keys, list[0]); err != nil {
					return err
				}
			}
			if asJSON {
				return ui.PrintItems(t.Out, keys)
			}
			return printKeys(t.Out, keys)
		},
		ValidArgsFunction: func(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if keys, err := configKeys(); err == nil && len(list) == 0 {
				for _, k := range keys {
					names = append(names, k.Key)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, cli.JSONUsage)
	return c
}

// configKey is a key of a configuration.
type configKey struct {
	Key      string   `json:"key"` // as in agents.NAME.tools[]
	Type     string   `json:"type"`
	OneOf    []string `json:"one_of,omitempty"`
	Required bool     `json:"required,omitempty"`
	Meaning  string   `json:"meaning,omitempty"`
}

// schemaNode is a schema as [project.Schema] has it.
type schemaNode struct {
	Description string
	Type        json.RawMessage
	Enum        []string
	Pattern     string
	Items       *schemaNode
	Required    []string
	Properties  map[string]*schemaNode
	Additional  json.RawMessage `json:"additionalProperties"` // a schema or false
}

// configKeys returns all keys, each behind the one that it is below.
func configKeys() ([]configKey, error) {
	var root schemaNode
	if err := json.Unmarshal(project.Schema(), &root); err != nil {
		return nil, host.Errorf(host.Internal, "read the schema: %w", err)
	}
	return appendKeys(nil, "", &root), nil
}

func appendKeys(out []configKey, at string, n *schemaNode) []configKey {
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		child := n.Properties[name]
		key := strings.TrimPrefix(at+"."+name, ".")
		out = append(out, configKey{Key: key, Type: child.typeName(), OneOf: child.Enum, Meaning: child.Description, Required: slices.Contains(n.Required, name)})
		out = appendBelow(out, key, child)
	}
	return out
}

// appendBelow adds the keys below a key: its own, those of its members or elements.
func appendBelow(out []configKey, key string, n *schemaNode) []configKey {
	if n.Items != nil {
		return appendBelow(out, key+"[]", n.Items)
	}
	if member := n.member(); member != nil {
		return appendBelow(out, key+".NAME", member)
	}
	return appendKeys(out, key, n)
}

// member returns the schema of the members of a map; nil for everything else.
func (n *schemaNode) member() *schemaNode {
	var member schemaNode
	if len(n.Additional) == 0 || n.Additional[0] != '{' || json.Unmarshal(n.Additional, &member) != nil {
		return nil
	}
	return &member
}

// typeName names a type as people do.
func (n *schemaNode) typeName() string {
	switch {
	case strings.Contains(n.Pattern, "ns|us"):
		return "duration, such as 500ms or 2s"
	case strings.Contains(n.Pattern, "KiB"):
		return "size, such as 64KiB"
	case n.Items != nil:
		return "list of " + n.Items.typeName()
	case n.member() != nil:
		return "map of " + n.member().typeName() + " by name"
	}
	var names []string
	if json.Unmarshal(n.Type, &names) != nil {
		var name string
		if json.Unmarshal(n.Type, &name) != nil {
			return "any"
		}
		names = []string{name}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "null" })
	return strings.Join(names, " or ")
}

// below returns a key and those below it.
func below(keys []configKey, name string) ([]configKey, error) {
	var found []configKey
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Key
		if k.Key == name || strings.HasPrefix(k.Key, name+".") || strings.HasPrefix(k.Key, name+"[]") {
			found = append(found, k)
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	e := host.Errorf(host.NotFound, "a configuration has no key %q", name)
	if near := termtext.Nearest(name, names); near != "" {
		return nil, e.WithHint("did you mean %s?", near)
	}
	return nil, e.WithHint("agenthost config reference lists all; NAME stands for a name of yours, as in agents.NAME.tools")
}

// printKeys prints keys, each with its type on a line and its meaning below.
func printKeys(w io.Writer, keys []configKey) error {
	var b strings.Builder
	for _, k := range keys {
		about := k.Type
		if len(k.OneOf) > 0 {
			about = "one of: " + strings.Join(k.OneOf, ", ")
		}
		if k.Required {
			about += "; required"
		}
		fmt.Fprintf(&b, "%s  (%s)\n", k.Key, about)
		if k.Meaning != "" {
			fmt.Fprintf(&b, "    %s\n", strings.ReplaceAll(ui.Wrap(k.Meaning, 80), "\n", "\n    "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
