package plugin

// Scenario: the golden vectors of calls of tools are read and written by this host.

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/nested"
)

func TestVectorsOfCallsOfTools(t *testing.T) {
	p, err := startRuntime(t, nil).Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Granted: Permissions{Tools: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	eachVector(t, "call_tools.json", "call_tools_in", func(t *testing.T, v *golden) {
		_, err := p.bindings.of("acme").toolOperations(host.NewCall("t", nil, nil)).callTools(context.Background(), v.document())
		if host.CodeOf(err) == host.FailedPrecondition { // it was read: no tool can be called outside a run
			err = nil
		}
		sameError(t, v, err)
	})
}

func TestVectorsOfResultsOfCalledTools(t *testing.T) {
	eachVector(t, "call_tools.json", "call_tools_out", func(t *testing.T, v *golden) {
		var document struct {
			Results []struct {
				Kind    nested.Kind
				Content json.RawMessage
				Code    fault.Code
				Media   []struct {
					MediaType string `json:"media_type"`
					Data      []byte
				}
			}
		}
		if err := json.Unmarshal(v.JSON, &document); err != nil {
			t.Fatal(err)
		}
		var answers []nested.Answer
		for _, r := range document.Results {
			answer := nested.Answer{Kind: r.Kind, Content: r.Content, Code: r.Code}
			for _, m := range r.Media {
				answer.Media = append(answer.Media, &chat.Media{MediaType: m.MediaType, Data: m.Data})
			}
			answers = append(answers, answer)
		}
		sameJSON(t, answersJSON(answers), v.JSON)
	})
}
