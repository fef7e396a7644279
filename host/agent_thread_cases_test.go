package host_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// countedStore is a store that notes each write to it.
type countedStore struct {
	host.MessageStore
	writes [][]string
}

func (c *countedStore) AddMessages(ctx context.Context, messages []*host.Message) error {
	c.writes = append(c.writes, brief(messages))
	return c.MessageStore.AddMessages(ctx, messages)
}

// A turn is one write, in the order in which things were said; one that says
// nothing new answers what is there, and stores the answer alone.
func TestATurnOfAnAgentThreadIsOneWrite(t *testing.T) {
	inner, err := memoryMessages(t, nil).OpenStore(t.Context(), &host.StoreRequest{})
	if err != nil {
		t.Fatal(err)
	}
	store := &countedStore{MessageStore: inner}
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "seen", nil })
	model := hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("R1"), hosttest.Say("R2"), hosttest.Say("R3"))
	a := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{look}})
	thread := newThread(t, a, &host.ThreadOptions{Store: store})
	for _, req := range []*host.Request{{Text: "hi"}, {}, {Text: "bye"}} {
		req.AgentThread = thread
		if _, err := newHost(t, nil).Run(t.Context(), a, req); err != nil {
			t.Fatal(err)
		}
	}
	call := "call_1"
	if len(store.writes) > 0 && len(store.writes[0]) > 1 {
		call = store.writes[0][1][2:]
	}
	want := [][]string{{"u:hi", "c:" + call, "t:" + call, "a:R1"}, {"a:R2"}, {"u:bye", "a:R3"}}
	if diff := cmp.Diff(want, store.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := brief(model.Requests()[2].Messages); !slices.Equal(got, want[0]) {
		t.Errorf("without input the model is asked %q", got)
	}
}

// Without a thread a run knows nothing of the one before.
func TestRunsWithoutAThreadAreStrangers(t *testing.T) {
	model := hosttest.NewModel(hosttest.Say("R1"), hosttest.Say("R2"))
	a := newAgent(t, &host.AgentOptions{Model: model})
	h := newHost(t, nil)
	for _, text := range []string{"My name is Ada.", "What is my name?"} {
		if _, err := h.Run(t.Context(), a, &host.Request{Text: text, State: json.RawMessage(`{"n":1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := brief(model.Requests()[1].Messages); !slices.Equal(got, []string{"u:What is my name?"}) {
		t.Errorf("the second run is asked %q", got)
	}
}
