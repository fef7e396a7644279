package agentframework

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host"
)

// userPreferencesMemory tells the agent what the user prefers, and learns it from
// what the user says.
type userPreferencesMemory struct {
	mu          sync.Mutex
	preferences []string
}

func (*userPreferencesMemory) Name() string { return "preferences" }

func (m *userPreferencesMemory) Provide(context.Context, *host.ProvideRequest) (*host.Provided, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.preferences) == 0 {
		return nil, nil
	}
	return &host.Provided{Instructions: "User preferences: " + strings.Join(m.preferences, ", ")}, nil
}

// Observe is told how it went, also when it did not go well.
func (m *userPreferencesMemory) Observe(_ context.Context, req *host.ObserveRequest) (*host.Cost, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range req.Messages {
		if what, ok := strings.CutPrefix(message.Text(), "I prefer "); ok && !slices.Contains(m.preferences, what) {
			m.preferences = append(m.preferences, what)
		}
	}
	return nil, nil
}

func Example_userPreferencesMemory() {
	ctx := context.Background()
	model := says("Noted.", "Tea it is.")
	agent := must(host.NewAgent("assistant", &host.AgentOptions{
		Model: model, Instructions: "You are a helpful assistant.", Providers: []host.Provider{&userPreferencesMemory{}},
	}))
	thread := must(agent.NewThread(ctx, nil))
	run(agent, thread, "I prefer tea")
	run(agent, thread, "What shall I drink?")
	for _, req := range model.Requests() {
		fmt.Printf("%q\n", req.Messages[0].Text())
	}
	// Output:
	// "You are a helpful assistant."
	// "You are a helpful assistant.\nUser preferences: tea"
}
