package agentkit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// memory stands for a service that keeps what is worth knowing about a user.
type memory struct {
	facts map[string]string // by id
	next  int
}

func newMemory(facts ...string) *memory {
	m := &memory{facts: map[string]string{}}
	for _, f := range facts {
		m.add(f)
	}
	return m
}

func (m *memory) add(fact string) {
	m.next++
	m.facts[fmt.Sprintf("m%d", m.next)] = fact
}

func (m *memory) search(query string) []string {
	var found []string
	for id, fact := range m.facts {
		if strings.Contains(fact, query) {
			found = append(found, id+": "+fact)
		}
	}
	slices.Sort(found)
	return found
}

// later has work done once the turn is stored, and not at all if it is not: the
// user has the answer by then. A plugin sends to the queue for that, which tries
// again what fails.
func later(ctx context.Context, work func()) {
	host.AfterCommit(ctx, func(stored bool) {
		if stored {
			work()
		}
	})
}

// createMemories schedules what is to be remembered and answers at once.
func createMemories(m *memory) *host.Tool {
	return host.NewTool("create_memories", "Saves new pieces of information.",
		func(ctx context.Context, _ *host.Call, in struct {
			Statements []string `json:"statements" jsonschema:"what to remember"`
		}) (string, error) {
			later(ctx, func() {
				for _, s := range in.Statements {
					m.add(s)
				}
			})
			return fmt.Sprintf("%d memories will be made", len(in.Statements)), nil
		}, nil)
}

// recallMemories looks for several things at once.
func recallMemories(m *memory) *host.Tool {
	return host.NewTool("recall_memories", "Finds what is known.",
		func(_ context.Context, _ *host.Call, in struct {
			Queries []string `json:"queries" jsonschema:"what to look for"`
		}) ([]string, error) {
			found := []string{}
			for _, q := range in.Queries {
				for _, fact := range m.search(q) {
					if !slices.Contains(found, fact) {
						found = append(found, fact)
					}
				}
			}
			return found, nil
		}, &host.ToolOptions{ReadOnly: true})
}

func tool(name, description string, act func(ctx context.Context, ids []string)) *host.Tool {
	return host.NewTool(name, description, func(ctx context.Context, _ *host.Call, in struct {
		IDs []string `json:"ids"`
	}) (string, error) {
		act(ctx, in.IDs)
		return "scheduled", nil
	}, nil)
}

// A tool answers at once and leaves the writing for after the turn.
func Example_createMemories() {
	m := newMemory()
	agent := must(host.NewAgent("assistant", &host.AgentOptions{Tools: []*host.Tool{createMemories(m)}, Model: hosttest.NewModel(
		hosttest.Call("create_memories", `{"statements":["likes tea","lives in Oslo"]}`), hosttest.Say("I shall remember."))}))
	show(run(agent, host.Request{Text: "I like tea and live in Oslo."}).Results[0].Messages)
	fmt.Println(m.search(""))
	// Output:
	// assistant calls create_memories {"statements":["likes tea","lives in Oslo"]}
	// tool: create_memories: "2 memories will be made"
	// assistant: I shall remember.
	// [m1: likes tea m2: lives in Oslo]
}

// A tool for each operation: the model decides what to do, and more often.
func Example_granularMemoryTools() {
	m := newMemory("likes tea", "lives in Oslo")
	agent := must(host.NewAgent("assistant", &host.AgentOptions{Tools: []*host.Tool{recallMemories(m), createMemories(m)}, Model: hosttest.NewModel(
		hosttest.Call("recall_memories", `{"queries":["Oslo","lives"]}`), hosttest.Say("In Oslo."))}))
	show(run(agent, host.Request{Text: "Where do I live?"}).Results[0].Messages)
	// Output:
	// assistant calls recall_memories {"queries":["Oslo","lives"]}
	// tool: recall_memories: ["m2: lives in Oslo"]
	// assistant: In Oslo.
}

// manageMemories makes, corrects and forgets, all of it or nothing.
func manageMemories(m *memory) *host.Tool {
	type update struct {
		ID        string `json:"id"`
		Statement string `json:"statement"`
	}
	return host.NewTool("manage_memories", "Makes, corrects and forgets memories, all at once.",
		func(ctx context.Context, _ *host.Call, in struct {
			Creations []string `json:"creations,omitempty"`
			Updates   []update `json:"updates,omitempty"`
			Deletions []string `json:"deletions,omitempty"`
		}) (string, error) {
			for _, u := range in.Updates {
				if m.facts[u.ID] == "" {
					return "", host.Errorf(host.NotFound, "There is no memory %s; nothing was changed.", u.ID)
				}
			}
			later(ctx, func() {
				for _, s := range in.Creations {
					m.add(s)
				}
				for _, u := range in.Updates {
					m.facts[u.ID] = u.Statement
				}
				for _, id := range in.Deletions {
					delete(m.facts, id)
				}
			})
			return "scheduled", nil
		}, nil)
}

// One tool for all writing: fewer decisions for the model, and one call at the end.
func Example_manageMemories() {
	m := newMemory("likes tea", "lives in Oslo", "has a cat")
	agent := must(host.NewAgent("updater", &host.AgentOptions{Tools: []*host.Tool{manageMemories(m)}, Model: hosttest.NewModel(
		hosttest.Call("manage_memories", `{"updates":[{"id":"m9","statement":"x"}]}`),
		hosttest.Call("manage_memories", `{"creations":["has a dog"],"updates":[{"id":"m2","statement":"lives in Rome"}],"deletions":["m3"]}`),
		hosttest.Say("Done."))}))
	for _, r := range run(agent, host.Request{Text: "I moved to Rome, and the cat is a dog."}).Results[0].ToolResults() {
		fmt.Println(r.ContentText())
	}
	fmt.Println(m.search(""))
	// Output:
	// There is no memory m9; nothing was changed.
	// scheduled
	// [m1: likes tea m2: lives in Rome m4: has a dog]
}

