package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
)

// agentsByName are the targets of a program that makes its agents itself.
type agentsByName map[string]*host.Agent

func (a agentsByName) Target(name string) (host.Target, error) {
	if agent := a[name]; agent != nil {
		return agent, nil
	}
	return nil, host.Errorf(host.NotFound, "there is no agent %q", name)
}

func (a agentsByName) Targets() (names []string) {
	for name := range a {
		names = append(names, name)
	}
	return names
}

func Example() {
	clerk, err := host.NewAgent("clerk", &host.AgentOptions{
		Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("It was shipped.") }),
	})
	if err != nil {
		panic(err)
	}
	h, err := host.New(nil)
	if err != nil {
		panic(err)
	}
	registry, err := runs.New(h, nil)
	if err != nil {
		panic(err)
	}
	defer registry.Close()

	names := map[string]string{"Bearer secret-of-acme": "acme"}
	api, err := httpapi.New(func(r *http.Request) (*keys.Principal, error) {
		tenant := names[r.Header.Get("Authorization")]
		if tenant == "" {
			return nil, host.Errorf(host.Unauthenticated, "the key is not valid")
		}
		return &keys.Principal{Tenant: tenant, Scopes: httpapi.Scopes()}, nil
	}, &httpapi.Options{Runs: registry, Targets: agentsByName{"clerk": clerk}})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()

	req, err := http.NewRequest("POST", server.URL+"/v1/runs", strings.NewReader(`{"target":"clerk","text":"Where is my order?"}`))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer secret-of-acme")
	resp, err := server.Client().Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	fmt.Println(resp.Status, strings.Contains(string(body), `"text":"It was shipped."`))
	// Output: 200 OK true
}
