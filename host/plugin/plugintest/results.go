package plugintest

import (
	"fmt"
	"slices"
	"strings"
)

// results checks that at least one call of each export is answered with a result: a plugin
// that refuses every call would follow all other rules.
func results(g *guest) (broken []error) {
	for _, export := range g.exports() {
		if g.hasResult(export) {
			continue
		}
		var last error
		for _, c := range g.callsOf(export) {
			r, err := g.sandbox.callFresh(c)
			if err == nil && !r.GuestError {
				last = nil
				break
			}
			last = c.problem("it answers %s", shown(r, err))
		}
		if last != nil {
			broken = append(broken, fmt.Errorf("no call of %s is answered with a result; the last one: %w. "+
				"If these calls lack something, add a golden case that has it, and grant what the plugin asks for", export, last))
		}
	}
	for _, name := range g.uncalled {
		broken = append(broken, fmt.Errorf("%s: no value was found that fits its schema, so that it is not called: add a golden case that calls it", name))
	}
	return broken
}

// hasResult reports whether a golden case wants a result of an export.
func (g *guest) hasResult(export string) bool {
	return slices.ContainsFunc(g.cases, func(c *goldenCase) bool { return c.call.Export == export && c.want.output != nil })
}

func (g *guest) callsOf(export string) (list []Call) {
	for _, c := range g.calls {
		if c.Export == export {
			list = append(list, c)
		}
	}
	return list
}

// named reports whether a call or a case names a part of the plugin: "tool NAME".
func (g *guest) named(part string) bool {
	kind, name, _ := strings.Cut(part, " ")
	is := func(c Call) bool {
		m, err := members(c.Input)
		return err == nil && sameJSON(m[kind], mustJSON(name))
	}
	return slices.ContainsFunc(g.calls, is) || slices.ContainsFunc(g.cases, func(c *goldenCase) bool { return is(c.call) })
}
