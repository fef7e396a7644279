package stream_test

// Scenario: runs of every kind are encoded as AgentKit's chunks.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/internal/testhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	newHost  = testhost.NewSingle
	newAgent = testhost.NewAgent
)

func look(t testing.TB) *host.Tool {
	return host.NewTool("look", "Looks.", func(_ context.Context, _ *host.Call, in struct {
		Order int `json:"order"`
	}) (string, error) {
		if in.Order == 0 {
			return "", fmt.Errorf("there is no order 0")
		}
		return "shipped", nil
	}, nil)
}

type chunk struct {
	Event          string
	Data           map[string]any
	Timestamp      int64
	SequenceNumber int64
	ID             string
}

// TestAgentKitChunksOfAnyRun holds the chunks of runs with any answers to what
// AgentKit's client relies on.
func TestAgentKitChunksOfAnyRun(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		standalone := rapid.Bool().Draw(rt, "standalone")
		reply := rapid.Custom(func(t *rapid.T) hosttest.Reply {
			r := hosttest.Reply{Reasoning: rapid.SampledFrom([]string{"", "Hm."}).Draw(t, "reasoning"), Text: rapid.SampledFrom([]string{"", "two words"}).Draw(t, "text")}
			for range rapid.IntRange(0, 3).Draw(t, "calls") {
				r = r.Call(rapid.SampledFrom([]string{"look", "unknown"}).Draw(t, "tool"), rapid.SampledFrom([]string{`{"order":1}`, `{"order":0}`, `{`, ``}).Draw(t, "arguments"))
			}
			if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
				r.Err = host.Errorf(host.Unavailable, "broke off")
			}
			return r
		})
		replies := append(rapid.SliceOfN(reply, 0, 4).Draw(rt, "replies"), hosttest.Say("done"))
		agent := newAgent(t, "clerk", &host.AgentOptions{Description: "Looks.", Model: hosttest.NewModel(replies...), Tools: []*host.Tool{look(t)}})
		var target host.Target = agent
		if !standalone {
			network, err := host.NewNetwork("desk", []*host.Agent{agent}, &host.NetworkOptions{Router: host.RouterFunc("twice", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
				if req.CallCount == 2 {
					return nil, nil
				}
				return &host.Route{Next: []string{"clerk"}}, nil
			})})
			if err != nil {
				t.Fatal(err)
			}
			target = network
		}
		var chunks []chunk
		e := stream.AgentKit(&stream.AgentKitOptions{Standalone: standalone})
		var failed bool
		for ev, err := range newHost(t, nil).Stream(t.Context(), target, &host.Request{Text: "hi"}) {
			if err != nil {
				failed = true
				continue
			}
			frames, err := e.Encode(nil, ev)
			if err != nil {
				rt.Fatal(err)
			}
			for _, f := range frames {
				var c chunk
				if err := json.Unmarshal(f.Data, &c); err != nil {
					rt.Fatalf("%s: %v", f.Data, err)
				}
				chunks = append(chunks, c)
			}
		}
		checkChunks(rt, chunks, failed)
	})
}

