package sessions_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
)

// A session that the server keeps: the client has its name, and a snapshot of
// each turn to branch from.
func Example() {
	agent, err := host.NewAgent("planner", &host.AgentOptions{
		Model: hosttest.NewModel(hosttest.Say("Three days in Oslo."), hosttest.Say("Two days, then.")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	service, err := sessions.New(agent, &sessions.Options{Host: host.Options{SingleTenant: true}, Store: threads.New(kv.NewMemory(), nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	ctx := context.Background()
	plan, err := service.Run(ctx, &sessions.Request{Session: "trip", Text: "Plan a trip."})
	if err != nil {
		fmt.Println(err)
		return
	}
	branch, err := service.Run(ctx, &sessions.Request{Snapshot: plan.Snapshot, Text: "For a smaller budget."})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Text())
	fmt.Println(branch.Text(), branch.Session, branch.Parent == plan.Snapshot)
	// Output:
	// Three days in Oslo.
	// Two days, then. trip true
}
