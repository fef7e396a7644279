package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
)

// JSON has no way to write a string that is not UTF-8, and encoding one writes
// U+FFFD: input of that kind is refused, not changed.
func TestInputThatIsNotUTF8IsRefused(t *testing.T) {
	model := hosttest.NewModel(hosttest.Reply{Text: "hi"})
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	message := func(p host.Part) *host.Message { return &host.Message{Role: host.User, Parts: []host.Part{p}} }
	for name, req := range map[string]*host.Request{
		"the text":           {Text: "caf\xe9"},
		"a message's text":   {Input: message(&host.Text{Text: "caf\xe9"})},
		"a media type":       {Input: message(&host.Media{MediaType: "image/\xff"})},
		"a name of metadata": {Input: &host.Message{Role: host.User, Metadata: map[string]json.RawMessage{"\xff": json.RawMessage("1")}, Parts: []host.Part{&host.Text{Text: "hi"}}}},
		"an unknown member":  {Input: message(&host.Text{Text: "hi", Extra: chat.Extra{{Name: "\xff", Value: json.RawMessage("1")}}})},
		"a value":            {Input: message(&host.Data{Value: json.RawMessage("\"\xff\"")})},
	} {
		_, err := h.Run(context.Background(), agent, req)
		if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%s: Run = %v, want invalid_argument that says UTF-8", name, err)
		}
	}
	if n := len(model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestThreadNamesAreRefusedWithoutAStoreToo(t *testing.T) {
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Reply{Text: "hi"})})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range []string{strings.Repeat("x", chat.MaxIDBytes+1), "a\tb", "a\x1b[1m", "\xff"} {
		if _, err := h.Run(context.Background(), agent, &host.Request{Text: "hi", Thread: thread}); host.CodeOf(err) != host.InvalidArgument || len(err.Error()) > 200 {
			t.Errorf("Run in thread %.10q = %v, want a short invalid_argument", thread, err)
		}
	}
}