// An answer that is asked for again is another text: a client that puts the
// deltas together must not read both as one.
func TestAgentKitChunksOfAnAnswerThatIsAskedForAgain(t *testing.T) {
	output, err := host.CompileSchema(json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`))
	if err != nil {
		t.Fatal(err)
	}
	agent := newAgent(t, "clerk", &host.AgentOptions{Output: output, Model: hosttest.NewModel(hosttest.Say(`{"n": "one"}`), hosttest.Say(`{"n": 1}`))})
	e := stream.AgentKit(&stream.AgentKitOptions{Standalone: true})
	var finals []any
	for ev, err := range newHost(t, nil).Stream(t.Context(), agent, &host.Request{Text: "hi"}) {
		if err != nil {
			t.Fatal(err)
		}
		frames, err := e.Encode(nil, ev)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			var c chunk
			if err := json.Unmarshal(f.Data, &c); err != nil {
				t.Fatal(err)
			}
			if c.Event == "part.completed" {
				finals = append(finals, c.Data["finalContent"])
			}
		}
	}
	if want := []any{`{"n": "one"}`, `{"n": 1}`}; !slices.Equal(finals, want) {
		t.Errorf("the parts are %q, want %q", finals, want)
	}
}

func checkChunks(t *rapid.T, chunks []chunk, failed bool) {
	open, said, called := map[any]string{}, map[any]string{}, map[any]string{}
	for i, c := range chunks {
		if c.SequenceNumber != int64(i) || c.ID != fmt.Sprintf("publish-%d:%s", i, c.Event) || c.Timestamp == 0 {
			t.Fatalf("chunk %d is %+v", i, c)
		}
		part := c.Data["partId"]
		switch {
		case c.Event == "part.created":
			kind := c.Data["type"].(string)
			if id := part.(string); len(id) > 40 || said[id] != "" && kind != "tool-output" {
				t.Fatalf("part %q is too long or not new", id)
			}
			if open[part], said[part] = kind, ""; kind == "tool-output" && called[part] == "" {
				t.Fatalf("chunk %d is the output of no call: %+v", i, c)
			}
		case strings.HasSuffix(c.Event, ".delta"):
			if open[part] == "" {
				t.Fatalf("chunk %d is of a part that is not open: %+v", i, c)
			}
			said[part] += c.Data["delta"].(string)
		case c.Event == "part.completed":
			if open[part] != c.Data["type"] {
				t.Fatalf("chunk %d completes a part of type %q: %+v", i, open[part], c)
			}
			if final, ok := c.Data["finalContent"].(string); ok && open[part] != "tool-call" && final != said[part] {
				t.Fatalf("the deltas of part %v said %q, its final content is %q", part, said[part], final)
			}
			if delete(open, part); c.Data["type"] == "tool-call" {
				called[part] = "completed"
			}
		}
	}
	if !failed && len(open) > 0 {
		t.Fatalf("parts were never completed: %v", open)
	}
	n := len(chunks)
	last := "run.completed"
	if failed {
		last = "run.failed"
	}
	if chunks[0].Event != "run.started" || chunks[n-2].Event != last || chunks[n-1].Event != "stream.ended" || chunks[n-3].Event == "run.failed" {
		t.Fatalf("the stream begins with %s and ends with %s, %s, %s", chunks[0].Event, chunks[n-3].Event, chunks[n-2].Event, chunks[n-1].Event)
	}
}

func TestLinesStayLines(t *testing.T) {
	f := stream.Frame{ID: "7", Event: "e", Data: []byte("{\n\"a\":\r1}")}
	if got, want := string(stream.AppendSSE(nil, f)), "id: 7\nevent: e\ndata: {\"a\":1}\n\n"; got != want {
		t.Errorf("AppendSSE: %q, want %q", got, want)
	}
	if got, want := string(stream.AppendNDJSON(nil, f)), "{\"a\":1}\n"; got != want {
		t.Errorf("AppendNDJSON: %q, want %q", got, want)
	}
}

// AgentKit cuts finished texts into pieces; so does this for a model that does not
// stream, if it is told to.
func TestAgentKitSimulatesChunking(t *testing.T) {
	text := strings.Repeat("a", 126)
	smileys := strings.Repeat("a", 49) + "🙂🙂"
	for name, c := range map[string]struct {
		simulate bool
		text     string
		want     []int // UTF-16 units of the deltas
	}{
		"126 characters":                   {true, text, []int{50, 50, 26}},
		"one piece, if it is not asked to": {false, text, []int{126}},
		"50 characters":                    {true, text[:50], []int{50}},
		"a character is not cut":           {true, smileys, []int{49, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, "clerk", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say(c.text))})
			e := stream.AgentKit(&stream.AgentKitOptions{SimulateChunking: c.simulate})
			var joined, final string
			var got []int
			for ev, err := range newHost(t, nil).Stream(t.Context(), agent, &host.Request{Text: "hi"}) {
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := ev.Data.(*runevent.TextDelta); ok {
					continue // as of a model that does not stream
				}
				frames, err := e.Encode(nil, ev)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range frames {
					var c chunk
					if err := json.Unmarshal(f.Data, &c); err != nil {
						t.Fatal(err)
					}
					switch c.Event {
					case "text.delta":
						delta := c.Data["delta"].(string)
						joined += delta
						got = append(got, len(utf16.Encode([]rune(delta))))
					case "part.completed":
						final = c.Data["finalContent"].(string)
					}
				}
			}
			if !slices.Equal(got, c.want) || joined != c.text || final != c.text {
				t.Errorf("deltas of %v units, together %q, final %q; want %v of %q", got, joined, final, c.want, c.text)
			}
		})
	}
}
