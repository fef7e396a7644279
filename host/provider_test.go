package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
)

// memory is a provider that also observes.
type memory struct {
	name     string
	provided *host.Provided
	err      error
	failsTo  string // observe
	observed []string
}

func (m *memory) Name() string { return m.name }
func (m *memory) Provide(_ context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	return m.provided, m.err
}

func (m *memory) Observe(_ context.Context, req *host.ObserveRequest) (*host.Cost, error) {
	m.observed = append(m.observed, fmt.Sprintf("%d messages, %d responses, error %q of %s", len(req.Messages), len(req.Responses), host.CodeOf(req.Err), req.Scope.Agent))
	if m.failsTo == "observe" {
		return &host.Cost{Instructions: 7}, errors.New("cannot learn")
	}
	return nil, nil
}

func TestProvidersAddWhatTheyKnow(t *testing.T) {
	recall := tool("recall", func(context.Context, *host.Call) (string, error) { return "blue", nil })
	known := host.UserText("My name is Ada.")
	of := &memory{name: "memory", provided: &host.Provided{Instructions: "She likes blue.", Messages: []*host.Message{known}, Tools: []*host.Tool{recall}, Cost: &host.Cost{Instructions: 5}}}
	none := &memory{name: "none"}
	history := hosttest.NewHistory()
	model := hosttest.NewModel(hosttest.Call("recall", "{}"), hosttest.Say("Hello Ada."))
	agent := newAgent(t, &host.AgentOptions{Model: model, Instructions: "You greet.", Providers: []host.Provider{of, none}, ToolChoice: "recall", History: newHistory(t, history)})
	result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, m := range model.Requests()[0].Messages {
		sent = append(sent, string(m.Role)+": "+m.Text())
	}
	if diff := cmp.Diff([]string{"system: You greet.\nShe likes blue.", "user: My name is Ada.", "user: hi"}, sent); diff != "" {
		t.Errorf("the model is sent (-want +got):\n%s", diff)
	}
	if got := contents(result); len(got) != 1 || got[0] != "blue" {
		t.Errorf("the provided tool answers %q", got)
	}
	for _, m := range history.Messages("", "T") {
		if m.ID == known.ID {
			t.Error("a provided message was stored")
		}
	}
	if result.Cost.Instructions != 5 {
		t.Errorf("the run's cost is %+v", result.Cost)
	}
	want := `1 messages, 3 responses, error "" of clerk`
	if len(of.observed) != 1 || of.observed[0] != want || len(none.observed) != 1 {
		t.Errorf("observed %q and %q, want %q", of.observed, none.observed, want)
	}
}

func TestANetworksProvidersComeFirst(t *testing.T) {
	provider := func(name string) host.Provider {
		return &memory{name: name, provided: &host.Provided{Instructions: name}}
	}
	model := says("x")
	agent := newAgent(t, &host.AgentOptions{Model: model, Providers: []host.Provider{provider("agent's")}})
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("clerk"), Providers: []host.Provider{provider("network's")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	if got := model.Requests()[0].Messages[0].Text(); got != "network's\nagent's" {
		t.Errorf("instructions are %q", got)
	}
}

func TestProvidersThatFail(t *testing.T) {
	work := tool("work", func(context.Context, *host.Call) (string, error) { return "", nil })
	orphan := host.NewMessage(host.ToolRole, &host.ToolResult{ID: "1", Name: "n"})
	for name, c := range map[string]struct {
		provider *memory
		choice   host.ToolChoice
		says     string
	}{
		"by itself":             {&memory{name: "p", err: host.Errorf(host.Unavailable, "no memory")}, "", `provider "p": no memory`},
		"with a nil message":    {&memory{name: "p", provided: &host.Provided{Messages: []*host.Message{nil}}}, "", "message 0 is nil"},
		"with a lonely result":  {&memory{name: "p", provided: &host.Provided{Messages: []*host.Message{orphan}}}, "", "no open call"},
		"with a tool twice":     {&memory{name: "p", provided: &host.Provided{Tools: []*host.Tool{work}}}, "", `two tools are named "work"`},
		"with a nil tool":       {&memory{name: "p", provided: &host.Provided{Tools: []*host.Tool{nil}}}, "", "tool 1"},
		"without a chosen tool": {&memory{name: "p"}, "recall", `tool choice "recall"`},
	} {
		t.Run(name, func(t *testing.T) {
			model := says("x")
			agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{work}, Providers: []host.Provider{c.provider}, ToolChoice: c.choice})
			_, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi"})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Run: %v, want %q", err, c.says)
			}
			if len(model.Requests()) != 0 {
				t.Error("the model was asked")
			}
			if len(c.provider.observed) != 1 || !strings.Contains(c.provider.observed[0], "0 responses") || strings.Contains(c.provider.observed[0], `error ""`) {
				t.Errorf("observed %q, want the failure", c.provider.observed)
			}
		})
	}
}