// One agent with all the tools recalls, reflects and answers as it sees fit.
func Example_reflectiveAgent() {
	m := newMemory("likes tea")
	update := host.NewTool("update_memories", "Corrects what is known.", func(ctx context.Context, _ *host.Call, in struct {
		ID        string `json:"id"`
		Statement string `json:"statement"`
	}) (string, error) {
		later(ctx, func() { m.facts[in.ID] = in.Statement })
		return "scheduled", nil
	}, nil)
	forget := tool("delete_memories", "Forgets what is wrong.", func(ctx context.Context, ids []string) {
		later(ctx, func() {
			for _, id := range ids {
				delete(m.facts, id)
			}
		})
	})
	agent := must(host.NewAgent("reflective", &host.AgentOptions{
		Instructions: "First recall what you know. Then correct it where the user says otherwise. Answer without a word on that.",
		Tools:        []*host.Tool{createMemories(m), recallMemories(m), update, forget},
		Model: hosttest.NewModel(
			hosttest.Call("recall_memories", `{"queries":["likes"]}`),
			hosttest.Call("update_memories", `{"id":"m1","statement":"likes coffee"}`),
			hosttest.Say("Coffee it is."))}))
	fmt.Println(run(agent, host.Request{Text: "I prefer coffee now."}).Text())
	fmt.Println(m.search(""))
	// Output:
	// Coffee it is.
	// [m1: likes coffee]
}

func memoryAgents(m *memory) []*host.Agent {
	return []*host.Agent{
		must(host.NewAgent("retrieval", &host.AgentOptions{Tools: []*host.Tool{recallMemories(m)}, MaxRounds: 1,
			Model: hosttest.NewModel(hosttest.Call("recall_memories", `{"queries":["tea"]}`))})),
		must(host.NewAgent("assistant", &host.AgentOptions{Model: says("Tea, as ever?")})),
		must(host.NewAgent("updater", &host.AgentOptions{Tools: []*host.Tool{manageMemories(m)}, MaxRounds: 1,
			Model: hosttest.NewModel(hosttest.Call("manage_memories", `{"creations":["was thirsty"]}`))})),
	}
}

// Three agents in a fixed order: one recalls, one answers, one remembers.
func Example_memoryNetwork() {
	m := newMemory("likes tea")
	network := must(host.NewNetwork("assistant-with-memory", memoryAgents(m), &host.NetworkOptions{
		Router: host.InOrder("line", "retrieval", "assistant", "updater")}))
	result := run(network, host.Request{Text: "I am thirsty."})
	fmt.Println(whoRan(result))
	fmt.Println(result.Results[1].Text(), m.search(""))
	// Output:
	// retrieval, assistant, updater
	// Tea, as ever? [m1: likes tea m2: was thirsty]
}

// The same, by what the state says instead of by counting.
func Example_memoryByState() {
	type state struct {
		MemoriesRetrieved  bool `json:"memoriesRetrieved,omitempty"`
		AssistantResponded bool `json:"assistantResponded,omitempty"`
		MemoriesUpdated    bool `json:"memoriesUpdated,omitempty"`
	}
	notes := func(set func(*state)) host.Hooks {
		return host.Hooks{Finish: func(_ context.Context, at *host.FinishHook) error {
			return host.UpdateState(at.State, func(s *state) error { set(s); return nil })
		}}
	}
	agents := []*host.Agent{
		must(host.NewAgent("retrieval", &host.AgentOptions{Model: says("likes tea"), Hooks: notes(func(s *state) { s.MemoriesRetrieved = true })})),
		must(host.NewAgent("assistant", &host.AgentOptions{Model: says("Tea?"), Hooks: notes(func(s *state) { s.AssistantResponded = true })})),
		must(host.NewAgent("updater", &host.AgentOptions{Model: says("noted"), Hooks: notes(func(s *state) { s.MemoriesUpdated = true })})),
	}
	router := host.RouterFunc("by-state", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		s, err := host.StateAs[state](req.State)
		switch {
		case err != nil:
			return nil, err
		case !s.MemoriesRetrieved:
			return host.Next("retrieval"), nil
		case !s.AssistantResponded:
			return host.Next("assistant"), nil
		case !s.MemoriesUpdated:
			return host.Next("updater"), nil
		}
		return nil, nil
	})
	network := must(host.NewNetwork("assistant-with-memory", agents, &host.NetworkOptions{Router: router, StateSchema: must(host.SchemaOf[state]())}))
	fmt.Println(whoRan(run(network, host.Request{Text: "I am thirsty."})))
	// Output: retrieval, assistant, updater
}

// Or without tools: a hook before the model call brings memories in, one at the
// end learns from what was said. A context provider does both for any agent, and
// can be a plugin.
func Example_memoryByHooks() {
	m := newMemory("likes tea")
	model := says("Tea, as ever?")
	agent := must(host.NewAgent("assistant", &host.AgentOptions{Model: model, Hooks: host.Hooks{
		Start: func(_ context.Context, at *host.StartHook) error {
			at.Instructions += "You know: " + strings.Join(m.search("tea"), ", ") + "."
			return nil
		},
		Finish: func(_ context.Context, at *host.FinishHook) error {
			m.add(fmt.Sprintf("was answered in %d messages", len(at.Messages)))
			return nil
		},
	}}))
	run(agent, host.Request{Text: "I am thirsty."})
	show(model.Requests()[0].Messages)
	fmt.Println(m.search("answered"))
	// Output:
	// system: You know: m1: likes tea.
	// user: I am thirsty.
	// [m2: was answered in 1 messages]
}
