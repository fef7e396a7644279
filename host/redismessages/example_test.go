package redismessages_test

import (
	"context"
	"log"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/redismessages"
)

// The last hundred messages of each thread are kept in Redis.
func Example() {
	ctx := context.Background()
	stores, err := redismessages.Open(ctx, "redis://localhost:6379", &redismessages.Options{MaxMessages: 100})
	if err != nil {
		log.Fatal(err)
	}
	defer stores.Close()
	var model host.Model // any
	agent, err := host.NewAgent("assistant", &host.AgentOptions{Model: model, Instructions: "You are a helpful assistant.", Messages: stores})
	if err != nil {
		log.Fatal(err)
	}
	thread, err := agent.NewThread(ctx, &host.ThreadOptions{Tenant: "acme", ID: "user_session_123"})
	if err != nil {
		log.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Text: "Hello.", AgentThread: thread}); err != nil {
		log.Print(err)
	}
}
