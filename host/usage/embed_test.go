package usage_test

import (
	"context"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/usage"
)

// embedder returns vectors of nothing and reports 10 tokens for each text.
type embedder struct{ err error }

func (e *embedder) Name() string { return "embedder" }

func (e *embedder) Embed(_ context.Context, req *llm.EmbedRequest) (*llm.Embeddings, error) {
	if e.err != nil {
		return nil, e.err
	}
	return &llm.Embeddings{Model: "embedder", Vectors: make([][]float32, len(req.Texts)), Usage: host.Usage{InputTokens: 10 * len(req.Texts)}}, nil
}

func TestCallsOfAnEmbedderAreReservedAndBooked(t *testing.T) {
	l := newLedger(t, nil, &usage.Options{Default: planOf(usage.Window{}, map[usage.Resource]int64{usage.Tokens: 100, usage.ModelCalls: 50})})
	inner := &embedder{}
	e := l.Embedder(inner)
	embed := func(ctx context.Context, tenant string, texts ...string) error {
		_, err := e.Embed(ctx, &llm.EmbedRequest{Texts: texts, Scope: host.Scope{Tenant: tenant}})
		return err
	}
	if err := embed(t.Context(), "acme", "one", "two"); err != nil {
		t.Fatal(err)
	}
	if tokens, calls := used(t, l, "acme", usage.Tokens).Spent, used(t, l, "acme", usage.ModelCalls).Spent; tokens != 20 || calls != 1 {
		t.Errorf("after a call outside runs: %d tokens, %d calls", tokens, calls)
	}
	inner.err = host.Errorf(host.Unavailable, "down")
	if err := embed(t.Context(), "acme", "one"); host.CodeOf(err) != host.Unavailable {
		t.Errorf("a call that fails: %v", err)
	}
	if tokens := used(t, l, "acme", usage.Tokens); tokens.Spent != 20 {
		t.Errorf("after a call that failed: %+v", tokens)
	}
	inner.err = nil
	long := string(make([]byte, 300))
	wantUsedUp(t, embed(t.Context(), "acme", "x"+long), "Tokens", "Tokens of 100")
	if err := embed(t.Context(), "umbrella", "one"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	bill, err := l.BillOf(t.Context(), "acme", usage.MonthOf(time.Now()))
	if err != nil || bill.Total.InputTokens != 20 || bill.Total.Calls != 1 {
		t.Errorf("bill %+v, %v", bill, err)
	}
	if err := embed(t.Context(), "acme"); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("no texts: %v", err)
	}
}

// Within a run the run pays, and its record names the embedder.
func TestARunPaysForItsEmbeddings(t *testing.T) {
	l := newLedger(t, nil, &usage.Options{Default: planOf(usage.Window{}, map[usage.Resource]int64{usage.Tokens: 1000})})
	e := l.Embedder(&embedder{})
	recall := host.NewTool("recall", "Recalls.", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		_, err := e.Embed(ctx, &llm.EmbedRequest{Texts: []string{"one"}, Scope: call.Scope})
		return "nothing", err
	}, nil)
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("recall", "{}"), hosttest.Say("done")), Tools: []*host.Tool{recall}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true, Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	records, _, err := l.Export(t.Context(), "acme", "", 0, 0)
	if err != nil || len(records) != 1 {
		t.Fatalf("records %v, %v", records, err)
	}
	for _, c := range records[0].Calls {
		if c.Model == "embedder" && c.Agent == "clerk" && c.Usage.InputTokens == 10 && c.Calls == 1 {
			return
		}
	}
	t.Errorf("record %+v has no call of the embedder", records[0])
}
