// Package memory shows four ways for agents to remember across conversations: those
// of AgentKit's documentation, each a few lines over package host/memory. Writes
// go through the durable queue: no run waits for them, and no memory that an agent
// believes to have stored is lost.
package memory

import (
	"context"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/queue"
)

// Memories are what the patterns share: a place for memories whose writes go
// through a queue, and whose memories they are: the run's state says who the user
// is, at /user.
func Memories(store memory.Backend, q *queue.Queue) *memory.Queued {
	memories := memory.NewQueued(store, q)
	q.Handle(memory.JobName, memories.HandleJob)
	return memories
}

// ofUser says whose memories a run uses. The state of a run is set by who starts
// it, so a model can't choose another user.
var ofUser = memory.UserAt("/user")

// Autonomous is one agent that decides by itself when to recall, to remember, to
// change and to forget: flexible, and as reliable as its model.
func Autonomous(model host.Model, memories memory.Backend) (*host.Agent, error) {
	return host.NewAgent("assistant", &host.AgentOptions{
		Instructions: "You have a memory of earlier conversations. On every message: first recall what may matter. " +
			"Then correct memories that the user contradicts, forget those that no longer hold, and remember what is new. " +
			"Then answer, without a word about your memory.",
		Tools: memory.NewTools(memories, ofUser).Granular(),
		Model: model,
	})
}

// ThreeAgents is a network that always does the same: one agent recalls, one
// answers, one remembers, each with the tools that its job needs and no other.
func ThreeAgents(model host.Model, memories memory.Backend) (*host.Network, error) {
	agents, err := threeAgents(model, memories)
	if err != nil {
		return nil, err
	}
	return host.NewNetwork("in-order", agents, &host.NetworkOptions{
		Router: host.InOrder("recall, answer, remember", "recaller", "answerer", "rememberer"),
	})
}

// StateRouted is the same network, routed by what the state says was done: the
// agent that recalls is left out where the request says that nothing is to be
// recalled, and so is the one that remembers.
func StateRouted(model host.Model, memories memory.Backend) (*host.Network, error) {
	agents, err := threeAgents(model, memories)
	if err != nil {
		return nil, err
	}
	return host.NewNetwork("by-state", agents, &host.NetworkOptions{
		State:  flags{},
		Router: host.RouterFunc("flags", byFlags),
	})
}

// flags are the part of the state that routes: the steps that are done or not needed.
type flags struct {
	Recalled   bool `json:"recalled"`
	Answered   bool `json:"answered"`
	Remembered bool `json:"remembered"`
}

func byFlags(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
	var next string
	err := host.UpdateState(req.State, func(f *flags) error {
		switch {
		case !f.Recalled:
			next, f.Recalled = "recaller", true
		case !f.Answered:
			next, f.Answered = "answerer", true
		case !f.Remembered:
			next, f.Remembered = "rememberer", true
		default:
			*f = flags{} // for the next turn
		}
		return nil
	})
	if err != nil || next == "" {
		return nil, err
	}
	return &host.Route{Next: []string{next}}, nil
}

func threeAgents(model host.Model, memories memory.Backend) ([]*host.Agent, error) {
	tools := memory.NewTools(memories, ofUser)
	var agents []*host.Agent
	for _, a := range []struct {
		name string
		opts host.AgentOptions
	}{
		{"recaller", host.AgentOptions{Description: "Recalls what may matter.",
			Instructions: "Your only job is to call recall_memories.",
			Tools:        []*host.Tool{tools.Recall()}, ToolChoice: "recall_memories", MaxRounds: 1}},
		{"answerer", host.AgentOptions{Description: "Answers the user.",
			Instructions: "Answer the user from the conversation and from what was recalled."}},
		{"rememberer", host.AgentOptions{Description: "Keeps memories up to date.",
			Instructions: "Look at the conversation, and call manage_memories once for all that is new, has changed or no longer holds.",
			Tools:        []*host.Tool{tools.Manage()}, MaxRounds: 1}},
	} {
		a.opts.Model = model
		agent, err := host.NewAgent(a.name, &a.opts)
		if err != nil {
			return nil, err
		}
		agents = append(agents, agent)
	}
	return agents, nil
}

// Lifecycle is an agent that knows nothing of a memory: a context provider puts
// what fits before each run, and looks at the conversation after it. Code decides here what to remember; it may as
// well ask a model.
func Lifecycle(model host.Model, memories memory.Backend) (*host.Agent, error) {
	return host.NewAgent("assistant", &host.AgentOptions{
		Instructions: "You help.",
		Providers:    []host.Provider{memory.NewProvider("memories", memories, ofUser, &memory.ProviderOptions{Remember: remember})},
		Model:        model,
	})
}

// remember keeps what a user says of themselves.
func remember(_ context.Context, req *host.ObserveRequest) (changes []memory.Change, err error) {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if m := req.Messages[i]; m.Role == host.User {
			for sentence := range strings.SplitSeq(m.Text(), ".") {
				if sentence = strings.TrimSpace(sentence); strings.HasPrefix(sentence, "I ") {
					changes = append(changes, memory.Change{Kind: memory.Add, Text: "The user said: " + sentence + "."})
				}
			}
			break
		}
	}
	return changes, nil
}
