package memory_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/examples/memory"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	hostmemory "github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/queue"
)

// ada is who talks.
var ada = hostmemory.Scope{Tenant: "acme", User: "ada"}

// world is a store of memories behind a queue, and a host.
type world struct {
	store    *hostmemory.Store
	queue    *queue.Queue
	memories hostmemory.Backend
	host     *host.Host
}

func newWorld(t *testing.T) *world {
	t.Helper()
	driver := kv.NewMemory() // badgerkv.Open(dir, nil) keeps all of it
	store, err := hostmemory.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	q := queue.New(driver, nil)
	w := &world{store: store, queue: q, memories: memory.Memories(store, q)}
	if err := q.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	if w.host, err = host.New(&host.Options{SingleTenant: true, Queue: q}); err != nil {
		t.Fatal(err)
	}
	return w
}

// knows sets what is remembered, and returns the id of the last.
func (w *world) knows(t *testing.T, texts ...string) (id string) {
	t.Helper()
	for _, text := range texts {
		m, err := w.store.Add(t.Context(), ada, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		id = m.ID
	}
	return id
}

// says runs a turn, waits until what it has left is done, and returns who ran.
func (w *world) says(t *testing.T, target host.Target, text string, state map[string]any) (agents []string) {
	t.Helper()
	if state == nil {
		state = map[string]any{}
	}
	state["user"] = "ada"
	r, err := w.host.Run(t.Context(), target, &host.Request{Tenant: "acme", Text: text, State: state})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.queue.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, result := range r.Results {
		agents = append(agents, result.Agent)
	}
	return agents
}

func (w *world) remembers(t *testing.T, want ...string) {
	t.Helper()
	list, err := w.store.List(t.Context(), ada, nil)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range list {
		texts = append(texts, m.Text)
	}
	slices.Sort(texts)
	slices.Sort(want)
	if !slices.Equal(texts, want) {
		t.Errorf("remembered: %q, want %q", texts, want)
	}
}

// shown reports whether a model was shown a text.
func shown(req *llm.Request, text string) bool {
	return slices.ContainsFunc(req.Messages, func(m *host.Message) bool {
		return strings.Contains(m.Text(), text) || slices.ContainsFunc(m.ToolResults(), func(r *host.ToolResult) bool { return strings.Contains(string(r.Content), text) })
	})
}

func TestAutonomous(t *testing.T) {
	w := newWorld(t)
	old := w.knows(t, "Ada drinks tea.", "Ada lives in Berlin.")
	model := hosttest.NewModel(
		hosttest.Call("recall_memories", `{"queries":["where does Ada live"]}`),
		hosttest.Call("update_memories", `{"updates":[{"id":"`+old+`","statement":"Ada lives in Lisbon."}]}`).Call("create_memories", `{"statements":["Ada has a cat."]}`),
		hosttest.Say("How nice!"))
	agent, err := memory.Autonomous(model, w.memories)
	if err != nil {
		t.Fatal(err)
	}
	w.says(t, agent, "I moved to Lisbon, with my cat.", nil)
	w.remembers(t, "Ada drinks tea.", "Ada lives in Lisbon.", "Ada has a cat.")
	if !shown(model.Requests()[1], "Ada lives in Berlin.") {
		t.Error("the model is not shown what it recalls")
	}
}

// three is the model of the three agents: each does its job.
func three(t *testing.T) host.Model {
	return hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		switch req.Scope.Agent {
		case "recaller":
			return hosttest.Call("recall_memories", `{"queries":["tea"]}`)
		case "rememberer":
			return hosttest.Call("manage_memories", `{"creations":["Ada likes mint."],"updates":null,"deletions":null}`)
		}
		if len(req.Tools) != 0 {
			t.Errorf("who answers has tools: %v", req.Tools)
		}
		if shown(req, "Ada drinks tea.") {
			return hosttest.Say("Tea?")
		}
		return hosttest.Say("What would you like?")
	})
}

func TestThreeAgents(t *testing.T) {
	w := newWorld(t)
	w.knows(t, "Ada drinks tea.")
	network, err := memory.ThreeAgents(three(t), w.memories)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.says(t, network, "Something to drink, with mint.", nil); !slices.Equal(got, []string{"recaller", "answerer", "rememberer"}) {
		t.Errorf("agents: %v", got)
	}
	w.remembers(t, "Ada drinks tea.", "Ada likes mint.")
}

func TestStateRouted(t *testing.T) {
	w := newWorld(t)
	w.knows(t, "Ada drinks tea.")
	network, err := memory.StateRouted(three(t), w.memories)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.says(t, network, "Hello.", map[string]any{"recalled": true, "remembered": true}); !slices.Equal(got, []string{"answerer"}) {
		t.Errorf("agents: %v", got)
	}
	w.remembers(t, "Ada drinks tea.")
	if got := w.says(t, network, "Something with mint.", nil); !slices.Equal(got, []string{"recaller", "answerer", "rememberer"}) {
		t.Errorf("agents: %v", got)
	}
	w.remembers(t, "Ada drinks tea.", "Ada likes mint.")
}

func TestLifecycle(t *testing.T) {
	w := newWorld(t)
	model := hosttest.NewModel(hosttest.Say("Fine."), hosttest.Say("Lisbon."))
	agent, err := memory.Lifecycle(model, w.memories)
	if err != nil {
		t.Fatal(err)
	}
	w.says(t, agent, "I live in Lisbon. It is sunny.", nil)
	w.remembers(t, "The user said: I live in Lisbon.")
	w.says(t, agent, "Where do I live?", nil)
	if shown(model.Requests()[0], "The user said") || !shown(model.Requests()[1], "The user said: I live in Lisbon.") {
		t.Error("the model is not shown what fits, in the second conversation and not in the first")
	}
}
