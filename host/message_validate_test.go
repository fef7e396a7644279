package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
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
		"an unknown member":  {Input: message(&host.Text{Text: "hi", Extra: host.Extra{{Name: "\xff", Value: json.RawMessage("1")}}})},
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
	for _, thread := range []string{strings.Repeat("x", host.MaxIDBytes+1), "a\tb", "a\x1b[1m", "\xff"} {
		if _, err := h.Run(context.Background(), agent, &host.Request{Text: "hi", Thread: thread}); host.CodeOf(err) != host.InvalidArgument || len(err.Error()) > 200 {
			t.Errorf("Run in thread %.10q = %v, want a short invalid_argument", thread, err)
		}
	}
}

// encoding/json escapes what HTML would misread and removes white space: a message
// that a program keeps as it writes it has the checksum that it had.
func TestChecksumSurvivesEncodingJSON(t *testing.T) {
	for _, content := range []string{`"<b> & </b>"`, `{"a": "<", "b": [1, "\u2028 \u0026 \\u003c \\\" & "] }`, "\"\u2029\"", `"\\"`, `{ }`} {
		m := host.NewMessage(host.ToolRole, &host.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(content)})
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back := &host.Message{}
		if err := json.Unmarshal(raw, back); err != nil {
			t.Fatal(err)
		}
		if m.Checksum() != back.Checksum() {
			t.Errorf("content %s: the checksum changes through %s", content, raw)
		}
	}
	one := host.NewMessage(host.ToolRole, &host.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(`"\\u003c"`)})
	two := host.NewMessage(host.ToolRole, &host.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(`"\\<"`)})
	two.CreatedAt = one.CreatedAt
	if one.Checksum() == two.Checksum() {
		t.Error("a backslash before u003c is taken for an escape")
	}
}

func TestPartsKeepTheirTypeInJSON(t *testing.T) {
	parts := []host.Part{
		&host.Text{Text: "<hi>"}, &host.Reasoning{Text: "hm", Signature: "s"},
		&host.ToolCall{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"n":1}`)},
		&host.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(`"x"`), IsError: true},
		&host.Media{MediaType: "image/png", Data: []byte{1, 2}}, &host.Data{Value: json.RawMessage(`[1]`)},
		&host.Unknown{Kind: "later", JSON: json.RawMessage(`{"type":"later","x":1}`)},
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	back, err := host.DecodeParts(raw)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(0, 0)
	want := (&host.Message{Role: host.User, CreatedAt: at, Parts: parts}).Checksum()
	if got := (&host.Message{Role: host.User, CreatedAt: at, Parts: back}).Checksum(); got != want {
		t.Errorf("%s is read as %v", raw, back)
	}
	if _, err := host.DecodeParts([]byte(`[{"text":"no type"}]`)); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("DecodeParts of a part without a type = %v", err)
	}
}
