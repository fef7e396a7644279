package agentframework

import (
	"context"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

const (
	jokerName         = "Joker"
	jokerInstructions = "You are good at telling jokes."
	pirate            = "Tell me a joke about a pirate."
)

// must leaves out of the examples what a program does about an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// says returns a model that gives these answers, one after the other, and keeps
// nothing. In a program it is openaimodel.New or any other host.Model.
func says(texts ...string) *hosttest.Model {
	replies := make([]hosttest.Reply, len(texts))
	for i, text := range texts {
		replies[i] = hosttest.Say(text)
	}
	return hosttest.NewModel(replies...)
}

// run runs an agent in a thread, and returns what it says.
func run(agent *host.Agent, thread *host.AgentThread, text string) string {
	h := must(host.New(&host.Options{SingleTenant: true}))
	return must(h.Run(context.Background(), agent, &host.Request{Text: text, AgentThread: thread})).Text()
}

// show prints messages, a line each.
func show(messages []*host.Message) {
	for _, m := range messages {
		fmt.Printf("%s: %s\n", m.Role, strings.TrimSpace(m.Text()))
	}
}
