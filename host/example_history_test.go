package host_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// notebook is a history adapter of one's own: any value with some of the four
// methods. A real one has a database where this has a map.
type notebook struct {
	mu      sync.Mutex
	threads map[[2]string]*host.Loaded // by tenant and thread
}

// thread returns a thread, which it makes if there is none.
func (n *notebook) thread(tenant, id string) (t *host.Loaded, created bool) {
	key := [2]string{tenant, id}
	if n.threads[key] == nil {
		n.threads[key], created = &host.Loaded{Tenant: tenant, Thread: id}, true
	}
	return n.threads[key], created
}

func (n *notebook) CreateThread(_ context.Context, req *host.HistoryRequest) (string, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := req.Thread
	if id == "" {
		id = host.NewID()
	}
	_, created := n.thread(req.Tenant, id)
	return id, created, nil
}

func (n *notebook) AppendUserMessage(_ context.Context, req *host.HistoryRequest) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(req, req.Input)
	return "", nil // no head, so racing turns are not told from each other
}

func (n *notebook) Get(_ context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	loaded, _ := n.thread(req.Tenant, req.Thread)
	copied := *loaded
	copied.Messages = slices.Clone(loaded.Messages)
	return &copied, nil
}

func (n *notebook) AppendResults(_ context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(req, turn.Messages()...)
	t, _ := n.thread(req.Tenant, req.Thread)
	if turn.State != nil { // the state of the conversation
		t.State = turn.State
	}
	if turn.Providers != nil { // and what context providers keep in it
		t.Providers = turn.Providers
	}
	return nil
}

// add keeps each message once: a write may be sent again.
func (n *notebook) add(req *host.HistoryRequest, messages ...*host.Message) {
	t, _ := n.thread(req.Tenant, req.Thread)
	for _, m := range messages {
		if !slices.ContainsFunc(t.Messages, func(known *host.Message) bool { return known.ID == m.ID }) {
			t.Messages = append(t.Messages, m)
		}
	}
}

// The first request of a session names the thread, and the server loads it. The
// client then sends the conversation as it has it, and nothing is loaded. What
// is new is stored in both.
func ExampleNewHistory() {
	notes := &notebook{threads: map[[2]string]*host.Loaded{}}
	history, _ := host.NewHistory(notes, nil)
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		return hosttest.Say(fmt.Sprintf("I see %d messages.", len(req.Messages)))
	})
	agent, _ := host.NewAgent("clerk", &host.AgentOptions{Model: model, History: history})
	h, _ := host.New(&host.Options{SingleTenant: true})

	ask := func(text string, sent []*host.Message) {
		result, err := h.Run(context.Background(), agent, &host.Request{Tenant: "acme", Thread: "t1", Text: text, Messages: sent})
		if err != nil {
			fmt.Println(err)
			return
		}
		thread, _ := notes.thread("acme", "t1")
		fmt.Println(result.Text(), len(thread.Messages), "are stored.")
	}
	ask("Hello.", nil)
	ask("And now?", nil)
	thread, _ := notes.thread("acme", "t1")
	ask("From the client.", thread.Messages[2:])
	// Output:
	// I see 1 messages. 2 are stored.
	// I see 3 messages. 4 are stored.
	// I see 3 messages. 6 are stored.
}

// An adapter of one's own is held to the rules of the shipped ones.
func TestTheExampleOfAHistoryPassesTheKit(t *testing.T) {
	hosttest.TestHistory(t, func(*testing.T) any { return &notebook{threads: map[[2]string]*host.Loaded{}} }, nil)
}
