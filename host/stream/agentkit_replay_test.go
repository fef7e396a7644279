package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/internal/testhost"
)

// A client of AgentKit that gets a stored answer finds in it the messages, parts and
// outputs that it may have seen before the connection was lost, under their ids.
func TestAgentKitsPartsOfAStoredAnswerAreThoseOfTheRun(t *testing.T) {
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "seen", nil }, nil)
	history := testhost.NewHistory(t, hosttest.NewHistory())
	model := hosttest.NewModel()
	h := newHost(t, &host.Options{Model: model, History: history})
	agent := newAgent(t, "clerk", &host.AgentOptions{Tools: []*host.Tool{look}})
	for _, standalone := range []bool{true, false} {
		input := host.UserText("look")
		input.ID = fmt.Sprint("m", standalone)
		model.Queue(hosttest.Call("look", "{}").Call("look", `{ }`), hosttest.Say("Done."))
		var told [2][]string
		for i := range told {
			encoder := stream.AgentKit(&stream.AgentKitOptions{Standalone: standalone})
			var frames []stream.Frame
			for ev, err := range h.Stream(t.Context(), agent, &host.Request{Thread: "t", Input: input}) {
				if err != nil {
					t.Fatal(err)
				}
				if frames, err = encoder.Encode(frames, ev); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range frames {
				var chunk struct {
					Event string
					Data  struct {
						RunID, MessageID, PartID, Type string
						FinalContent                   json.RawMessage
					}
				}
				if err := json.Unmarshal(f.Data, &chunk); err != nil {
					t.Fatal(err)
				}
				switch chunk.Event {
				case "run.started", "run.completed", "part.created", "part.completed":
					d := chunk.Data
					told[i] = append(told[i], fmt.Sprintln(chunk.Event, d.RunID, d.MessageID, d.PartID, d.Type, string(d.FinalContent)))
				}
			}
		}
		slices.Sort(told[0]) // calls of one answer end in any order
		slices.Sort(told[1])
		if diff := cmp.Diff(told[0], told[1]); diff != "" {
			t.Errorf("standalone %v: the chunks of the run and of the stored answer (-run +stored):\n%s", standalone, diff)
		}
	}
	if n := len(model.Requests()); n != 4 {
		t.Errorf("the model was asked %d times, want 4", n)
	}
}
