package host_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// listing is a store of messages that lists what a test has.
type listing struct {
	host.MessageStore
	messages []*host.Message
}

func (l *listing) ListMessages(context.Context) ([]*host.Message, error) {
	return slices.Clone(l.messages), nil
}

func result(id string) *host.ToolResult {
	return &host.ToolResult{ID: id, Name: "look", Content: json.RawMessage(`"seen"`)}
}

func toolMessage(id string, parts ...host.Part) *host.Message {
	return &host.Message{ID: id, Role: host.ToolRole, Parts: parts}
}

func callMessage(id string, calls ...string) *host.Message {
	m := &host.Message{ID: id, Role: host.Assistant}
	for _, c := range calls {
		m.Parts = append(m.Parts, &host.ToolCall{ID: c, Name: "look", Arguments: json.RawMessage(`{}`)})
	}
	return m
}

// A store of messages, a reducer that cuts between a call and its result, or a
// history adapter may leave a result without its call: no model is shown it.
func TestAnOrphanResultReachesNoModel(t *testing.T) {
	for name, c := range map[string]struct {
		stored []*host.Message
		want   []string
	}{
		"at the beginning":     {[]*host.Message{toolMessage("r1", result("c1")), host.AssistantText("R1")}, []string{"a:R1", "u:next"}},
		"alone":                {[]*host.Message{toolMessage("r1", result("c1"))}, []string{"u:next"}},
		"beside another":       {[]*host.Message{host.UserText("hi"), callMessage("m", "c1"), toolMessage("r1", result("c0"), result("c1"))}, []string{"u:hi", "c:c1", "t:c1", "u:next"}},
		"twice":                {[]*host.Message{host.UserText("hi"), callMessage("m", "c1"), toolMessage("r1", result("c1")), toolMessage("r2", result("c1"))}, []string{"u:hi", "c:c1", "t:c1", "u:next"}},
		"after the next input": {[]*host.Message{host.UserText("hi"), callMessage("m", "c1"), host.UserText("more"), toolMessage("late", result("c1"))}, []string{"u:hi", "c:c1", "t:c1", "u:more", "u:next"}},
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := memoryMessages(t, nil).OpenStore(t.Context(), &host.StoreRequest{Thread: "t"})
			if err != nil {
				t.Fatal(err)
			}
			model := hosttest.NewModel(hosttest.Say("done"))
			a := newAgent(t, &host.AgentOptions{Model: model})
			thread := newThread(t, a, &host.ThreadOptions{Store: &listing{inner, c.stored}})
			if _, err := newHost(t, nil).Run(t.Context(), a, &host.Request{Text: "next", AgentThread: thread}); err != nil {
				t.Fatal(err)
			}
			if got := brief(model.Requests()[0].Messages); !slices.Equal(got, c.want) {
				t.Errorf("the model is asked %q, want %q", got, c.want)
			}
		})
	}
}

func TestAReducerThatCutsAPairLeavesNoOrphan(t *testing.T) {
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "seen", nil })
	for _, trigger := range []host.ReducerTrigger{host.BeforeMessagesRetrieval, host.AfterMessageAdded} {
		model := hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("R1"), hosttest.Say("R2"))
		a := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{look},
			Messages: memoryMessages(t, &host.MemoryMessagesOptions{Reducer: &newest{n: 2}, Trigger: trigger})}) // the result and R1
		thread := newThread(t, a, nil)
		h := newHost(t, nil)
		for _, text := range []string{"hi", "again"} {
			if _, err := h.Run(t.Context(), a, &host.Request{Text: text, AgentThread: thread}); err != nil {
				t.Fatal(err)
			}
		}
		if got := brief(model.Requests()[2].Messages); !slices.Equal(got, []string{"a:R1", "u:again"}) {
			t.Errorf("%s: the model is asked %q, want no result without its call", trigger, got)
		}
	}
}
