package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
)

// The model fails the second turn, and the thread is free for the next.
func TestAResponseThatFailsLeavesItsConversationToTheNext(t *testing.T) {
	for name, credential := range map[string]string{"of a tenant": "acme", "of one thread": "acme//t1"} {
		s, _ := newListenerServer(t, func(_ context.Context, n int32) error {
			if n == 2 {
				return host.Errorf(host.Unavailable, "model down")
			}
			return nil
		})
		var first, next response
		s.do(credential, "POST", "/v1/responses", `{"model":"listener","input":"a"}`, 200, &first)
		body := fmt.Sprintf(`{"model":"listener","input":"b","previous_response_id":%q}`, first.ID)
		s.do(credential, "POST", "/v1/responses", body, 503, nil)
		if s.do(credential, "POST", "/v1/responses", body, 200, &next); next.Conversation.ID != first.Conversation.ID {
			t.Errorf("a credential %s: the conversation is %s, and was %s", name, next.Conversation.ID, first.Conversation.ID)
		}
	}
}

// limit gives a tenant calls of models for a month.
func (s *server) limit(tenant string, calls int64) {
	s.t.Helper()
	must(s.t, s.options.Ledger.SetPlan(tenant, &usage.Plan{Limits: []usage.Limit{{Resource: usage.ModelCalls, Amount: calls, Window: usage.CalendarMonth}}}))
}

// Decision 41: a refused run leaves nothing.
func TestARefusedResponseLeavesNoThreadAndItsConversationFree(t *testing.T) {
	for _, name := range []string{"without a key", "with a key"} {
		s, _ := newListenerServer(t, nil)
		s.limit("acme", 2)
		var first, second, next response
		s.do("acme", "POST", "/v1/responses", `{"model":"listener","input":"a","conversation":"t1"}`, 200, &first)
		s.do("acme", "POST", "/v1/responses", fmt.Sprintf(`{"model":"listener","input":"b","previous_response_id":%q}`, first.ID), 200, &second)
		for _, previous := range []string{first.ID, second.ID} { // a fork, and the last of the conversation
			var key []string
			if name == "with a key" {
				key = []string{"Idempotency-Key", previous}
			}
			body := fmt.Sprintf(`{"model":"listener","input":"c","previous_response_id":%q}`, previous)
			for range 3 {
				s.do("acme", "POST", "/v1/responses", body, 429, nil, key...)
			}
		}
		var list threads.Page
		if s.do("acme", "GET", "/v1/threads", "", 200, &list); len(list.Threads) != 1 {
			t.Errorf("%s: after refused requests there are %d threads", name, len(list.Threads))
		}
		s.limit("acme", 1_000_000)
		s.do("acme", "POST", "/v1/responses", fmt.Sprintf(`{"model":"listener","input":"d","previous_response_id":%q}`, second.ID), 200, &next)
		if next.Conversation.ID != "t1" || next.text() != "a,b,d" {
			t.Errorf("%s: the next response is in %s, and has heard %q", name, next.Conversation.ID, next.text())
		}
	}
}

func TestAConversationContinuesAfterWhatWasLeftAndSentAgain(t *testing.T) {
	for name, more := range map[string]string{"named": `"conversation":"t1"`, "new": `"metadata":{}`, "continued": `"previous_response_id":"{first}"`} {
		started, left := make(chan struct{}), make(chan struct{})
		s, _ := newListenerServer(t, func(ctx context.Context, n int32) error {
			if n != 2 {
				return nil
			}
			close(started)
			<-ctx.Done()
			close(left)
			return ctx.Err()
		})
		var first, again, next response
		s.do("acme", "POST", "/v1/responses", `{"model":"listener","input":"a"}`, 200, &first)
		body := `{"model":"listener","input":"b",` + ids{"first": first.ID}.replace(more) + `}`
		s.abandon("/v1/responses", body, started, "Idempotency-Key", "k")
		<-left // or the run has another reader, and is not canceled
		s.do("acme", "POST", "/v1/responses", body, 200, &again, "Idempotency-Key", "k")
		s.do("acme", "POST", "/v1/responses", fmt.Sprintf(`{"model":"listener","input":"c","previous_response_id":%q}`, again.ID), 200, &next)
		if next.Conversation.ID != again.Conversation.ID {
			t.Errorf("%s: the next response is in %s, not in %s", name, next.Conversation.ID, again.Conversation.ID)
		}
		if name == "continued" && next.Conversation.ID != first.Conversation.ID {
			t.Errorf("%s: the conversation is %s, and was %s", name, next.Conversation.ID, first.Conversation.ID)
		}
	}
}

