package stream_test

// Scenario: AgentKit's own client, the hook useAgent, reads the chunks of runs.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/internal/testhost"
	"github.com/agenthost/agenthost/internal/testnode"
)

// The chunks of AgentKit's encoder are given to AgentKit's own client: the hook
// useAgent of the npm package @inngest/use-agent, at the version that the lock file
// in testdata/useagent names, which is installed once in the user's cache.
// Only the connection to Inngest's servers is replaced.

// clientState is what an application has of a conversation.
type clientState struct {
	Messages []struct {
		ID    string       `json:"id"`
		Parts []clientPart `json:"parts"`
	} `json:"messages"`
	Status   string   `json:"status"`
	Statuses []string `json:"statuses"` // each that there was
	Events   []struct {
		Event string         `json:"event"`
		Data  map[string]any `json:"data"`
	} `json:"events"`
	Results []struct {
		ToolName string `json:"toolName"`
		Input    any    `json:"input"`
		Data     any    `json:"data"`
	} `json:"results"`
}

type clientPart struct {
	Type       string `json:"type"`
	Content    string `json:"content"`
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
	State      string `json:"state"`
	Input      any    `json:"input"`
	Output     any    `json:"output"`
}

// conversation is a thread whose runs a client follows.
type conversation struct {
	t      *testing.T
	host   *host.Host
	target host.Target
	alone  bool // AgentKit's agent, not its network
	chunks bytes.Buffer
}

// run runs a request and keeps its chunks for the client.
func (c *conversation) run(req *host.Request) *host.RunResult {
	c.t.Helper()
	req.Tenant = "acme"
	if req.Resume == "" {
		req.Thread = "t1"
	}
	e := stream.AgentKit(&stream.AgentKitOptions{Standalone: c.alone, User: "u7"})
	var result *host.RunResult
	for ev, err := range c.host.Stream(c.t.Context(), c.target, req) {
		if err != nil {
			break // the last event has it
		}
		frames, err := e.Encode(nil, ev)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, f := range frames {
			c.chunks.Write(stream.AppendNDJSON(nil, f))
		}
		if d, ok := ev.Data.(*runevent.RunFinished); ok {
			result = d.Result
		}
	}
	if result == nil {
		c.t.Fatal("the run has no last event")
	}
	return result
}

// client returns what useAgent makes of the chunks so far.
func (c *conversation) client() *clientState {
	c.t.Helper()
	line := append([]byte{'['}, bytes.Join(bytes.Split(bytes.TrimSpace(c.chunks.Bytes()), []byte{'\n'}), []byte{','})...)
	state := &clientState{}
	if err := json.Unmarshal(useAgent(c.t).follow(c.t, append(line, ']', '\n')), state); err != nil {
		c.t.Fatalf("what the client wrote: %v", err)
	}
	return state
}

// hook is the process of Node.js that useAgent runs in, for all tests: it is a quarter of a
// second until React is loaded. It ends with the tests' process, when its input does.
type hook struct {
	in  io.Writer
	out *bufio.Reader
}

var hooks struct {
	sync.Mutex
	one *hook
}

func useAgent(t *testing.T) *hook {
	t.Helper()
	hooks.Lock()
	defer hooks.Unlock()
	if hooks.one != nil {
		return hooks.one
	}
	cmd := exec.Command("node", "client.js", "u7", "t1")
	cmd.Dir = testnode.Install(t, "testdata/useagent", "client.js")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hooks.one = &hook{in: in, out: bufio.NewReader(out)}
	return hooks.one
}

// follow gives a list of chunks to a client of its own, and returns what that has of them.
func (h *hook) follow(t *testing.T, chunks []byte) []byte {
	t.Helper()
	hooks.Lock()
	defer hooks.Unlock()
	if _, err := h.in.Write(chunks); err != nil {
		hooks.one = nil
		t.Fatalf("the client: %v", err)
	}
	state, err := h.out.ReadBytes('\n')
	if err != nil {
		hooks.one = nil
		t.Fatalf("the client ended: %v", err)
	}
	return state
}

