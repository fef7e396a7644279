package plugin

// Scenario: host operations yield and account for the scheduler quantum of their call.

// Who has a turn is seen from inside the package.

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

// lookout stands for whatever operations wait for, and sees how many turns are
// free meanwhile.
type lookout struct {
	Store
	turns func() *fairsched.Scheduler
	free  []int
}

func (l *lookout) look() {
	l.free = append(l.free, l.turns().Stats().Free)
}

func (l *lookout) Get(ctx context.Context, owner Owner, key string) (Item, error) {
	l.look()
	return l.Store.Get(ctx, owner, key)
}

func (l *lookout) Put(ctx context.Context, owner Owner, key string, value []byte, opts PutOptions) (int64, error) {
	l.look()
	return l.Store.Put(ctx, owner, key, value, opts)
}

func (l *lookout) Delete(ctx context.Context, owner Owner, key string, at *int64) error {
	l.look()
	return l.Store.Delete(ctx, owner, key, at)
}

func (l *lookout) List(ctx context.Context, owner Owner, opts ListOptions) ([]Item, bool, error) {
	l.look()
	return l.Store.List(ctx, owner, opts)
}

func (l *lookout) Fetch(context.Context, *egress.Request) (*egress.Response, error) {
	l.look()
	return &egress.Response{Status: 200}, nil
}

func (l *lookout) Enqueue(context.Context, *host.Job) (string, error) {
	l.look()
	return "1", nil
}

func (l *lookout) Model(context.Context, string, string) (host.Model, error) {
	l.look()
	return hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		l.look()
		return hosttest.Say("said")
	}), nil
}

// An operation has its call's turn, as the guest has, while the host works for it,
// and others have it while it waits.
func TestOperationsWaitWithoutTheTurn(t *testing.T) {
	var rt *Runtime
	l := &lookout{Store: NewTestStore(), turns: func() *fairsched.Scheduler { return rt.scheduler }}
	rt = startRuntime(t, &Options{Running: 1, Store: l, Fetcher: l, Queue: l, Models: l})
	p, err := rt.Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Granted: Permissions{
		KV: Write, State: Write, Model: true, Queue: true, HTTP: []HTTPAccess{{Host: "a.example"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ request, free string }{
		{`kv.put {"key":"a","value":"aGk="}`, "[1]"},
		{`kv.get {"key":"a"}`, "[1]"},
		{`kv.list {}`, "[1]"},
		{`kv.delete {"key":"a"}`, "[1]"},
		{`http.fetch {"url":"https://a.example/"}`, "[1]"},
		{`queue.send {"handler":"t"}`, "[1]"},
		{`model.generate {"messages":[{"role":"user","parts":[{"type":"text","text":"hi"}]}]}`, "[1 1]"},
		{`emit {"kind":"k","data":1}`, "[1]"},
		{`state.get {}`, "[]"},
	} {
		l.free = nil
		r, err := p.Call(t.Context(), "t", "tool", []byte(row.request), &CallOptions{Emit: func(string, json.RawMessage) { l.look() }})
		if err != nil || strings.Contains(string(r.Output), `"code"`) {
			t.Errorf("%s: %s, %v", row.request, r.Output, err)
		}
		if got := fmt.Sprint(l.free); got != row.free {
			t.Errorf("%s: while it waits there are %s turns free, want %s", row.request, got, row.free)
		}
	}
	l.free = nil
	_, err = p.Call(t.Context(), "t", "tool", []byte(`kv.get {"key":"a"}`), &CallOptions{
		Operate: func(ctx context.Context, op string, req []byte, own Operation) ([]byte, error) {
			l.look()
			return own(ctx, op, req)
		}})
	if got := fmt.Sprint(l.free); got != "[1 1]" || err != nil {
		t.Errorf("while the caller performs it there are %s turns free, %v, want [1 1]", got, err)
	}
	if free := rt.scheduler.Stats().Free; free != 1 {
		t.Errorf("at the end %d turns are free", free)
	}
}

// What the host does for a guest counts for whose turn it is: the price of an
// operation is far below what a long request takes to read.
func TestOperationsCountForTheTurn(t *testing.T) {
	rt := startRuntime(t, &Options{Running: 1})
	p, err := rt.Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Granted: Permissions{KV: Write}})
	if err != nil {
		t.Fatal(err)
	}
	request := []byte(`kv.put {"key":"a","value":"` + strings.Repeat("aaaa", 60_000) + `"}`)
	var before int64
	for i := range 2 { // the first makes an instance
		r, err := p.Call(t.Context(), "t", "tool", request, nil)
		if err != nil {
			t.Fatal(err)
		}
		counted := rt.scheduler.Stats().Flows["t"].Used - before
		before += counted
		// Nobody reads 240 kB of JSON in 20 us.
		if most := r.Cost.Instructions + callPrice + 20_000; i > 0 && counted < most {
			t.Errorf("a call of %d instructions counts %d, want at least %d", r.Cost.Instructions, counted, most)
		}
	}
}
