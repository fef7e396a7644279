package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// The messages of a thread in memory can be changed between turns, and the next turn
// goes on from them; what no model can be sent is refused.
func TestEditMessagesOfAThread(t *testing.T) {
	model := hosttest.NewModel(hosttest.Say("one"), hosttest.Say("two"))
	a, err := host.NewAgent("a", &host.AgentOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	thread, err := a.NewThread(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, nil)
	say := func(text string) {
		t.Helper()
		if _, err := h.Run(t.Context(), a, &host.Request{AgentThread: thread, Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	say("secret")
	edited := func(m []*host.Message) ([]*host.Message, error) {
		return append([]*host.Message{host.UserText("harmless")}, m[1:]...), nil
	}
	if err := thread.EditMessages(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	say("on")
	got := brief(model.Requests()[1].Messages)
	if diff := cmp.Diff([]string{"u:harmless", "a:one", "u:on"}, got); diff != "" {
		t.Error(diff)
	}
	before, _ := thread.Messages(t.Context())
	failure := errors.New("no")
	for name, c := range map[string]struct {
		edit func([]*host.Message) ([]*host.Message, error)
		code host.Code
	}{
		"fails":                 {func([]*host.Message) ([]*host.Message, error) { return nil, failure }, host.Internal},
		"a message that is nil": {func(m []*host.Message) ([]*host.Message, error) { return append(m, nil), nil }, host.InvalidArgument},
		"a result without a call": {func(m []*host.Message) ([]*host.Message, error) {
			return append(m, host.NewMessage(host.ToolRole, &host.ToolResult{ID: "c", Content: json.RawMessage("1")})), nil
		}, host.InvalidArgument},
	} {
		if err := thread.EditMessages(t.Context(), c.edit); host.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want code %s", name, err, c.code)
		}
	}
	if after, _ := thread.Messages(t.Context()); !slices.Equal(before, after) {
		t.Errorf("edits that failed left %q", brief(after))
	}
	fixed, err := a.NewThread(t.Context(), &host.ThreadOptions{Store: fixedStore{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := fixed.EditMessages(t.Context(), func(m []*host.Message) ([]*host.Message, error) { return m, nil }); host.CodeOf(err) != host.Unimplemented {
		t.Errorf("of a store that cannot: %v", err)
	}
}

// fixedStore is a message store that has nothing and panics when it is written to.
type fixedStore struct{}

func (fixedStore) AddMessages(context.Context, []*host.Message) error    { panic("the disk is away") }
func (fixedStore) ListMessages(context.Context) ([]*host.Message, error) { return nil, nil }
func (fixedStore) Serialize(context.Context) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}

type panickingReducer struct{}

func (panickingReducer) Reduce(context.Context, *host.View) ([]*host.Message, error) {
	panic("the scissors are away")
}

type panickingHistory struct{}

func (panickingHistory) Get(context.Context, *host.HistoryRequest) (*host.Loaded, error) {
	panic("the book is away")
}

// The log of a panic in a store, a reducer or an adapter has its type and the text.
func TestPanicsAreLoggedWithTheirName(t *testing.T) {
	reduced, err := host.NewMemoryMessages(&host.MemoryMessagesOptions{Reducer: panickingReducer{}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		store   host.MessageStore
		stores  host.MessageStores
		history any
		want    []string
	}{
		"a store":    {store: fixedStore{}, want: []string{"message store host_test.fixedStore", "the disk is away"}},
		"a reducer":  {stores: reduced, want: []string{"reducer host_test.panickingReducer", "the scissors are away"}},
		"an adapter": {history: panickingHistory{}, want: []string{"host_test.panickingHistory", "the book is away"}},
	} {
		var log bytes.Buffer
		h := newHost(t, &host.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		opts := &host.AgentOptions{Model: says("x"), Messages: c.stores}
		if c.history != nil {
			opts.History = newHistory(t, c.history)
		}
		a, err := host.NewAgent("a", opts)
		if err != nil {
			t.Fatal(err)
		}
		req := &host.Request{Text: "hi", Thread: "t"}
		if c.history == nil {
			req.Thread = ""
			if req.AgentThread, err = a.NewThread(t.Context(), &host.ThreadOptions{Store: c.store}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.Run(t.Context(), a, req); host.CodeOf(err) != host.Internal {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the log does not have %q: %s", name, want, log.String())
			}
		}
	}
}

// A message whose answer was edited since is asked again: what stands where the answer
// stood is not taken for it.
func TestAMessageWhoseAnswerWasEditedIsAskedAgain(t *testing.T) {
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "a map", nil }, nil)
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{look},
		Model: hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("There."), hosttest.Say("Later."), hosttest.Say("Here."))})
	thread, err := agent.NewThread(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, nil)
	ask := func(id, text string) *host.RunResult {
		t.Helper()
		req := resend(id, text)
		req.Thread, req.AgentThread = "", thread
		r, err := h.Run(t.Context(), agent, req)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	ask("m1", "Where?")
	ask("m2", "When?")
	err = thread.EditMessages(t.Context(), func(m []*host.Message) ([]*host.Message, error) {
		return slices.Delete(slices.Clone(m), 3, 4), nil // "There."
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := ask("m1", "Where?"); r.Replayed || r.Text() != "Here." {
		t.Errorf("the answer is %q (replayed %t): %v", r.Text(), r.Replayed, brief(r.Results[0].Messages))
	}
	if r := ask("m2", "When?"); !r.Replayed || r.Text() != "Later." {
		t.Errorf("the answer that nobody edited is %q (replayed %t)", r.Text(), r.Replayed)
	}
}