// A process has ended after a response had its thread and before its run began. What a live
// one may still begin keeps its thread.
func TestAConversationContinuesAfterAResponseThatWasLost(t *testing.T) {
	driver := kv.NewMemory()
	defer driver.Close()
	s := newServer(t, func(o *httpapi.Options) { o.Responses = responses.New(driver) })
	for name, c := range map[string]struct {
		before time.Duration
		status int
	}{
		"lost":  {time.Hour, http.StatusOK},
		"begun": {0, http.StatusConflict},
	} {
		thread := "t-" + name
		var first, next response
		s.do("acme//"+thread, "POST", "/v1/responses", `{"model":"clerk","input":"a"}`, 200, &first)
		value, err := kv.EncodeRecord(map[string]any{"v": 1, "id": "resp_lost", "before": first.ID, "since": time.Now().Add(-c.before)})
		must(t, err)
		_, err = kv.Apply(t.Context(), driver, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(kv.NewKey("response-last").With(thread), value)}})
		must(t, err)
		resp, raw := s.request("acme//"+thread, "POST", "/v1/responses", fmt.Sprintf(`{"model":"clerk","input":"b","previous_response_id":%q}`, first.ID))
		if resp.StatusCode != c.status || c.status == 200 && (json.Unmarshal(raw, &next) != nil || next.Conversation.ID != thread) {
			t.Errorf("%s: the answer is %d %s", name, resp.StatusCode, raw)
		}
	}
}

// deleting deletes the thread t1 before the first commit of a response's record.
type deleting struct {
	kv.Driver
	threads func() *threads.Store
	armed   atomic.Bool
}

func (d *deleting) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	record := func(tx kv.Tx) bool {
		return slices.ContainsFunc(tx.Writes, func(w kv.Write) bool { return strings.HasPrefix(string(w.Key), string(kv.NewKey("response-thread"))) })
	}
	if slices.ContainsFunc(txs, record) && d.armed.CompareAndSwap(true, false) {
		if err := d.threads().For("acme").Delete(ctx, "t1"); err != nil {
			return []kv.Result{{Err: err}}
		}
	}
	return d.Driver.Commit(ctx, txs...)
}

func TestAResponseInTheBackgroundIsNotStoredAfterItsConversationIsDeleted(t *testing.T) {
	memory := kv.NewMemory()
	defer memory.Close()
	driver := &deleting{Driver: memory}
	s := newServer(t, func(o *httpapi.Options) {
		o.Responses = responses.New(driver)
		driver.threads = func() *threads.Store { return o.Threads }
	})
	driver.armed.Store(true)
	var begun response
	s.do("acme", "POST", "/v1/responses", `{"model":"stuck","input":"a","conversation":"t1","background":true}`, 200, &begun)
	s.do("acme", "GET", "/v1/responses/"+begun.ID, "", 404, nil)
	if driver.armed.Load() {
		t.Error("no thread was deleted")
	}
	must(t, s.options.Runs.DropTenant(t.Context(), "acme"))
}

func TestARequestThatIsRefusedForItsInstructionsLeavesItsKey(t *testing.T) {
	s := newServer(t, nil)
	s.do("acme//own", "POST", "/v1/chat/completions", `{"model":"clerk","messages":[{"role":"system","content":"x"},{"role":"user","content":"a"}]}`, 403, nil, "Idempotency-Key", "k")
	s.do("acme//own", "POST", "/v1/chat/completions", `{"model":"clerk","messages":[{"role":"user","content":"a"}]}`, 200, nil, "Idempotency-Key", "k")
	s.do("acme//own", "POST", "/v1/responses", `{"model":"clerk","instructions":"x","input":"a"}`, 403, nil, "Idempotency-Key", "r")
	s.do("acme//own", "POST", "/v1/responses", `{"model":"clerk","input":"a"}`, 200, nil, "Idempotency-Key", "r")
}

func TestARequestThatNamesAnUnknownResponseLeavesItsKey(t *testing.T) {
	s := newServer(t, nil)
	var first, again, twice response
	s.do("acme", "POST", "/v1/responses", `{"model":"clerk","input":"a"}`, 200, &first)
	s.do("acme", "POST", "/v1/responses", `{"model":"clerk","input":"b","previous_response_id":"resp_none"}`, 400, nil, "Idempotency-Key", "k")
	next := `{"model":"clerk","input":"b","previous_response_id":"` + first.ID + `"}`
	s.do("acme", "POST", "/v1/responses", next, 200, &again, "Idempotency-Key", "k")
	s.do("acme", "DELETE", "/v1/responses/"+first.ID, "", 200, nil)
	s.do("acme", "POST", "/v1/responses", next, 200, &twice, "Idempotency-Key", "k") // answered, though the one before is gone
	if twice.ID != again.ID {
		t.Errorf("the request that is sent again made response %s, want %s", twice.ID, again.ID)
	}
	s.do("acme", "POST", "/v1/responses", `{"model":"clerk","input":"c","previous_response_id":"`+again.ID+`"}`, 409, nil, "Idempotency-Key", "k")
}
