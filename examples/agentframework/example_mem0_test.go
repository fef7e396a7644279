package agentframework

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mem0memory"
	"github.com/agenthost/agenthost/host/memory"
)

// inPlaceOfMem0 answers each request as Mem0 would a search. A program leaves
// Options.Client out.
func inPlaceOfMem0(req *http.Request) (*http.Response, error) {
	fmt.Println(req.Method, req.URL)
	body := `[{"id":"m1","memory":"Alice is allergic to nuts.","user_id":"default/my_app/user_123//","score":0.8}]`
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func Example_mem0Provider() {
	backend := must(mem0memory.New(&mem0memory.Options{
		APIKey: "your-mem0-api-key",
		Client: &http.Client{Transport: roundTripper(inPlaceOfMem0)},
	}))
	scope := func(asking host.Scope, _ *host.State) (memory.Scope, error) {
		return memory.Scope{Tenant: asking.Tenant, Application: "my_app", User: "user_123"}, nil
	}
	model := says("Then not the pralines.")
	agent := must(host.NewAgent("assistant", &host.AgentOptions{
		Model: model, Instructions: "You are a helpful assistant with memory.",
		Providers: []host.Provider{memory.NewProvider("mem0", backend, scope, nil)},
	}))
	fmt.Println(run(agent, must(agent.NewThread(context.Background(), nil)), "What may I eat?"))
	for _, m := range model.Requests()[0].Messages[1:] {
		fmt.Printf("%s: %s\n", m.Role, m.Text())
	}
	// Output:
	// POST https://api.mem0.ai/v2/memories/search/
	// Then not the pralines.
	// user: What is remembered from earlier conversations, which may or may not matter here:
	// - Alice is allergic to nuts.
	// user: What may I eat?
}
