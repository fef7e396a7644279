package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// What no run could begin with is refused when it is imported, and not when a run
// begins; and no lineage leads in a circle.
func TestImportOfHostileTurns(t *testing.T) {
	file := func(rest string) string {
		messages := []string{}
		for i := range 4 {
			messages = append(messages, fmt.Sprintf(`{"id":"m%d","role":"user","parts":[{"type":"text","text":"x"}]}`, i))
		}
		return `{"format":"agenthost.thread","version":1,"thread":{"id":"t1"},"messages":[` + strings.Join(messages, ",") + `],` + rest + `}`
	}
	for name, rest := range map[string]string{
		"a state that is a number":     `"snapshots":[],"state":7`,
		"a state that is a text":       `"snapshots":[],"state":"x"`,
		"a state that is null":         `"snapshots":[],"state":null`,
		"a state of one":               `"snapshots":[],"state":[{}]`,
		"a state of two numbers":       `"snapshots":[],"state":[1,2]`,
		"providers that are a list":    `"snapshots":[],"state":[{},[]]`,
		"a provider that keeps much":   `"snapshots":[],"state":[{},{"p":"` + strings.Repeat("x", host.MaxProviderStateBytes) + `"}]`,
		"providers that are text":      `"snapshots":[],"providers":"x"`,
		"providers that are nothing":   `"snapshots":[],"providers":null`,
		"providers before the state":   `"snapshots":[],"providers":{},"state":{}`,
		"providers given twice":        `"snapshots":[],"state":[{},{"p":1}],"providers":{"p":2}`,
		"one provider that keeps much": `"snapshots":[],"state":{},"providers":{"p":"` + strings.Repeat("x", host.MaxProviderStateBytes) + `"}`,
		"providers of a turn":          `"snapshots":[{"id":"r","from":0,"to":2,"state":{"digest":"d","size":1},"state_value":{},"providers_value":[]}]`,
		"a state of a turn":            `"snapshots":[{"id":"r","from":0,"to":2,"state":{"digest":"d","size":1},"state_value":7}]`,
		"an unknown status":            `"snapshots":[{"id":"r","from":0,"to":2,"status":"zzz"}]`,
		"a turn before the one before": `"snapshots":[{"id":"r","from":0,"to":4},{"id":"r2","from":0,"to":2}]`,
	} {
		s, d := threadtest.NewStore(t, nil)
		_, err := threadtest.ImportInto(t, s, "acme", "", "", file(rest))
		threadtest.WantCode(t, name, err, host.InvalidArgument)
		threadtest.WantNoThread(t, s, d, "acme")
	}
	s, _ := threadtest.NewStore(t, nil)
	if _, err := threadtest.ImportInto(t, s, "acme", "", "", file(`"snapshots":[{"id":"r","from":0,"to":1,"parent":"r"},{"id":"r2","from":1,"to":2,"parent":"r3"},{"id":"r3","from":2,"to":4,"parent":"r2"}],"state":[{"a":1},{"p":7}]`)); err != nil {
		t.Fatal(err)
	}
	var lineage []string
	for snap, err := range s.For("acme").Snapshots(t.Context(), "t1") {
		if err != nil {
			t.Fatal(err)
		}
		lineage = append(lineage, snap.ID+" of "+snap.Parent+" "+string(snap.Status))
	}
	if diff := cmp.Diff([]string{"r of  completed", "r2 of  completed", "r3 of r2 completed"}, lineage); diff != "" {
		t.Errorf("lineage (-want +got):\n%s", diff)
	}
	got, err := s.Get(t.Context(), &host.HistoryRequest{Tenant: "acme", Thread: "t1"})
	if err != nil || string(got.State) != `{"a":1}` || string(got.Providers["p"]) != "7" {
		t.Errorf("the state is %s, %s, %v", got.State, got.Providers, err)
	}
}

// What context providers keep has a place of its own in an export. The form that
// had it in the state is still read, and is the same thread.
func TestProvidersInAnExport(t *testing.T) {
	const begin = `"thread":{"id":"t1"},"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}],"snapshots":[{"id":"r","from":0,"to":1,"state":{"digest":"d","size":1},"state_value":`
	for name, c := range map[string]struct{ old, state, providers string }{
		"both":           {`[{"a":1.50},{"b/c":"<x>","p":{"n":12345678901234567890}}]`, `{"a":1.50}`, `{"b/c":"\u003cx\u003e","p":{"n":12345678901234567890}}`},
		"providers only": {`[{},{"p":7}]`, `{}`, `{"p":7}`},
		"no provider":    {`{"a":1}`, `{"a":1}`, ""},
	} {
		old := `{"format":"agenthost.thread","version":1,` + begin + c.old + `}],"state":` + c.old + `}`
		s, _ := threadtest.NewStore(t, nil)
		if _, err := threadtest.ImportInto(t, s, "acme", "", "", old); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := threadtest.ExportOf(t, s, "acme", "t1", transfer.FormatThread)
		wantValue, want := `"state_value":`+c.state, `"state":`+c.state+",\n"
		if c.providers != "" {
			wantValue, want = wantValue+`,"providers_value":`+c.providers+"}", want+`"providers":`+c.providers+",\n"
		}
		if !strings.Contains(text, wantValue) || !strings.Contains(text, want) {
			t.Errorf("%s: the export is\n%s\nwant %s and %s", name, text, wantValue, want)
		}
		other, _ := threadtest.NewStore(t, nil)
		if _, err := threadtest.ImportInto(t, other, "acme", "", "", text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again := threadtest.ExportOf(t, other, "acme", "t1", transfer.FormatThread); again[strings.Index(again, `"messages":[`):] != text[strings.Index(text, `"messages":[`):] { // the head is another
			t.Errorf("%s: exported again it is\n%s\nwant\n%s", name, again, text)
		}
		if got, err := threadtest.ImportInto(t, other, "acme", "", "", text); err != nil || got.Messages+got.Turns > 0 {
			t.Errorf("%s: imported again: %+v, %v", name, got, err)
		}
	}
}
