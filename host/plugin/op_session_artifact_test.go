package plugin

// Scenario: a guest reads artifacts that earlier turns of the session made.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/artifactio"
	"github.com/agenthost/agenthost/host/threads"
)

// A guest reads what a tool of an earlier turn made, by its name and by the digest
// that was told then.
func TestAGuestReadsArtifactsOfEarlierTurns(t *testing.T) {
	stores := map[string]func(t *testing.T) any{
		"kit":    func(*testing.T) any { return hosttest.NewHistory() },
		"memory": func(*testing.T) any { return threads.New(kv.NewMemory(), nil) },
		"badger": func(t *testing.T) any {
			driver, err := badgerkv.Open(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { driver.Close() })
			return threads.New(driver, nil)
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			history, err := host.NewHistory(open(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			s := &artifactSession{history: history, tenant: "acme", thread: "t1"}
			s.turn(t, "artifact.write", `{"name":"plan","media_type":"text/plain","data":"`+b64("the plan")+`","last":true}`)
			for _, row := range []struct{ request, member, want string }{
				{`{"name":"plan"}`, "data", b64("the plan")},
				{`{"name":"plan","offset":4}`, "data", b64("plan")},
				{`{"digest":"` + chat.ContentDigest([]byte("the plan")) + `"}`, "media_type", "text/plain"},
				{`{"name":"another"}`, "code", "not_found"},
				{`{"digest":"` + chat.ContentDigest(nil) + `"}`, "code", "not_found"},
			} {
				if got := s.turn(t, "artifact.read", row.request)[row.member]; got != row.want {
					t.Errorf("artifact.read %s: %s is %v, want %s", row.request, row.member, got, row.want)
				}
			}
			for _, other := range []*artifactSession{{history: history, tenant: "globex", thread: "t1"}, {history: history, tenant: "acme", thread: "t2"}} {
				if got := other.turn(t, "artifact.read", `{"name":"plan"}`)["code"]; got != "not_found" {
					t.Errorf("thread %s of %s reads the plan of another: %v", other.thread, other.tenant, got)
				}
			}
		})
	}
}

// artifactSession is a conversation in which a guest runs an operation each turn.
type artifactSession struct {
	history        *host.History
	tenant, thread string
	limits         Limits

	cost *host.Cost // of the last call
}

// turn runs an operation in a turn of its own and returns its response.
func (s *artifactSession) turn(t *testing.T, op, request string) map[string]any {
	t.Helper()
	p, err := startRuntime(t, nil).Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Limits: s.limits})
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	inTurn(t, s.history, s.tenant, s.thread, func(ctx context.Context, call *host.Call) {
		s.cost, err = p.call(ctx, s.tenant, abi.Tool, []byte(op+" "+request), p.bindings.of(s.tenant).toolOperations(call),
			func(_ context.Context, raw []byte) error { return json.Unmarshal(raw, &out) })
		if err != nil {
			out = map[string]any{"code": string(host.CodeOf(err))}
		}
	})
	return out
}

// inTurn does fn in a tool's call in a turn of a thread.
func inTurn(t *testing.T, history *host.History, tenant, thread string, fn func(context.Context, *host.Call)) {
	t.Helper()
	tool, err := host.NewRawTool(llm.ToolSpec{Name: "op", Description: "Works with artifacts.", Parameters: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
			fn(ctx, call)
			return &host.ToolOutput{}, nil
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := host.NewAgent("a", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("op", "{}"), hosttest.Say("done")), Tools: []*host.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true, History: history})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: tenant, Thread: thread, Text: "go"}); err != nil {
		t.Fatal(err)
	}
}

// largeArtifacts is a history whose threads have artifacts of so many bytes, named
// 0, 1 and so on.
type largeArtifacts struct {
	*hosttest.History
	sizes []int
	reads int
}

func (l *largeArtifacts) ThreadArtifacts(context.Context, *host.HistoryRequest) ([]host.ArtifactRef, error) {
	refs := make([]host.ArtifactRef, len(l.sizes))
	for i, size := range l.sizes {
		refs[i] = host.ArtifactRef{Name: fmt.Sprint(i), Size: int64(size), Open: func(context.Context) (*host.Artifact, error) {
			l.reads++
			return &host.Artifact{Parts: []host.Part{&host.Media{MediaType: "a/b", Data: bytes.Repeat([]byte{byte(i)}, size)}}}, nil
		}}
	}
	return refs, nil
}

// A guest pays for all of an artifact of an earlier turn that the host reads for it,
// whether it wants the bytes or not.
func TestReadingAnEarlierArtifactIsPaid(t *testing.T) {
	const size = 1 << 20
	adapter := &largeArtifacts{History: hosttest.NewHistory(), sizes: []int{size}}
	history, err := host.NewHistory(adapter, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &artifactSession{history: history, tenant: "acme", thread: "t1"}
	if got := s.turn(t, "artifact.read", `{"name":"0","length":1}`); got["data"] != b64("\x00") || got["size"] != float64(size) {
		t.Errorf("artifact.read answers %v", got)
	}
	if s.cost == nil || s.cost.Instructions < size*artifactio.OpenedBytePrice {
		t.Errorf("the call costs %+v, want at least %d instructions", s.cost, size*artifactio.OpenedBytePrice)
	}
	adapter.reads, s.limits.Instructions = 0, size*artifactio.OpenedBytePrice
	if got := s.turn(t, "artifact.read", `{"name":"0","length":1}`); got["code"] != "resource_exhausted" || adapter.reads != 0 {
		t.Errorf("a call that cannot pay is answered %v, and %d artifacts are read", got, adapter.reads)
	}
}
