package project_test

import (
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// within waits until ok, for a second.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > time.Minute { // longer than the promise, for machines that are slow
			t.Fatalf("%s: not after %s", what, time.Since(begun))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(begun); took > time.Second {
		t.Logf("%s: after %s, want a second", what, took.Round(time.Millisecond))
	}
}

// remember makes a host run a turn of a tenant, so that its memory has the conversation.
func remember(t *testing.T, p *project.Project, tenant string) (run string) {
	t.Helper()
	target, err := p.Target("")
	if err != nil {
		t.Fatal(err)
	}
	var id string
	for range 2 { // the second turn reads the window
		r, err := p.Runs().Start(t.Context(), target, &host.Request{Tenant: tenant, Thread: "t1", Text: "hi"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Runs().Wait(t.Context(), tenant, r.ID); err != nil {
			t.Fatal(err)
		}
		id = r.ID
	}
	return id
}

func cached(t *testing.T, p *project.Project, tenant string) int {
	t.Helper()
	n, err := p.Threads().CountCached(tenant)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAnErasedTenantIsInTheMemoryOfNoHost(t *testing.T) {
	address := pgkvtest.URL(t)
	a, b := serve(t, address), serve(t, address)
	run := remember(t, b, "acme")
	remember(t, b, "globex")
	if cached(t, b, "acme") == 0 {
		t.Fatal("b has no decoded messages of acme, so that the test shows nothing")
	}
	if err := a.Erasures().Delete(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if n := cached(t, b, "acme"); n != 0 {
		t.Errorf("b has %d decoded conversations of acme", n)
	}
	if _, err := b.Runs().Get(t.Context(), "acme", run); host.CodeOf(err) != host.NotFound {
		t.Errorf("b has a run of acme: %v", err)
	}
	if cached(t, b, "globex") == 0 {
		t.Error("b has forgotten another tenant")
	}
	if r, err := a.Erasures().Prove(t.Context(), "acme"); err != nil || !r.Gone {
		t.Errorf("Prove = %+v, %v", r, err)
	}
}

func TestARepairedThreadIsDecodedAgainOnEveryHost(t *testing.T) {
	address := pgkvtest.URL(t)
	a, b := serve(t, address), serve(t, address)
	remember(t, b, "acme")
	if cached(t, b, "acme") == 0 {
		t.Fatal("b has no decoded messages of acme, so that the test shows nothing")
	}
	if _, err := a.Threads().For("acme").Repair(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	within(t, "b has dropped the decoded messages", func() bool { return cached(t, b, "acme") == 0 })
}
