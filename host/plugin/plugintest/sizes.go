package plugintest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Sizes of an input that a guest must be able to read.
const (
	// shallowNesting and fullNesting are the depths of values that a guest must be able
	// to skip: the second is the deepest value that a host validates.
	shallowNesting, fullNesting = 100, 512
	// absurdNesting is the deepest nesting that pdk/ABI.md allows. A guest may fail on it,
	// but not give another answer.
	absurdNesting = 9_990

	largeText    = 1 << 20
	largeItems   = 100_000
	largeMembers = 10_000
)

// largeInputs makes each call with an additional member that is deep or large.
func largeInputs(g *guest) []error {
	var broken []error
	for _, in := range []struct {
		what   string
		value  string
		mayErr bool
	}{
		{fmt.Sprintf("nested %d deep", shallowNesting), deep(shallowNesting), false},
		{fmt.Sprintf("nested %d deep", fullNesting), deep(fullNesting), false},
		{fmt.Sprintf("nested %d deep", absurdNesting), deep(absurdNesting), true},
		{fmt.Sprintf("that is a text of %d bytes", largeText), `"` + strings.Repeat("x", largeText) + `"`, false},
		{fmt.Sprintf("of %d items", largeItems), "[0" + strings.Repeat(",0", largeItems-1) + "]", false},
		{fmt.Sprintf("of %d members", largeMembers), manyMembers(largeMembers), false},
	} {
		for _, c := range g.calls {
			if err := g.passesOver(c, in.value, in.mayErr); err != nil {
				broken = append(broken, c.problem("with an unknown field %s %w", in.what, err))
			}
		}
	}
	return broken
}

// deep returns a value whose objects and arrays are n deep.
func deep(n int) string {
	return strings.Repeat(`{"a":[`, n/2) + strings.Repeat("]}", n/2)
}

func manyMembers(n int) string {
	b := []byte(`{"m0":0`)
	for i := 1; i < n; i++ {
		b = fmt.Appendf(b, `,"m%d":%d`, i, i)
	}
	return string(append(b, '}'))
}

// passesOver returns how an additional member changes the answer of a call. With mayErr an
// error object or a failed call is allowed, too.
func (g *guest) passesOver(c Call, value string, mayErr bool) error {
	want, err := g.sandbox.callFresh(c)
	if err != nil {
		return err
	}
	want = g.withLater(c, want)
	got, err := g.sandbox.callFresh(c.with("x-later", json.RawMessage(value)))
	switch {
	case err == nil && g.sameValue(c, got, want):
		return nil
	case mayErr && g.sandbox.ctx.Err() == nil && (err != nil || got.GuestError):
		return nil
	}
	return fmt.Errorf("it answers %s, and otherwise %s", shown(got, err), shown(want, nil))
}
