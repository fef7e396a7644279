package threads_test

// Scenario: hooks, processors, context providers and tools write to every message that
// they are given, also after they have returned; the messages that a store keeps decoded
// for later turns, and the thread, stay unchanged.

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

// scribbler writes to messages when it is given them, and again when done is closed.
type scribbler struct {
	done chan struct{}
	runs sync.WaitGroup
	mu   sync.Mutex
	seen map[string]bool // who was given messages
}

func (s *scribbler) scribble(who string, messages []*host.Message) {
	s.mu.Lock()
	s.seen[who] = s.seen[who] || len(messages) > 1
	s.mu.Unlock()
	write := func() {
		for _, m := range messages {
			m.Agent += "x"
			for _, p := range m.Parts {
				switch p := p.(type) {
				case *host.Text:
					p.Text += "scribble"
				case *host.ToolCall:
					p.Arguments = append(p.Arguments[:0], `{"scribble":1}`...)
				case *host.ToolResult:
					p.Content = append(p.Content[:0], `"scribble"`...)
				}
			}
		}
	}
	write()
	s.runs.Go(func() {
		<-s.done
		write()
	})
}

func (s *scribbler) Name() string { return "scribbler" }

func (s *scribbler) Provide(_ context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	s.scribble("provider", req.Messages)
	return nil, nil
}

func (s *scribbler) Observe(_ context.Context, req *host.ObserveRequest) (*host.Cost, error) {
	s.scribble("observer", req.Messages)
	return nil, nil
}

func TestScribblesStayWithTheirWriter(t *testing.T) {
	store := threads.New(kv.NewMemory(), nil)
	threadtest.TalkWithIDs(t, store, "t1", 0, 20)
	head := threadtest.Say(t, store, "t1", "called", threadtest.WithID("q", "look"))
	call := threadtest.Calls("calls", "c9")
	call.Parts = append(call.Parts, &host.Text{Text: "a moment"})
	threadtest.Answer(t, store, "t1", "called", head, call, threadtest.Result("c9"), threadtest.Assistant("end", "seen"))
	s := &scribbler{done: make(chan struct{}), seen: map[string]bool{}}
	tool := host.NewTool("look", "Looks up an order.", func(_ context.Context, c *host.Call, _ struct {
		Order int `json:"order"`
	}) (string, error) {
		s.scribble("tool", c.SoFar.Messages())
		return "shipped", nil
	}, nil)
	dropped := llm.ProcessorFunc("dropped", func(_ context.Context, messages []*host.Message) ([]*host.Message, error) {
		s.scribble("processor", messages)
		return nil, fmt.Errorf("it fails")
	})
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: lookingModel{}, Tools: []*host.Tool{tool}, Providers: []host.Provider{s},
		Processors: []host.Processor{llm.Optional(dropped)},
		InstructionsFunc: func(_ context.Context, req *host.InstructionsRequest) (string, error) {
			s.scribble("instructions", req.SoFar.Messages())
			return "You answer questions.", nil
		},
		Hooks: host.Hooks{
			Start: func(_ context.Context, at *host.StartHook) error {
				s.scribble("start hook", at.Messages)
				s.scribble("start hook so far", at.SoFar.Messages())
				return nil
			},
			ToolStart: func(_ context.Context, at *host.ToolStartHook) error {
				s.scribble("tool hook", at.SoFar.Messages())
				return nil
			},
		}})
	if err != nil {
		t.Fatal(err)
	}
	history, err := host.NewHistory(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true, History: history})
	if err != nil {
		t.Fatal(err)
	}
	before := threadtest.Load(t, store, "t1").Messages
	want := jsonOf(before)
	for range 4 {
		if _, err := h.Run(t.Context(), agent, &host.Request{Thread: "t1", Text: "where is order 1042?"}); err != nil {
			t.Fatal(err)
		}
	}
	close(s.done)
	after := threadtest.Load(t, store, "t1").Messages
	if diff := cmp.Diff(want, jsonOf(after)[:len(want)]); diff != "" {
		t.Errorf("the messages that were there (-want +got):\n%s", diff)
	}
	s.runs.Wait()
	if diff := cmp.Diff(jsonOf(threadtest.Load(t, threads.New(store.Driver(), nil), "t1").Messages), jsonOf(threadtest.Load(t, store, "t1").Messages)); diff != "" {
		t.Errorf("the kept messages differ from the stored ones (-want +got):\n%s", diff)
	}
	for _, who := range []string{"provider", "observer", "tool", "processor", "instructions", "start hook", "start hook so far", "tool hook"} {
		if !s.seen[who] {
			t.Errorf("%s was given no messages", who)
		}
	}
}

type scribblingReducer struct{}

func (scribblingReducer) Reduce(_ context.Context, v *llm.View) ([]*host.Message, error) {
	for _, m := range v.Messages {
		m.Parts[0].(*host.Text).Text = "scribble"
	}
	v.Messages = v.Messages[:0]
	return nil, context.Canceled
}

// A reducer that writes to the messages it is given, and fails, changes nothing.
func TestScribblesOfAReducerStayItsOwn(t *testing.T) {
	store := threads.New(kv.NewMemory(), nil)
	threadtest.TalkWithIDs(t, store, "t1", 0, 5)
	want := threadtest.Texts(threadtest.Load(t, store, "t1").Messages)
	if _, err := store.For("").Reduce(t.Context(), "t1", scribblingReducer{}, nil); err == nil {
		t.Error("the reducer's error is lost")
	}
	if diff := cmp.Diff(want, threadtest.Texts(threadtest.Load(t, store, "t1").Messages)); diff != "" {
		t.Errorf("after a reducer (-want +got):\n%s", diff)
	}
}

func jsonOf(messages []*host.Message) (out []string) {
	for _, m := range messages {
		raw, _ := json.Marshal(json.RawMessage(m.AppendJSON(nil)))
		out = append(out, string(raw))
	}
	return out
}