// calls returns the calls that the client shows as name, input, state and output.
func (s *clientState) calls() []string {
	var calls []string
	for _, m := range s.Messages {
		for _, p := range m.Parts {
			if p.Type == "tool-call" {
				input, _ := json.Marshal(p.Input)
				output, _ := json.Marshal(p.Output)
				calls = append(calls, fmt.Sprintf("%s%s %s %s", p.ToolName, input, p.State, output))
			}
		}
	}
	return calls
}

func (s *clientState) texts() []string {
	var texts []string
	for _, m := range s.Messages {
		for _, p := range m.Parts {
			if p.Type == "text" {
				texts = append(texts, p.Content)
			}
		}
	}
	return texts
}

// named returns the events of a name.
func (s *clientState) named(event string) []map[string]any {
	var data []map[string]any
	for _, e := range s.Events {
		if e.Event == event {
			data = append(data, e.Data)
		}
	}
	return data
}

// lastEvents returns the names of the last n events.
func (s *clientState) lastEvents(n int) []string {
	var names []string
	for _, e := range s.Events[max(0, len(s.Events)-n):] {
		names = append(names, e.Event)
	}
	return names
}

// newConversation returns a conversation with agents that run one after another.
func newConversation(t *testing.T, alone bool, agents ...*host.Agent) *conversation {
	t.Helper()
	history := testhost.NewHistory(t, hosttest.NewHistory())
	c := &conversation{t: t, alone: alone, target: agents[0], host: newHost(t, &host.Options{Journal: hosttest.NewJournal(), History: history})}
	if alone {
		return c
	}
	var err error
	c.target, err = host.NewNetwork("desk", agents, &host.NetworkOptions{Router: host.RouterFunc("each", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount == len(agents) {
			return nil, nil
		}
		return &host.Route{Next: []string{agents[req.CallCount].Name()}}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type order struct {
	Order int `json:"order"`
}

// newRefund returns a tool that a person must agree to.
func newRefund() *host.Tool {
	return host.NewTool("refund", "Refunds.", func(_ context.Context, _ *host.Call, in order) (string, error) {
		return fmt.Sprintf("refunded %d", in.Order), nil
	}, &host.ToolOptions{Approve: host.ApproveAlways("Refund?")})
}

func bothTargets(t *testing.T, test func(t *testing.T, alone bool)) {
	for name, alone := range map[string]bool{"network": false, "agent": true} {
		t.Run(name, func(t *testing.T) { test(t, alone) })
	}
}

func TestUseAgentGivesParallelOutputsToTheirCalls(t *testing.T) {
	bothTargets(t, func(t *testing.T, alone bool) {
		looked := map[int]chan struct{}{7: make(chan struct{}), 8: make(chan struct{}), 9: make(chan struct{})}
		after := map[int]int{8: 7, 9: 8} // the first call is the first to return
		look := host.NewTool("look", "Looks.", func(ctx context.Context, _ *host.Call, in order) (string, error) {
			if before, ok := after[in.Order]; ok {
				select {
				case <-looked[before]:
				case <-ctx.Done():
				}
			}
			defer close(looked[in.Order])
			if in.Order == 8 {
				return "", host.Errorf(host.NotFound, "there is no order 8")
			}
			return fmt.Sprintf("order %d", in.Order), nil
		}, nil)
		agent := newAgent(t, "clerk", &host.AgentOptions{Description: "Looks.", Tools: []*host.Tool{look}, Model: hosttest.NewModel(
			hosttest.Say("Let me see.").Call("look", `{"order":7}`).Call("look", `{"order":8}`).Call("look", `{"order":9}`), hosttest.Say("Seen."))})
		c := newConversation(t, alone, agent)
		c.run(&host.Request{Text: "look"})
		got := c.client()
		want := []string{
			`look{"order":7} output-available {"data":"order 7"}`,
			`look{"order":8} output-available {"data":{"error":{"message":"there is no order 8","name":"Error"}}}`,
			`look{"order":9} output-available {"data":"order 9"}`,
		}
		if diff := cmp.Diff(want, got.calls()); diff != "" {
			t.Errorf("calls that the client shows (-want +got):\n%s", diff)
		}
		var results []string // a tool that has returned may tell it after the next one
		for _, r := range got.Results {
			results = append(results, fmt.Sprintf("%v %v", r.Input, r.Data))
		}
		slices.Sort(results)
		if want := []string{"map[order:7] order 7", "map[order:8] <nil>", "map[order:9] order 9"}; !slices.Equal(results, want) {
			t.Errorf("onToolResult was called with %q, want %q", results, want)
		}
		if texts := got.texts(); !slices.Equal(texts, []string{"Let me see.", "Seen."}) || got.Status != "ready" {
			t.Errorf("the client has %q and is %s", texts, got.Status)
		}
		if last := got.lastEvents(2); !slices.Equal(last, []string{"run.completed", "stream.ended"}) {
			t.Errorf("the stream ends with %v", last)
		}
	})
}

func TestUseAgentGivesAResumedOutputToItsCall(t *testing.T) {
	for name, decide := range map[string]struct {
		answer host.Answer
		output string
	}{
		"approved": {host.Answer{Decision: host.Approve}, `{"data":"refunded 7"}`},
		"denied":   {host.Answer{Decision: host.Deny}, `{"data":{"error":{"message":"A person did not allow this call.","name":"Error"}}}`},
		"replied":  {host.Answer{Decision: host.Reply, Value: json.RawMessage(`{"by":"bank"}`)}, `{"data":{"by":"bank"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			bothTargets(t, func(t *testing.T, alone bool) {
				greeter := newAgent(t, "greeter", &host.AgentOptions{Description: "Greets.", Model: hosttest.NewModel(hosttest.Say("Hello."))})
				clerk := newAgent(t, "clerk", &host.AgentOptions{Description: "Refunds.", Tools: []*host.Tool{look(t), newRefund()}, Model: hosttest.NewModel(
					hosttest.Call("look", `{"order":7}`), hosttest.Say("").Call("refund", `{"order":7}`).Call("look", `{"order":9}`), hosttest.Say("Done."))})
				agents := []*host.Agent{greeter, clerk}
				if alone {
					agents = agents[1:]
				}
				c := newConversation(t, alone, agents...)
				asked := c.run(&host.Request{Text: "refund it"})

				got := c.client()
				if got.Status != "ready" || !slices.Equal(got.lastEvents(2), []string{"run.interrupted", "stream.ended"}) {
					t.Errorf("the client is %s after %v", got.Status, got.lastEvents(2))
				}
				question := got.named("hitl.requested")[0]
				last := got.Messages[len(got.Messages)-1]
				if at := slices.IndexFunc(last.Parts, func(p clientPart) bool { return p.ToolCallID == question["partId"] }); at < 0 || last.Parts[at].ToolName != "refund" || question["messageId"] != last.ID {
					t.Errorf("the question is about part %v of message %v, the message is %+v", question["partId"], question["messageId"], last)
				}
				run, _ := question["runId"].(string)
				if run != asked.Run {
					t.Fatalf("hitl.requested has runId %q, the run is %q", run, asked.Run)
				}
				decide.answer.Question = asked.Questions[0].ID
				if r := c.run(&host.Request{Resume: run, Answers: []host.Answer{decide.answer}}); r.FinishReason != chat.FinishStop {
					t.Fatalf("the resumed run ended with %s: %v", r.FinishReason, r.Error)
				}

				got = c.client()
				want := []string{
					`look{"order":7} output-available {"data":"shipped"}`,
					`refund{"order":7} output-available ` + decide.output,
					`look{"order":9} output-available {"data":"shipped"}`,
				}
				if diff := cmp.Diff(want, got.calls()); diff != "" {
					t.Errorf("calls that the client shows (-want +got):\n%s", diff)
				}
				if texts := got.texts(); texts[len(texts)-1] != "Done." || got.Status != "ready" {
					t.Errorf("the client has %q and is %s", texts, got.Status)
				}
			})
		})
	}
}

// A tool that asks twice is answered two runs after its call; an agent used as a
// tool asks through the call that the client knows.
func TestUseAgentFindsCallsAcrossRuns(t *testing.T) {
	asks := func(questions int) *host.Tool {
		tool, err := host.NewRawTool(llm.ToolSpec{Name: "book", Description: "Books."}, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
			if n := len(call.Resumed); n < questions {
				return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: fmt.Sprintf("question %d", n+1)}}, nil
			}
			return &host.ToolOutput{Content: json.RawMessage(`"booked"`)}, nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return tool
	}
	follow := func(t *testing.T, c *conversation, runs int) *clientState {
		r := c.run(&host.Request{Text: "book"})
		for range runs - 1 {
			if r.FinishReason != chat.FinishInterrupted {
				t.Fatalf("the run ended with %s: %v", r.FinishReason, r.Error)
			}
			r = c.run(&host.Request{Resume: r.Run, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`"yes"`)}}})
		}
		if r.FinishReason != chat.FinishStop {
			t.Fatalf("the last run ended with %s: %v", r.FinishReason, r.Error)
		}
		return c.client()
	}

	t.Run("a tool that asks twice", func(t *testing.T) {
		c := newConversation(t, true, newAgent(t, "clerk", &host.AgentOptions{Tools: []*host.Tool{asks(2)},
			Model: hosttest.NewModel(hosttest.Call("book", "{}"), hosttest.Call("book", "{}"), hosttest.Say("Booked twice."))}))
		got := follow(t, c, 5)
		want := []string{`book{} output-available {"data":"booked"}`, `book{} output-available {"data":"booked"}`}
		if diff := cmp.Diff(want, got.calls()); diff != "" {
			t.Errorf("calls that the client shows (-want +got):\n%s", diff)
		}
		parts := map[any]int{}
		for _, q := range got.named("hitl.requested") {
			parts[q["partId"]]++
		}
		if len(parts) != 2 || len(got.named("hitl.requested")) != 4 {
			t.Errorf("4 questions are about the parts %v, want 2", parts)
		}
	})

	t.Run("an agent used as a tool", func(t *testing.T) {
		planner, err := host.NewAgentTool(newAgent(t, "planner", &host.AgentOptions{Description: "Plans.", Tools: []*host.Tool{asks(1)},
			Model: hosttest.NewModel(hosttest.Call("book", "{}"), hosttest.Say("planned"))}), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := newConversation(t, false, newAgent(t, "clerk", &host.AgentOptions{Description: "Asks.", Tools: []*host.Tool{planner},
			Model: hosttest.NewModel(hosttest.Call("planner", `{"request":"a trip"}`), hosttest.Say("Done."))}))
		got := follow(t, c, 2)
		if diff := cmp.Diff([]string{`planner{"request":"a trip"} output-available {"data":"planned"}`}, got.calls()); diff != "" {
			t.Errorf("calls that the client shows (-want +got):\n%s", diff)
		}
		if question := got.named("hitl.requested")[0]; question["partId"] != got.Messages[0].Parts[0].ToolCallID {
			t.Errorf("the question is about part %v, the call is %+v", question["partId"], got.Messages[0].Parts[0])
		}
	})
}

func TestUseAgentSeesAFailureLast(t *testing.T) {
	bothTargets(t, func(t *testing.T, alone bool) {
		c := newConversation(t, alone, newAgent(t, "clerk", &host.AgentOptions{Description: "Looks.", Tools: []*host.Tool{look(t)},
			Model: hosttest.NewModel(hosttest.Call("look", `{"order":7}`), hosttest.Fail(host.Errorf(host.Unavailable, "broke off")), hosttest.Say("Hello again."))}))
		c.run(&host.Request{Text: "look"})
		got := c.client()
		if last := got.lastEvents(2); !slices.Equal(last, []string{"run.failed", "stream.ended"}) || got.Status != "ready" {
			t.Errorf("the stream ends with %v, and the client is %s", last, got.Status)
		}
		if diff := cmp.Diff([]string{`look{"order":7} output-available {"data":"shipped"}`}, got.calls()); diff != "" {
			t.Errorf("calls that the client shows (-want +got):\n%s", diff)
		}
		c.run(&host.Request{Text: "again"})
		if texts := c.client().texts(); !slices.Equal(texts, []string{"Hello again."}) {
			t.Errorf("after the next turn the client has %q", texts)
		}
	})
}

// A model that is asked again says another answer in the place of the one that was
// cut off: its call is one call.
func TestUseAgentHasOneCallOfAnAnswerGivenAgain(t *testing.T) {
	c := newConversation(t, true, newAgent(t, "clerk", &host.AgentOptions{Tools: []*host.Tool{newRefund()}, Model: &stutter{}}))
	asked := c.run(&host.Request{Text: "refund"})
	c.run(&host.Request{Resume: asked.Run, Answers: []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Approve}}})
	if diff := cmp.Diff([]string{`refund{"order":7} output-available {"data":"refunded 7"}`}, c.client().calls()); diff != "" {
		t.Errorf("calls that the client shows (-want +got):\n%s", diff)
	}
}

// stutter is a model whose first answer is cut off in its call.
type stutter struct{ asked int }

func (*stutter) Name() string { return "stutter" }

func (m *stutter) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if m.asked++; m.asked > 1 {
			yield(llm.Chunk{Response: &llm.Response{Parts: []host.Part{&host.Text{Text: "Done."}}}}, nil)
			return
		}
		call := &host.ToolCall{ID: "a", Name: "refund", Arguments: json.RawMessage(`{"order":7}`)}
		for _, chunk := range []llm.Chunk{
			{ToolCall: &llm.ToolCallDelta{ID: "a", Name: "refund", Arguments: `{"order`}},
			{Retry: &llm.RetryNotice{Attempt: 1, Code: host.Unavailable, Reason: "cut off"}},
			{ToolCall: &llm.ToolCallDelta{ID: "a", Name: "refund", Arguments: `{"order":7}`}},
			{Response: &llm.Response{Parts: []host.Part{call}}},
		} {
			if !yield(chunk, nil) {
				return
			}
		}
	}
}

// A run that another process goes on with has the id and the messages of before: its
// texts are parts of their own.
func TestChunksOfARunThatGoesOnAreNew(t *testing.T) {
	ids := func(resumes string, at int64) []string {
		e := stream.AgentKit(&stream.AgentKitOptions{Standalone: true})
		var ids []string
		for i, data := range []host.EventData{&runevent.RunStarted{Thread: "t1", Resumes: resumes}, &runevent.AgentStarted{Result: "run-1/0"}, &runevent.TextDelta{Text: "Hello."}} {
			frames, err := e.Encode(nil, host.Event{Seq: int64(i), Time: time.UnixMilli(at), Run: "run-1", Network: "clerk", Data: data})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				var c chunk
				if err := json.Unmarshal(f.Data, &c); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, c.ID)
				if part, ok := c.Data["partId"].(string); ok {
					if len(part) > 40 {
						t.Errorf("part %q is longer than AgentKit's", part)
					}
					ids = append(ids, part)
				}
			}
		}
		return ids
	}
	first := ids("", 1735689600000)
	for _, id := range ids("run-1", 1735689600001) {
		if slices.Contains(first, id) {
			t.Errorf("both processes have the id %q", id)
		}
	}
}
