package usage_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/testhost"
)

// embedder returns vectors of one number and reports 10 tokens for each text.
type embedder struct {
	err   error
	hangs bool // until its context ends
	usage *host.Usage
}

func (e *embedder) Name() string { return "embedder" }

func (e *embedder) Embed(ctx context.Context, req *llm.EmbedRequest) (*llm.Embeddings, error) {
	if e.hangs {
		<-ctx.Done()
		return nil, host.Errorf(host.DeadlineExceeded, "embed: %w", ctx.Err())
	}
	if e.err != nil {
		return nil, e.err
	}
	out := &llm.Embeddings{Model: "embedder", Usage: host.Usage{InputTokens: 10 * len(req.Texts)}}
	for range req.Texts {
		out.Vectors = append(out.Vectors, []float32{1})
	}
	if e.usage != nil {
		out.Usage = *e.usage
	}
	return out, nil
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
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("recall", "{}"), hosttest.Say("done")), Tools: []*host.Tool{recall}})
	h := testhost.NewSingle(t, &host.Options{Ledger: l})
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

// An error that pauses the embedder for all tenants must be the embedder's own.
func TestErrorsOfATenantsLimitsAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, nil, &usage.Options{Default: usage.Plan{Rate: 6, Burst: 1, MaxWait: time.Minute}})
		inner := &embedder{}
		e := l.Embedder(inner)
		embed := func(within time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := e.Embed(ctx, &llm.EmbedRequest{Texts: []string{"one"}, Scope: host.Scope{Tenant: "acme"}})
			return err
		}
		check := func(name string, err error, code host.Code, own bool) {
			t.Helper()
			var marked *llm.CallerError
			if host.CodeOf(err) != code || errors.As(err, &marked) != own {
				t.Errorf("%s: %v, marked %t; want code %s", name, err, marked != nil, code)
			}
		}
		check("the first call", embed(time.Second), "", false)
		check("a call whose turn does not come", embed(time.Second), host.DeadlineExceeded, true)
		inner.hangs = true
		check("a call whose turn comes late", embed(11*time.Second), host.DeadlineExceeded, true)
		time.Sleep(time.Minute)
		check("an embedder that hangs", embed(time.Second), host.DeadlineExceeded, false)
		inner.hangs, inner.err = false, host.Errorf(host.Unavailable, "down")
		time.Sleep(time.Minute)
		check("an embedder that is down", embed(time.Second), host.Unavailable, false)
	})
}

func TestAnAnswerIsCheckedBeforeItIsSettled(t *testing.T) {
	l := newLedger(t, nil, nil)
	e := l.Embedder(&embedder{usage: &host.Usage{}})
	req := &llm.EmbedRequest{Texts: []string{"a text of some words"}, Scope: host.Scope{Tenant: "acme"}}
	if _, err := e.Embed(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	bill, err := l.BillOf(t.Context(), "acme", usage.MonthOf(time.Now()))
	if err != nil || bill.Total.InputTokens != int64(req.EstimateTokens()) {
		t.Errorf("an embedder that reports no usage: %+v, %v; want %d tokens", bill, err, req.EstimateTokens())
	}
}
