package host_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// Whoever keeps checksums in a database holds these for ever. They are computed
// elsewhere, from the text that the comment of Checksum gives.
func TestChecksumVectors(t *testing.T) {
	epoch := time.Unix(0, 0).UTC()
	at := time.Date(2025, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	call := &host.ToolCall{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"n":9007199254740993}`)}
	for want, r := range map[string]*host.Result{
		"291d47203716e13bde447eb992a58512d4e0abe019e16e2cb21cc819cf7023d5": {CreatedAt: epoch},
		"e01729b982d8d45fe3bc0b0a2db8a6841e1f270a6c911ddfa861cf1c5f5a1148": {Agent: "clerk", CreatedAt: at, Messages: []*host.Message{{ID: "any", Role: host.Assistant, Parts: []host.Part{&host.Text{Text: "hi"}}}}},
		"af8b0f99834e97d0ba84c38393f681b4700aa866e947d7166d02bd83d9bc2d29": {Agent: "clerk", CreatedAt: at, Messages: []*host.Message{
			{Role: host.Assistant, Parts: []host.Part{call}},
			{Role: host.ToolRole, Parts: []host.Part{&host.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(`"<é>"`)}}}}},
	} {
		if got := r.Checksum(); got != want {
			t.Errorf("Checksum of %d messages of %q = %s, want %s", len(r.Messages), r.Agent, got, want)
		}
	}
}

func TestChecksumsAreOfWhatWasSaidAndWhen(t *testing.T) {
	at := time.Date(2025, 3, 4, 5, 6, 7, 123456789, time.UTC)
	base := func() *host.Result {
		return &host.Result{ID: "r/0", Agent: "clerk", CreatedAt: at, Messages: []*host.Message{
			{ID: "m1", Role: host.Assistant, Agent: "clerk", CreatedAt: at, Parts: []host.Part{&host.Text{Text: "yes"}}}}}
	}
	want := base().Checksum()
	same := map[string]func(*host.Result){
		"another zone":    func(r *host.Result) { r.CreatedAt = at.In(time.FixedZone("far", 13*3600+45*60)) },
		"other ids":       func(r *host.Result) { r.ID, r.Messages[0].ID = "x", "y" },
		"a time of store": func(r *host.Result) { r.Messages[0].CreatedAt = at.Add(time.Hour) },
		"read from JSON": func(r *host.Result) {
			if err := json.Unmarshal(r.Messages[0].AppendJSON(nil), r.Messages[0]); err != nil {
				t.Fatal(err)
			}
		},
	}
	other := map[string]func(*host.Result){
		"another agent":      func(r *host.Result) { r.Agent = "boss" },
		"another text":       func(r *host.Result) { r.Messages[0].Parts[0] = &host.Text{Text: "no"} },
		"a nanosecond later": func(r *host.Result) { r.CreatedAt = at.Add(1) },
		"a message more":     func(r *host.Result) { r.Messages = append(r.Messages, r.Messages[0]) },
		"two parts for one": func(r *host.Result) {
			r.Messages[0].Parts = []host.Part{&host.Text{Text: "y"}, &host.Text{Text: "es"}}
		},
	}
	for name, change := range same {
		r := base()
		if change(r); r.Checksum() != want {
			t.Errorf("%s changes the checksum", name)
		}
	}
	for name, change := range other {
		r := base()
		if change(r); r.Checksum() == want {
			t.Errorf("%s leaves the checksum", name)
		}
	}
}

// No text can stand for a list of messages that it is not.
func TestChecksumsOfDifferentListsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`["\[\],a]{0,3}`), 1, 4)
		a, b := texts.Draw(t, "a"), texts.Draw(t, "b")
		sum := func(texts []string) string {
			r := &host.Result{}
			for _, text := range texts {
				r.Messages = append(r.Messages, &host.Message{Role: host.Assistant, Parts: []host.Part{&host.Text{Text: text}}})
			}
			return r.Checksum()
		}
		if equal := strings.Join(a, "\x00") == strings.Join(b, "\x00") && len(a) == len(b); equal != (sum(a) == sum(b)) {
			t.Fatalf("%q and %q: equal %t, checksums equal %t", a, b, equal, !equal)
		}
	})
}

func TestResultsHaveIDsOfTheirRun(t *testing.T) {
	history := hosttest.NewHistory()
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say("a"), hosttest.Say("b"))})
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("clerk", "clerk"), History: newHistory(t, history)})
	if err != nil {
		t.Fatal(err)
	}
	result, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Thread: "T", Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	stored := history.Turns()[0].Results
	for i, want := range []string{result.Run + "/0", result.Run + "/1"} {
		if result.Results[i].ID != want || stored[i].ID != want || stored[i].Checksum() != result.Results[i].Checksum() {
			t.Errorf("result %d has id %q, stored as %q, want %q", i, result.Results[i].ID, stored[i].ID, want)
		}
	}
}
