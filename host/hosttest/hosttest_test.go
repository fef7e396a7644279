package hosttest_test

// Scenario: adapters, processors and models, some of them faulty, meet the kits and
// fakes of the package.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

func TestHistoryInMemoryPassesItsOwnKit(t *testing.T) {
	hosttest.TestHistory(t, func(*testing.T) any { return hosttest.NewHistory() }, &hosttest.HistoryOptions{
		Status: func(t *testing.T, adapter any, _, _ string) host.FinishReason {
			turns := adapter.(*hosttest.History).Turns()
			return turns[len(turns)-1].Status
		},
	})
}

// lossyKeeps is what a store with columns for text and tools alone keeps of a message.
func lossyKeeps(m *host.Message) *host.Message {
	kept := &host.Message{ID: m.ID, Role: m.Role, Agent: m.Agent, CreatedAt: m.CreatedAt.Truncate(time.Millisecond)}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *host.Text:
			kept.Parts = append(kept.Parts, &host.Text{Text: p.Text})
		case *host.ToolCall:
			kept.Parts = append(kept.Parts, &host.ToolCall{ID: p.ID, Name: p.Name, Arguments: p.Arguments})
		case *host.ToolResult:
			kept.Parts = append(kept.Parts, &host.ToolResult{ID: p.ID, Name: p.Name, Content: p.Content, IsError: p.IsError})
		}
	}
	return kept
}

// lossy is such a store.
func lossy() *broken {
	return &broken{loaded: func(l *host.Loaded) {
		l.State, l.Providers = nil, nil
		for i, m := range l.Messages {
			l.Messages[i] = lossyKeeps(m.Clone())
		}
	}}
}

// An adapter that keeps less than all, and says so, is held to the rest.
func TestTheKitTakesWhatAnAdapterDoesNotKeep(t *testing.T) {
	hosttest.TestHistory(t, func(*testing.T) any { return lossy().fresh() },
		&hosttest.HistoryOptions{NoState: true, NoProviders: true, Keeps: lossyKeeps})
}

func TestProcessorKitOnAProcessorThatChangesNothing(t *testing.T) {
	keep := host.ProcessorFunc("keep", func(_ context.Context, messages []*host.Message) ([]*host.Message, error) {
		return messages, nil
	})
	view := []*host.Message{host.UserText("hello")}
	hosttest.TestProcessor(t, keep, []hosttest.ProcessorCase{{Name: "keeps all", View: view, Want: view}})
}

func TestProcessorKitExpectsErrors(t *testing.T) {
	refuse := host.ProcessorFunc("refuse", func(_ context.Context, messages []*host.Message) ([]*host.Message, error) {
		if len(messages) == 1 && messages[0].Text() == "refuse" {
			return nil, host.Errorf(host.InvalidArgument, "refused")
		}
		return messages, nil
	})
	hosttest.TestProcessor(t, refuse, []hosttest.ProcessorCase{
		{Name: "refuses", View: []*host.Message{host.UserText("refuse")}, Code: host.InvalidArgument}})
}

func TestModelSaysThatItsScriptHasEnded(t *testing.T) {
	m := hosttest.NewModel(hosttest.Say("one"))
	ask := func() (string, error) {
		text := ""
		for chunk, err := range m.Generate(t.Context(), &llm.Request{Messages: []*host.Message{host.UserText("hi")}}) {
			if err != nil {
				return text, err
			}
			text += chunk.Text
		}
		return text, nil
	}
	if text, err := ask(); text != "one" || err != nil {
		t.Errorf("first answer %q, %v; want one", text, err)
	}
	if _, err := ask(); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("second answer: %v; want code %s", err, host.FailedPrecondition)
	}
	if n := len(m.Requests()); n != 2 {
		t.Errorf("the model remembers %d requests, not 2", n)
	}
}

func TestModelStreamsThenFails(t *testing.T) {
	broken := errors.New("broken off")
	m := hosttest.NewModel(hosttest.Reply{Text: "so far", Err: broken})
	text := ""
	var last error
	for chunk, err := range m.Generate(t.Context(), &llm.Request{}) {
		text += chunk.Text
		last = err
	}
	if text != "so far" || !errors.Is(last, broken) {
		t.Errorf("streams %q and ends with %v; want so far, then %v", text, last, broken)
	}
}

func ExampleModel() {
	model := hosttest.NewModel(hosttest.Call("now", `{}`), hosttest.Say("It is noon."))
	now := host.NewTool("now", "Tells the time.", func(context.Context, *host.Call, struct{}) (string, error) {
		return "12:00", nil
	}, nil)
	agent, _ := host.NewAgent("clock", &host.AgentOptions{Model: model, Tools: []*host.Tool{now}})
	h, _ := host.New(&host.Options{SingleTenant: true})

	result, err := h.Run(context.Background(), agent, &host.Request{Text: "What time is it?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text())
	fmt.Println(len(model.Requests()), "requests,", model.Left(), "replies left")
	// Output:
	// It is noon.
	// 2 requests, 0 replies left
}

func TestJournalInMemoryPassesItsOwnKit(t *testing.T) {
	hosttest.TestJournal(t, func(testing.TB) host.Journal { return hosttest.NewJournal() }, nil)
}
