package plugincmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/internal/grantwords"
	"github.com/agenthost/agenthost/internal/termtext"
)

func (s *sharing) diff() *cobra.Command {
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Show what differs between two versions of a plugin",
		Long: `Show what differs between two versions of a plugin: what they ask for, their tools and
other parts with the schemas that models read, their size, and the instructions that
their start-up costs. A and B are files as elsewhere, or references of shared plugins.

The exit code is 3 if B asks for permissions that A does not ask for, and 0 otherwise.`,
		Example: "  agenthost plugin diff oci://ghcr.io/acme/orders:1.1.0 oci://ghcr.io/acme/orders:1.2.0",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			return s.plugins.WithReader(c.Context(), func(rt *plugin.Runtime) error { return s.compare(c.Context(), rt, list[0], list[1]) })
		},
	}
	s.addReach(c)
	return c
}

// side is one of two versions.
type side struct {
	module   []byte
	manifest *plugin.Manifest
	asks     []string
	startUp  int64 // instructions
}

// look reads a version, and starts it with nothing granted.
func (s *sharing) look(ctx context.Context, rt *plugin.Runtime, where string) (*side, error) {
	wasm, err := s.readAny(ctx, rt, where)
	if err != nil {
		return nil, err
	}
	p, err := rt.Load(ctx, open.PluginID(where), wasm, nil)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	out := &side{module: wasm, manifest: p.Manifest(), asks: grantwords.Asked(p.Manifest().Permissions)}
	did, err := p.StartUp(ctx)
	out.startUp = did.Instructions
	return out, err
}

// readAny reads the module of a file or a reference.
func (s *sharing) readAny(ctx context.Context, rt *plugin.Runtime, where string) (wasm []byte, err error) {
	if !share.IsReference(where) {
		return s.plugins.Modules().ReadModule(ctx, rt, where, s.term.Announce)
	}
	ref, err := share.ParseReference(where)
	if err != nil {
		return nil, err
	}
	client, err := s.client(ref)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	a, err := client.Pull(ctx, ref)
	if err != nil {
		return nil, err
	}
	return a.Module, nil
}

// difference is a line of the output of diff.
type difference struct {
	What   string `json:"what"`
	Before string `json:"before"` // "" for an addition
	Now    string `json:"now"`    // "" for a removal
}

func (s *sharing) compare(ctx context.Context, rt *plugin.Runtime, before, now string) error {
	a, err := s.look(ctx, rt, before)
	if err != nil {
		return err
	}
	b, err := s.look(ctx, rt, now)
	if err != nil {
		return err
	}
	list, more := differences(a, b)
	if s.asJSON {
		err = ui.PrintItems(s.term.Out, list)
	} else {
		err = s.printDifferences(list, bytes.Equal(a.module, b.module))
	}
	if err == nil && more {
		return cli.QuietExit(host.FailedPrecondition.ExitCode())
	}
	return err
}

// differences compares two versions; more is that b asks for permissions that a does not
// ask for.
func differences(a, b *side) (list []difference, more bool) {
	list = []difference{}
	add := func(what, before, now string) {
		if before != now {
			list = append(list, difference{What: what, Before: before, Now: now})
		}
	}
	add("name", a.manifest.Name, b.manifest.Name)
	add("version", a.manifest.Version, b.manifest.Version)
	for _, word := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.asks, b.asks)))) {
		was, is := slices.Contains(a.asks, word), slices.Contains(b.asks, word)
		more = more || is && !was
		add("asks for", onlyIf(was, word), onlyIf(is, word))
	}
	for _, kind := range []string{"tools", "processors", "routers", "providers", "resources", "prompts"} {
		was, is := partsOf(a.manifest, kind), partsOf(b.manifest, kind)
		for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))))) {
			addParts(add, kind+" "+name, was[name], is[name])
		}
	}
	add("size", bytesWords(len(a.module)), bytesWords(len(b.module)))
	add("start-up", termtext.Thousands(a.startUp)+" instructions", termtext.Thousands(b.startUp)+" instructions")
	return list, more
}

// addParts compares the fields of a part; a nil one is absent.
func addParts(add func(what, before, now string), what string, was, is map[string]json.RawMessage) {
	if was == nil || is == nil {
		add(what, onlyIf(was != nil, "offered"), onlyIf(is != nil, "offered"))
		return
	}
	for _, field := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))))) {
		add(what+" "+field, compactJSON(was[field]), compactJSON(is[field]))
	}
}

// partsOf returns the parts of a kind by name, with their fields as the plugin wrote them.
func partsOf(m *plugin.Manifest, kind string) map[string]map[string]json.RawMessage {
	var all map[string]json.RawMessage
	var list []map[string]json.RawMessage
	if json.Unmarshal(m.JSON(), &all) != nil || json.Unmarshal(all[kind], &list) != nil {
		return nil
	}
	out := map[string]map[string]json.RawMessage{}
	for _, fields := range list {
		var name string
		if json.Unmarshal(fields["name"], &name) == nil {
			out[name] = fields
		}
	}
	return out
}

// compactJSON returns JSON without white space and with sorted keys, so that only its
// content differs.
func compactJSON(raw json.RawMessage) string {
	var v any
	if raw == nil || json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(text)
}

func onlyIf(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

func bytesWords(n int) string { return termtext.Thousands(int64(n)) + " bytes" }

// maxDiffLine bounds a line of a schema that is shown.
const maxDiffLine = 2000

func (s *sharing) printDifferences(list []difference, same bool) error {
	if len(list) == 0 {
		text := "They offer and ask for the same; their code differs."
		if same {
			text = "They are the same."
		}
		_, err := fmt.Fprintln(s.term.Out, text)
		return err
	}
	for _, d := range list {
		fmt.Fprintln(s.term.Out, ui.OneLine(d.What))
		for _, line := range []struct{ mark, text string }{{"-", d.Before}, {"+", d.Now}} {
			if line.text != "" {
				fmt.Fprintf(s.term.Out, "  %s %s\n", line.mark, ui.CutText(ui.OneLine(line.text), maxDiffLine))
			}
		}
	}
	return nil
}
