package artifactio

// Scenario: how much the artifacts of one call hold and decode, which their responses do
// not show.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// A guest pays for an artifact's bytes as it reads them, so the host must not go
// through all of them for each piece.
func TestArtifactsAreReadOnce(t *testing.T) {
	call := host.NewCall("t", nil, nil)
	if err := call.AddArtifact(host.Artifact{Name: "a", Parts: []host.Part{&host.Text{Text: strings.Repeat("x", 500<<10)}, &host.Text{Text: "y"}}}); err != nil {
		t.Fatal(err)
	}
	a := Of(call)
	first, err := a.Read(t.Context(), []byte(`{"name":"a","length":0}`), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	allocated := testing.AllocsPerRun(10, func() {
		if again, err := a.Read(t.Context(), []byte(`{"name":"a","length":0}`), 1<<20); err != nil || string(again) != string(first) {
			t.Errorf("read again: %s, %v; want %s", again, err, first)
		}
	})
	if len(a.bodies) != 1 || allocated > 40 {
		t.Errorf("%d bodies are kept, and a piece takes %v allocations", len(a.bodies), allocated)
	}
}

// The host holds a bounded part of what a call reads of earlier turns.
func TestACallHoldsFewEarlierArtifacts(t *testing.T) {
	adapter := &largeArtifacts{History: hosttest.NewHistory(), sizes: []int{MaxBytes / 2, MaxBytes / 2, 1, MaxBytes + 1}}
	history, err := host.NewHistory(adapter, nil)
	if err != nil {
		t.Fatal(err)
	}
	inTurn(t, history, func(ctx context.Context, call *host.Call) {
		a := Of(call)
		for i, c := range []struct {
			name  string
			code  host.Code
			reads int // so far
		}{{"0", "", 1}, {"1", "", 2}, {"0", "", 2}, {"2", "", 3}, {"0", "", 4}, {"3", host.ResourceExhausted, 4}} {
			_, err := a.Read(ctx, []byte(`{"name":"`+c.name+`","length":1}`), 1<<20)
			if host.CodeOf(err) != c.code || adapter.reads != c.reads || a.kept > MaxBytes {
				t.Errorf("read %d, of artifact %s: %v; %d were read and %d bytes are held, want code %q, %d and at most %d",
					i, c.name, err, adapter.reads, a.kept, c.code, c.reads, MaxBytes)
			}
		}
	})
}

// inTurn does fn in a tool's call in a turn of a thread.
func inTurn(t *testing.T, history *host.History, fn func(context.Context, *host.Call)) {
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
	if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "t1", Text: "go"}); err != nil {
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
