package host_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

func TestTenantNamesAreValidated(t *testing.T) {
	for name, ok := range map[string]bool{
		"acme": true, "default": true, "ACME": true, "a/b": true, "..": true, "agenthost": true, "ü": true,
		strings.Repeat("x", host.MaxTenantBytes):   true,
		strings.Repeat("x", host.MaxTenantBytes+1): false,
		"": false, "a\x00b": false, "\xff": false, "agenthost/queue": false, "agenthost/": false,
	} {
		if err := host.ValidateTenant(name); (err == nil) != ok || err != nil && host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("ValidateTenant(%.20q) = %v, want valid: %v", name, err, ok)
		}
	}
}

func TestTenantPartitionsAreTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"acme", "ACME", "acme ", "default", "a/b", "a%2Fb", "\u00fc", "u\u0308"} {
		got, err := host.TenantPartition(name)
		if err != nil || seen[got] != "" {
			t.Errorf("TenantPartition(%q) = %q, %v; it is %q's as well", name, got, err, seen[got])
		}
		seen[got] = name
	}
	if got, err := host.TenantPartition(""); got != host.DefaultTenant || err != nil {
		t.Errorf("TenantPartition(\"\") = %q, %v; want %q", got, err, host.DefaultTenant)
	}
	if got, err := host.TenantPartition("agenthost/queue"); err == nil {
		t.Errorf("TenantPartition of the queue's index = %q, want an error", got)
	}
}

// namedTenants is a history that notes the tenant of each call.
type namedTenants struct{ asked []string }

func (h *namedTenants) Get(_ context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	h.asked = append(h.asked, req.Tenant)
	return &host.Loaded{}, nil
}

func TestRequestsWithoutATenantAreRefused(t *testing.T) {
	for _, tt := range []struct {
		tenant string
		single bool
		acts   string    // for whom it acts
		code   host.Code // or how it is refused
	}{
		{tenant: "", code: host.Unauthenticated},
		{tenant: host.DefaultTenant, code: host.InvalidArgument},
		{tenant: "agenthost/queue", code: host.InvalidArgument},
		{tenant: "acme", acts: "acme"},
		{tenant: "", single: true, acts: host.DefaultTenant},
		{tenant: host.DefaultTenant, single: true, acts: host.DefaultTenant},
		{tenant: "acme", single: true, acts: "acme"},
		{tenant: "a\x00", single: true, code: host.InvalidArgument},
	} {
		kept := &namedTenants{}
		history, err := host.NewHistory(kept, nil)
		if err != nil {
			t.Fatal(err)
		}
		model := hosttest.NewModel(hosttest.Say("hello"))
		h, err := host.New(&host.Options{SingleTenant: tt.single, Model: model, History: history, Journal: hosttest.NewJournal()})
		if err != nil {
			t.Fatal(err)
		}
		agent := newAgent(t, nil)
		check := func(call string, err error, otherwise host.Code) {
			t.Helper()
			want := tt.code
			if want == "" {
				want = otherwise
			}
			if got := host.CodeOf(err); err != nil && got != want || err == nil && want != "" {
				t.Errorf("single %v, tenant %q: %s = %v, want code %q", tt.single, tt.tenant, call, err, want)
			}
		}
		_, err = h.Run(t.Context(), agent, &host.Request{Tenant: tt.tenant, Thread: "t", Text: "hi"})
		check("Run", err, "")
		_, err = h.Questions(t.Context(), agent, tt.tenant, "run")
		check("Questions", err, host.NotFound)
		_, err = h.Run(t.Context(), agent, &host.Request{Tenant: tt.tenant, Resume: "run"})
		check("Run that resumes", err, host.NotFound)
		check("Admit", h.Admit(t.Context(), agent, tt.tenant), "")
		if tt.code != "" {
			if len(kept.asked) != 0 || len(model.Requests()) != 0 {
				t.Errorf("single %v, tenant %q: the history was asked for %q, the model %d times; want nothing", tt.single, tt.tenant, kept.asked, len(model.Requests()))
			}
			continue
		}
		if len(model.Requests()) != 1 || model.Requests()[0].Scope.Tenant != tt.acts || len(kept.asked) == 0 || kept.asked[0] != tt.acts {
			t.Errorf("single %v, tenant %q: the history was asked for %q, want %q", tt.single, tt.tenant, kept.asked, tt.acts)
		}
	}
}

// What a host without tenants has stored stays that of hosts with a single tenant,
// and no customer of a host with several reads it by its name.
func TestThreadsOfASingleTenantStayItsOwn(t *testing.T) {
	store := hosttest.NewHistory()
	store.Seed("", "t", host.UserText("the salary list"))
	history, err := host.NewHistory(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"", host.DefaultTenant, "acme", "Default"} {
		for _, single := range []bool{true, false} {
			model := hosttest.NewModel(hosttest.Say("hello"))
			h, err := host.New(&host.Options{SingleTenant: single, Model: model, History: history})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Run(t.Context(), newAgent(t, nil), &host.Request{Tenant: tenant, Thread: "t"}); err != nil && single && tenant == "" {
				t.Errorf("Run of the single tenant: %v", err)
			}
			shown := false
			for _, req := range model.Requests() {
				shown = shown || req.Messages[0].Text() == "the salary list"
			}
			if want := single && (tenant == "" || tenant == host.DefaultTenant); shown != want {
				t.Errorf("single %v, tenant %q: the model is shown the thread: %v, want %v", single, tenant, shown, want)
			}
		}
	}
}

func TestAgentThreadsWithoutATenantAreTheSingleTenants(t *testing.T) {
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say("1"), hosttest.Say("2"), hosttest.Say("3"), hosttest.Say("4"))})
	several, err := host.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host            *host.Host
		thread, request string
		code            host.Code
	}{
		{newHost(t, nil), "", "", ""},
		{newHost(t, nil), "", host.DefaultTenant, ""},
		{newHost(t, nil), host.DefaultTenant, "", ""},
		{newHost(t, nil), "acme", "", host.PermissionDenied},
		{several, "", "", host.Unauthenticated},
		{several, "", "acme", host.PermissionDenied},
		{several, "acme", "acme", ""},
	} {
		thread, err := agent.NewThread(t.Context(), &host.ThreadOptions{Tenant: tt.thread})
		if err != nil {
			t.Fatal(err)
		}
		_, err = tt.host.Run(t.Context(), agent, &host.Request{Tenant: tt.request, AgentThread: thread, Text: "hi"})
		if host.CodeOf(err) != tt.code && (err != nil || tt.code != "") {
			t.Errorf("thread of %q, request of %q: %v, want code %q", tt.thread, tt.request, err, tt.code)
		}
	}
}
