package openaimodel_test

// Scenario: runs of agents and networks ask the scripted model over loopback.

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/demomodel"
	"github.com/agenthost/agenthost/internal/testhost"
)

// The tests of this file ask the scripted model over loopback, so that client
// and server hold each other to the protocol.

func scripted(t *testing.T, opts *openaimodel.Options, rules ...scriptedmodel.Rule) *openaimodel.Model {
	t.Helper()
	srv, err := scriptedmodel.Start(t.Context(), &scriptedmodel.Options{Rules: rules, Otherwise: demomodel.Answer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return modelAt(t, srv.BaseURL(), opts)
}

func TestScriptedReplies(t *testing.T) {
	type reply = scriptedmodel.Reply
	saying := func(m scriptedmodel.Malformation) reply { return reply{Text: "one two three four", Malformed: m} }
	for _, tt := range []struct {
		name  string
		reply reply
		code  host.Code // "" for an answer
		text  string    // that is shown, of an answer or before the error
	}{
		{"text", reply{Text: "one two three four"}, "", "one two three four"},
		{"slow text", reply{Text: "one two", Delay: scriptedmodel.Duration(time.Millisecond), ChunkDelay: scriptedmodel.Duration(time.Millisecond)}, "", "one two"},
		{"text with line ends and quotes", reply{Text: "one\n\"two\"\r\n<three> \u2028 é"}, "", "one\n\"two\"\r\n<three> \u2028 é"},
		{"an error", reply{Error: &scriptedmodel.ReplyError{Status: 403, Code: "no", Message: "No."}}, host.PermissionDenied, ""},
		{"too many requests", reply{Error: &scriptedmodel.ReplyError{Status: 429, RetryAfter: "5"}}, host.ResourceExhausted, ""},
		{"html", saying(scriptedmodel.MalformedHTML), host.Unavailable, ""},
		{"half a document", saying(scriptedmodel.MalformedHalfJSON), host.Unavailable, ""},
		{"nothing", saying(scriptedmodel.MalformedEmpty), host.Unavailable, ""},
		{"cut", saying(scriptedmodel.MalformedCut), host.Unavailable, "one two "},
		{"no DONE", saying(scriptedmodel.MalformedNoDone), "", "one two three four"},
		{"an error in the middle", saying(scriptedmodel.MalformedErrorEvent), host.Unavailable, "one two "},
		{"no stream", saying(scriptedmodel.MalformedNoStream), "", "one two three four"},
		{"silence", saying(scriptedmodel.MalformedHang), host.DeadlineExceeded, "one two "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(timeout time.Duration) modeltest.Outcome {
				m := scripted(t, &openaimodel.Options{Server: modelhttp.Options{MaxRetries: -1, Timeout: timeout}}, scriptedmodel.Rule{Reply: tt.reply})
				return modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
			}
			timeout := time.Minute
			if tt.code == host.DeadlineExceeded {
				timeout = 50 * time.Millisecond
			}
			o := ask(timeout)
			for ; o.Text != tt.text && timeout < time.Minute; o = ask(timeout) { // what it says before comes in time, however busy the machine
				timeout *= 5
			}
			if host.CodeOf(o.Err) != tt.code || o.Text != tt.text {
				t.Errorf("Generate: %q, %v; want %q, code %q", o.Text, o.Err, tt.text, tt.code)
			}
			if tt.code == "" && (o.Response.Model != scriptedmodel.DefaultName || o.Response.Usage.Total() == 0) {
				t.Errorf("response is %+v", o.Response)
			}
		})
	}
}

// order is what the order desk knows.
type order struct {
	OrderID int    `json:"order_id"`
	Status  string `json:"status"`
}

func lookupTool(calls *[]int) *host.Tool {
	type in struct {
		OrderID int `json:"order_id" jsonschema:"the order's number"`
	}
	known := map[int]string{1042: "shipped", 1043: "lost"}
	return host.NewTool("lookup_order", "Finds an order by its number.", func(_ context.Context, _ *host.Call, in in) (order, error) {
		*calls = append(*calls, in.OrderID)
		if known[in.OrderID] == "" {
			return order{}, host.Errorf(host.NotFound, "There is no order %d.", in.OrderID)
		}
		return order{in.OrderID, known[in.OrderID]}, nil
	}, nil)
}

func TestConversation(t *testing.T) {
	var looked []int
	agent := testhost.NewAgent(t, "desk", &host.AgentOptions{
		Instructions: "You answer questions about orders.", Tools: []*host.Tool{lookupTool(&looked)}, Model: scripted(t, nil),
	})
	h := testhost.NewSingle(t, nil)
	var history []*host.Message
	for _, turn := range []struct {
		text  string
		looks []int
		says  string
	}{
		{"Where is order 1042? My card is 4111 1111 1111 1111. I also ordered 1043.", []int{1042}, "status: shipped"},
		{"and the other one?", []int{1043}, "status: lost"},
		{"and 7?", []int{7}, "could not do that: There is no order 7."},
	} {
		looked = nil
		input := host.UserText(turn.text)
		result, err := h.Run(t.Context(), agent, &host.Request{Input: input, Messages: history})
		if err != nil {
			t.Fatalf("%q: %v", turn.text, err)
		}
		history = append(append(history, input), result.Results[0].Messages...)
		if diff := cmp.Diff(turn.looks, looked); diff != "" {
			t.Errorf("%q looks up (-want +got):\n%s", turn.text, diff)
		}
		if !strings.Contains(result.Text(), turn.says) {
			t.Errorf("%q is answered %q, want %q in it", turn.text, result.Text(), turn.says)
		}
		if result.Usage.Total() == 0 || result.Usage.Estimated {
			t.Errorf("usage is %+v, want the server's", result.Usage)
		}
	}
}

func TestModelRouter(t *testing.T) {
	var looked []int
	model := scripted(t, nil)
	orders := testhost.NewAgent(t, "orders", &host.AgentOptions{Description: "Finds orders and says where they are", Tools: []*host.Tool{lookupTool(&looked)}})
	refund := host.NewTool("refund", "Refunds an amount.", func(context.Context, *host.Call, struct{}) (string, error) { return "done", nil }, nil)
	billing := testhost.NewAgent(t, "billing", &host.AgentOptions{Description: "Refunds money and sends invoices", Tools: []*host.Tool{refund}})
	network, err := host.NewNetwork("support", []*host.Agent{billing, orders}, &host.NetworkOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	h := testhost.NewSingle(t, nil)
	for text, want := range map[string][]string{"Where is order 1042?": {"orders"}, "I want a refund, please": {"billing"}} {
		result, err := h.Run(t.Context(), network, &host.Request{Text: text})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var ran []string
		for _, r := range result.Results {
			ran = append(ran, r.Agent)
		}
		if diff := cmp.Diff(want, ran); diff != "" {
			t.Errorf("%q runs (-want +got):\n%s", text, diff)
		}
	}
}

func TestParallelAndSerialTools(t *testing.T) {
	for _, serial := range []bool{false, true} {
		var looked []int
		agent := testhost.NewAgent(t, "desk", &host.AgentOptions{Tools: []*host.Tool{lookupTool(&looked)}, Model: scripted(t, nil), SerialTools: serial})
		h, err := host.New(&host.Options{SingleTenant: true, Limits: host.Limits{ParallelTools: 1}}) // looked is not locked
		if err != nil {
			t.Fatal(err)
		}
		result, err := h.Run(t.Context(), agent, &host.Request{Text: "Where are orders 1042 and 1043?"})
		if err != nil {
			t.Fatal(err)
		}
		rounds := map[bool]int{false: 2, true: 3}[serial]
		slices.Sort(looked)
		if got := result.Results[0].Rounds; got != rounds || !slices.Equal(looked, []int{1042, 1043}) {
			t.Errorf("serial %t: %d rounds look up %v, want %d and both", serial, got, looked, rounds)
		}
	}
}

func TestRunIsCancelledMidStream(t *testing.T) {
	model := scripted(t, nil, scriptedmodel.Rule{Reply: scriptedmodel.Reply{Text: "one two three four", Malformed: scriptedmodel.MalformedHang}})
	agent := testhost.NewAgent(t, "desk", &host.AgentOptions{Model: model})
	h := testhost.NewSingle(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var shown string
	var failure error
	for ev, err := range h.Stream(ctx, agent, &host.Request{Text: "count"}) {
		if d, ok := ev.Data.(*runevent.TextDelta); ok {
			if shown += d.Text; shown == "one two " {
				cancel()
			}
		}
		failure = err
	}
	if host.CodeOf(failure) != host.Canceled || !errors.Is(failure, context.Canceled) {
		t.Errorf("Stream ends with %v, want canceled", failure)
	}
}

func TestRetriesAreEventsOfTheRun(t *testing.T) {
	refused := scriptedmodel.Reply{Error: &scriptedmodel.ReplyError{Status: 503, Message: "loading", RetryAfter: "0"}}
	agent := testhost.NewAgent(t, "desk", &host.AgentOptions{Model: scripted(t, &openaimodel.Options{Server: modelhttp.Options{MaxRetries: 2}}, scriptedmodel.Rule{Reply: refused})})
	h := testhost.NewSingle(t, nil)
	var attempts []int
	var failure error
	for ev, err := range h.Stream(t.Context(), agent, &host.Request{Text: "hi"}) {
		if r, ok := ev.Data.(*runevent.ModelRetried); ok {
			attempts = append(attempts, r.Attempt)
		}
		failure = err
	}
	if !slices.Equal(attempts, []int{1, 2}) || host.CodeOf(failure) != host.Unavailable || !strings.Contains(failure.Error(), "(3 attempts)") {
		t.Errorf("retries %v, then %v", attempts, failure)
	}
}

func BenchmarkGenerate(b *testing.B) {
	srv, err := scriptedmodel.Start(b.Context(), &scriptedmodel.Options{Rules: []scriptedmodel.Rule{{Reply: scriptedmodel.Reply{Text: strings.Repeat("word ", 200)}}}})
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	m, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{BaseURL: srv.BaseURL()}})
	if err != nil {
		b.Fatal(err)
	}
	defer m.CloseIdleConnections()
	req := modeltest.Question("hi")
	req.Tools = []llm.ToolSpec{{Name: "ping", Parameters: json.RawMessage(`{"type":"object"}`)}}
	b.ReportAllocs()
	for b.Loop() {
		if o := modeltest.Ask(b.Context(), m, req); o.Err != nil {
			b.Fatal(o.Err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/200, "µs/chunk")
}