// observed is a provider that says whether it was asked and told.
type observed struct {
	name  string
	err   error
	calls *[]string
}

func (o observed) Name() string { return o.name }
func (o observed) Provide(context.Context, *host.ProvideRequest) (*host.Provided, error) {
	*o.calls = append(*o.calls, "asks "+o.name)
	return nil, o.err
}
func (o observed) Observe(context.Context, *host.ObserveRequest) (*host.Cost, error) {
	*o.calls = append(*o.calls, "tells "+o.name)
	return nil, nil
}

// A provider is told how a run went that it was asked in, and of no other.
func TestOnlyProvidersThatWereAskedAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		second, instructions error
		want                 []string
	}{
		"all goes well":     {nil, nil, []string{"asks a", "asks b", "asks c", "tells a", "tells b", "tells c"}},
		"the second fails":  {host.Errorf(host.Unavailable, "away"), nil, []string{"asks a", "asks b", "tells a", "tells b"}},
		"instructions fail": {nil, host.Errorf(host.Unavailable, "away"), nil},
	} {
		var calls []string
		providers := []host.Provider{observed{"a", nil, &calls}, observed{"b", c.second, &calls}, observed{"c", nil, &calls}}
		a, err := host.NewAgent("agent", &host.AgentOptions{Model: says("x"), Providers: providers,
			InstructionsFunc: func(context.Context, *host.InstructionsRequest) (string, error) { return "", c.instructions }})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = newHost(t, nil).Run(t.Context(), a, &host.Request{Text: "hi"}) // how it ends is not asked here
		if diff := cmp.Diff(c.want, calls); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAnObserverHearsOfAFailureAndMayFailItself(t *testing.T) {
	p := &memory{name: "p", failsTo: "observe"}
	agent := newAgent(t, &host.AgentOptions{Providers: []host.Provider{p}, Model: hosttest.NewModel(hosttest.Fail(host.Errorf(host.Unavailable, "down")))})
	events, err := collect(t, newHost(t, nil), agent, &host.Request{Text: "hi"})
	if host.CodeOf(err) != host.Unavailable {
		t.Errorf("Run: %v, want code %s: an observer's failure is not the run's", err, host.Unavailable)
	}
	if want := `1 messages, 0 responses, error "unavailable" of clerk`; len(p.observed) != 1 || p.observed[0] != want {
		t.Errorf("observed %q, want %q", p.observed, want)
	}
	told := false
	for _, ev := range events {
		if d, ok := ev.Data.(*runevent.ProviderRan); ok && d.Error != nil && strings.Contains(d.Error.Message, "cannot learn") {
			told = true
		}
	}
	if !told {
		t.Error("no event tells of the observer's failure")
	}
	if last := events[len(events)-1].Data.(*runevent.RunFinished); last.Cost.Instructions != 7 {
		t.Errorf("the run's cost is %+v", last.Cost)
	}
}
