package project_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/tenants"
)

func ExampleAddParts() {
	ctx := context.Background()
	p, err := project.Load(ctx, "shop", &project.Options{FS: files})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	var opts httpapi.Options
	if err := project.AddParts(ctx, &opts, p); err != nil {
		log.Fatal(err)
	}
	credentials := project.AddCredentials(&opts, p, nil)
	api, err := httpapi.New(credentials.Authenticate, &opts)
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()

	key, _, err := credentials.Of("acme").Create(ctx, &keys.Spec{Scopes: httpapi.Scopes()})
	if err != nil {
		log.Fatal(err)
	}
	req, _ := http.NewRequest("POST", server.URL+"/v1/runs", strings.NewReader(`{"text":"where is order 1042?"}`))
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := server.Client().Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	var run httpapi.EndedRun
	if err := json.NewDecoder(resp.Body).Decode(&run); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Status, run.Text)
	// Output: completed It was sent yesterday.
}

// served is a project behind a listener, with a key of the tenant acme.
func served(t *testing.T, registered bool) (p *project.Project, ask func(method, path, body string) (int, string)) {
	t.Helper()
	p, err := project.Load(t.Context(), "shop", &project.Options{FS: files, Registered: registered})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	var opts httpapi.Options
	if err := project.AddParts(t.Context(), &opts, p); err != nil {
		t.Fatal(err)
	}
	credentials := project.AddCredentials(&opts, p, nil)
	api, err := httpapi.New(credentials.Authenticate, &opts)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	key, _, err := credentials.Of("acme").Create(t.Context(), &keys.Spec{Scopes: httpapi.Scopes()})
	if err != nil {
		t.Fatal(err)
	}
	return p, func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(raw)
	}
}

func TestAnAPIServesAllPartsOfAProject(t *testing.T) {
	p, ask := served(t, false)
	for _, c := range []struct {
		method, path, body, want string
	}{
		{"POST", "/v1/runs", `{"text":"where is it?","thread":"t1"}`, "sent yesterday"},
		{"GET", "/v1/threads", "", `"t1"`},
		{"POST", "/v1/sessions/clerk/turn", `{"session":"s1","text":"where is it?"}`, "sent yesterday"},
		{"POST", "/v1/sessions/clerk/snapshot", `{"session":"s1"}`, `"s1"`},
		{"GET", "/v1/plugins", "", `"plugins":[]`},
		{"GET", "/v1/usage", "", `"items"`},
	} {
		if status, text := ask(c.method, c.path, c.body); status >= 300 || !strings.Contains(text, c.want) {
			t.Errorf("%s %s is answered %d %s, want %s", c.method, c.path, status, text, c.want)
		}
	}
	if _, err := p.Tenants().Create(t.Context(), "acme", &tenants.Spec{Plan: tenants.Plan{Targets: []string{"other"}}}); err != nil {
		t.Fatal(err)
	}
	if status, text := ask("POST", "/v1/runs", `{"text":"where is it?"}`); status != http.StatusNotFound {
		t.Errorf("a target that the plan does not name is answered %d %s", status, text)
	}
}

func TestOnlyTenantsWithRecordsAreServed(t *testing.T) {
	p, ask := served(t, true)
	if status, text := ask("POST", "/v1/runs", `{"text":"where is it?"}`); status != http.StatusForbidden {
		t.Errorf("a tenant without a record is answered %d %s", status, text)
	}
	if _, err := p.Tenants().Create(t.Context(), "acme", nil); err != nil {
		t.Fatal(err)
	}
	if status, text := ask("POST", "/v1/runs", `{"text":"where is it?"}`); status != http.StatusOK {
		t.Errorf("a tenant with a record is answered %d %s", status, text)
	}
}
