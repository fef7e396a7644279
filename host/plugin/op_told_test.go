package plugin

// Scenario: a tool's state patches and artifacts reach the event stream while it runs.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/runevent"
)

// What a guest changes by state.patch and makes by artifact.write is on the stream
// while it runs, and the state is as it was when the call fails.
func TestChangesOfAGuestAreToldWhenItMakesThem(t *testing.T) {
	p, err := startRuntime(t, nil).Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Granted: Permissions{State: Write}})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{})
	work := func(ctx context.Context, call *host.Call) error {
		ops := p.bindings.of("acme").toolOperations(call)
		guest := func(op, request string) error {
			var out struct{ Error *host.Error }
			_, err := p.call(ctx, "acme", abi.Tool, []byte(op+" "+request), ops, func(_ context.Context, raw []byte) error { return json.Unmarshal(raw, &out) })
			if err == nil && out.Error != nil {
				return out.Error
			}
			return err
		}
		set := func(status string) error {
			return guest("state.patch", fmt.Sprintf(`{"patch":[{"op":"add","path":"/status","value":%q}]}`, status))
		}
		if err := errors.Join(set("searching"), guest("artifact.write", `{"name":"plan","data":"","last":true}`), set("writing"), set("done")); err != nil {
			return err
		}
		select {
		case <-seen:
		case <-time.After(time.Minute):
			return errors.New("the reader was told nothing while the guest ran")
		}
		if call.Tool == "fail" {
			return errors.New("it breaks")
		}
		return nil
	}
	for _, name := range []string{"work", "fail"} {
		t.Run(name, func(t *testing.T) {
			seen = make(chan struct{})
			tool, err := host.NewRawTool(llm.ToolSpec{Name: name, Description: "Works."}, func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
				return &host.ToolOutput{}, work(ctx, call)
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			agent, err := host.NewAgent("a", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call(name, "{}"), hosttest.Say("done")), Tools: []*host.Tool{tool}})
			if err != nil {
				t.Fatal(err)
			}
			h, err := host.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			state, err := host.NewState(nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for ev, err := range h.Stream(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go", State: json.RawMessage(`{"status":"idle"}`)}) {
				if err != nil {
					t.Fatal(err)
				}
				switch d := ev.Data.(type) {
				case *runevent.StatePatched:
					if err := state.Patch(d.Ops); err != nil {
						t.Fatal(err)
					}
					if told = append(told, string(state.JSON())); slices.Contains(told, `{"status":"done"}`) && len(told) == 5 {
						close(seen)
					}
				case *runevent.ArtifactMade:
					told = append(told, d.Artifact.Name)
				case *runevent.ToolFinished:
					told = append(told, string(d.Content))
				}
			}
			want := []string{`{"status":"idle"}`, `{"status":"searching"}`, "plan", `{"status":"writing"}`, `{"status":"done"}`, `"work successfully executed"`}
			if name == "fail" {
				want = append(want[:5:5], `{"status":"idle"}`, `"it breaks"`)
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("the reader was told (-want +got):\n%s", diff)
			}
		})
	}
}
