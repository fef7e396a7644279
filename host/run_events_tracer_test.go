package host_test

import (
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
)

// eventRecorder is a Tracer that keeps what it is given.
type eventRecorder struct {
	mu     sync.Mutex
	events []host.Event
	scopes []host.Scope
}

func (r *eventRecorder) Trace(scope host.Scope, ev host.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.scopes = append(r.events, ev), append(r.scopes, scope)
}

func TestATracerGetsWhatReadersGet(t *testing.T) {
	helper, err := host.NewAgent("helper", &host.AgentOptions{Description: "helps", Model: hosttest.NewModel(hosttest.Say("help"))})
	if err != nil {
		t.Fatal(err)
	}
	tool, err := host.NewAgentTool(helper, nil)
	if err != nil {
		t.Fatal(err)
	}
	boss, err := host.NewAgent("boss", &host.AgentOptions{Tools: []*host.Tool{tool},
		Model: hosttest.NewModel(hosttest.Call("helper", `{"request":"help"}`), hosttest.Say("done"))})
	if err != nil {
		t.Fatal(err)
	}
	rec := &eventRecorder{}
	h, err := host.New(&host.Options{SingleTenant: true, Trace: rec})
	if err != nil {
		t.Fatal(err)
	}
	var read []int64
	for ev, err := range h.Stream(t.Context(), boss, &host.Request{Tenant: "acme", Text: "go"}) {
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, ev.Seq)
	}
	if len(rec.events) != len(read) || len(read) < 5 {
		t.Fatalf("the tracer got %d events, the reader %d", len(rec.events), len(read))
	}
	for i, ev := range rec.events {
		if ev.Seq != read[i] || rec.scopes[i].Tenant != "acme" {
			t.Errorf("event %d is number %d of tenant %q, want %d of acme", i, ev.Seq, rec.scopes[i].Tenant, read[i])
		}
	}
	// A reader that leaves does not end the trace.
	rec.events = nil
	for range h.Stream(t.Context(), helper, &host.Request{Tenant: "acme", Text: "go"}) {
		break
	}
	if n := len(rec.events); n == 0 {
		t.Fatal("no event")
	} else if _, ended := rec.events[n-1].Data.(*runevent.RunFinished); !ended {
		t.Errorf("after its reader has left, a trace ends with %T", rec.events[n-1].Data)
	}
}
