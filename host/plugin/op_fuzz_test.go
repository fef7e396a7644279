package plugin

// Scenario: guests send arbitrary requests to operations and arbitrary manifests to the
// host.

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/usage"
)

// nowhere is a fetcher whose every request fails.
type nowhere struct{}

func (nowhere) Fetch(context.Context, *egress.Request) (*egress.Response, error) {
	return nil, host.Errorf(host.Unavailable, "nobody is there")
}

// dropped is a queue that takes everything and does nothing.
type dropped struct{}

func (dropped) Enqueue(context.Context, *host.Job) (string, error) { return "1", nil }

// FuzzOperations sends any request to any operation: the answer is JSON, or an
// error with a code that is not the host's own fault.
func FuzzOperations(f *testing.F) {
	all := Permissions{KV: Write, State: Write, Model: true, Messages: true, Queue: true, HTTP: []HTTPAccess{{Host: "*"}}}
	_, s := bound(f, all)
	s.plugin.manifest.Tools = []ToolInfo{{Name: "t"}}
	rt := s.plugin.runtime
	s.plugin.limits = Limits{}.withDefaults()
	rt.opts.Logger = slog.New(slog.DiscardHandler)
	rt.opts.Store, rt.fetcher, rt.opts.Queue = NewTestStore(), nowhere{}, dropped{}
	rt.opts.Models = models{"": hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("said") })}
	if err := rt.Ledger().SetPlan("", budget{usage.HTTPRequests: 1 << 50, usage.ModelTokens: 1 << 50}.plan(0)); err != nil {
		f.Fatal(err)
	}
	for i, seed := range []string{
		`{"name":"a","data":"aGk=","last":true}`, `{"name":"a"}`, `{"kind":"k","data":1}`, `{"url":"https://a.example/","headers":[{"name":"A","value":"b"}],"body":"aGk="}`,
		`{"key":"k"}`, `{"key":"k","value":"aGk=","ttl_ms":5}`, `{"prefix":"k","values":true}`, `{"key":"k","revision":1}`,
		`{"messages":[{"role":"user","parts":[{"type":"text","text":"a"}]}],"max_tokens":5}`, `{"handler":"t","payload":[1]}`,
		`{"path":"/a"}`, `{"patch":[{"op":"add","path":"/a","value":1}]}`, `{"indices":[0]}`, `{"texts":["a"]}`, `null`, `{"key":1}`,
	} {
		for op := range len(Operations()) {
			if op == i || i > 13 {
				f.Add(uint8(op), []byte(seed))
			}
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, request []byte) {
		op := Operations()[int(n)%len(Operations())]
		state, err := host.NewState(map[string]int{"a": 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		view := viewOperations{baseOperations{binding: s, state: state}, llm.NewView([]*host.Message{host.UserText("one")}, "", nil), false}
		tool := s.toolOperations(host.NewCall("t", nil, state))
		for _, ops := range []operations{tool, view} {
			out, err := ops.operate(t.Context(), op, slices.Clone(request))
			if err != nil {
				if code := host.CodeOf(err); code == host.Internal || !code.Valid() {
					t.Errorf("%s %q ends in %q: %v", op, request, code, err)
				}
				if raw := abi.ErrorObject(err); !json.Valid(raw) {
					t.Errorf("%s %q ends in %q, which is not JSON", op, request, raw)
				}
				continue
			}
			if !json.Valid(out) || !utf8.Valid(out) {
				t.Errorf("%s %q is answered %q, which is not JSON", op, request, out)
			}
		}
	})
}
