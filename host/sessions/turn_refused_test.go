package sessions_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/testdriver"
	"github.com/agenthost/agenthost/internal/testhost"
)

// countingDriver counts the bytes of keys and values that commits write.
type countingDriver struct {
	kv.Driver
	written atomic.Int64
}

func (d *countingDriver) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	for _, tx := range txs {
		for _, w := range tx.Writes {
			d.written.Add(int64(len(w.Key) + len(w.Value) + 1))
		}
	}
	return d.Driver.Commit(ctx, txs...)
}

// spentLedger returns a ledger in which ada has used up her tokens for an hour.
func spentLedger(t testing.TB) *usage.Ledger {
	t.Helper()
	l, err := usage.New(kv.NewMemory(), &usage.Options{Default: usage.Plan{Limits: []usage.Limit{{Resource: usage.Tokens, Amount: 10}}, Window: usage.Every(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	record, call := l.OpenRun(host.Scope{Tenant: "ada", Run: "before"}, ""), &host.ModelCall{Model: "scripted"}
	if err := record.ReserveModel(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	record.SettleModel(call, &host.Usage{OutputTokens: 10})
	record.Close("", false)
	return l
}

// A refused turn writes nothing, in no way of asking for it, and is 429 with
// Retry-After before any body.
func TestRefusedTurnsLeaveNothing(t *testing.T) {
	driver := &countingDriver{Driver: testdriver.New(t)}
	store := threads.New(driver, nil)
	s := newService(t, agentOf(t, hosttest.Say("never"))(), &sessions.Options{Store: store, Host: host.Options{Ledger: spentLedger(t)}})
	handler := handlerOf(s)
	for _, body := range []string{`{"text":"hi"}`, `{"text":"hi","session":"s"}`, `{"text":"hi","session":"s","detach":true}`} {
		for _, accept := range []string{"application/json", "text/event-stream", "application/x-ndjson"} {
			code, header, answer := post(handler, "/turn", body, "Accept", accept)
			if code != 429 || !strings.HasPrefix(header.Get("Retry-After"), "3") || !strings.Contains(answer, `"limit":"Tokens"`) || !strings.Contains(answer, `"code":"resource_exhausted"`) {
				t.Errorf("%s as %s: %d %v %s", body, accept, code, header, answer)
			}
			var got struct{ Error *host.Error }
			if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Error.RetryAfter < 59*time.Minute {
				t.Errorf("the client reads %+v, %v", got.Error, err)
			}
		}
	}
	if n := driver.written.Load(); n != 0 {
		t.Errorf("refused turns wrote %d bytes", n)
	}
}

// So does a run of a host with a history, behind stream.Serve.
func TestRefusedRunsLeaveNothing(t *testing.T) {
	driver := &countingDriver{Driver: testdriver.New(t)}
	h, target := refusing(t, driver)
	for _, thread := range []string{"", "t"} {
		for _, durable := range []bool{false, true} {
			req := &host.Request{Tenant: "ada", Thread: thread, Text: "hi", Durable: durable}
			w := httptest.NewRecorder()
			err := stream.Serve(w, httptest.NewRequest("POST", "/", nil), h.Stream(t.Context(), target, req), nil)
			if w.Code != 429 || !strings.HasPrefix(w.Header().Get("Retry-After"), "3") || host.CodeOf(err) != host.ResourceExhausted {
				t.Errorf("thread %q, durable %t: %d %v %v", thread, durable, w.Code, w.Header(), err)
			}
			if e := fault.AsError(err); e.Limit != "Tokens" || e.RetryAfter <= 0 {
				t.Errorf("the caller gets %+v", e)
			}
		}
	}
	if n := driver.written.Load(); n != 0 {
		t.Errorf("refused runs wrote %d bytes", n)
	}
	if result, err := h.Run(t.Context(), target, &host.Request{Tenant: "bob", Text: "hi"}); err != nil || result.Text() != "hello" {
		t.Errorf("another tenant gets %v", err)
	}
}

func refusing(t testing.TB, driver kv.Driver) (*host.Host, host.Target) {
	t.Helper()
	history := testhost.NewHistory(t, threads.New(driver, nil))
	h := testhost.NewSingle(t, &host.Options{History: history, Ledger: spentLedger(t), Model: hosttest.NewModel(hosttest.Say("hello"))})
	a := testhost.NewAgent(t, "a", nil)
	return h, a
}

func BenchmarkRefusedRun(b *testing.B) {
	h, target := refusing(b, testdriver.New(b))
	req := &host.Request{Tenant: "ada", Thread: "t", Text: "hi"}
	for b.Loop() {
		if _, err := h.Run(b.Context(), target, req); host.CodeOf(err) != host.ResourceExhausted {
			b.Fatal(err)
		}
	}
}
