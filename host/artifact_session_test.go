package host_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// artifactTool is a tool that does fn with its call.
func artifactTool(t *testing.T, name string, fn func(ctx context.Context, call *host.Call) error) *host.Tool {
	t.Helper()
	tool, err := host.NewRawTool(llm.ToolSpec{Name: name, Description: "Works with artifacts.", Parameters: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
			return &host.ToolOutput{}, fn(ctx, call)
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func textArtifact(name, text string) host.Artifact {
	return host.Artifact{Name: name, Parts: []host.Part{&host.Text{Text: text}}}
}

// artifactTurn runs a turn on thread t1 of the tenant acme in which a tool does fn.
func artifactTurn(t *testing.T, adapter any, fn func(ctx context.Context, call *host.Call) error) *host.RunResult {
	t.Helper()
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("work", "{}"), hosttest.Say("done")),
		Tools: []*host.Tool{artifactTool(t, "work", fn)}})
	result, err := newHost(t, &host.Options{History: newHistory(t, adapter)}).
		Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "t1", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// wantArtifact holds the artifact of a name, as a call sees it, to its text; "" is
// not_found.
func wantArtifact(t *testing.T, ctx context.Context, call *host.Call, name, want string) {
	t.Helper()
	a, err := call.Artifact(ctx, name)
	if want == "" {
		if host.CodeOf(err) != host.NotFound {
			t.Errorf("artifact %q: %+v, %v; want code not_found", name, a, err)
		}
		return
	}
	if err != nil {
		t.Errorf("artifact %q: %v", name, err)
		return
	}
	if got, _ := a.Content(); string(got) != want {
		t.Errorf("artifact %q is %q, want %q", name, got, want)
	}
}

func put(t *testing.T, call *host.Call, name, text string) {
	t.Helper()
	if err := call.AddArtifact(textArtifact(name, text)); err != nil {
		t.Errorf("AddArtifact %q: %v", name, err)
	}
}

func TestAToolReadsArtifactsOfEarlierTurns(t *testing.T) {
	history := hosttest.NewHistory()
	artifactTurn(t, history, func(_ context.Context, call *host.Call) error {
		put(t, call, "plan", "first")
		put(t, call, "notes", "some")
		put(t, call, "", "unnamed")
		return nil
	})
	before := len(history.Calls())
	artifactTurn(t, history, func(context.Context, *host.Call) error { return nil })
	if asked := history.Calls()[before:]; slices.Contains(asked, "ThreadArtifacts") {
		t.Errorf("a turn that reads no artifact asks for them: %q", asked)
	}
	before = len(history.Calls())
	result := artifactTurn(t, history, func(ctx context.Context, call *host.Call) error {
		wantArtifact(t, ctx, call, "plan", "first")
		wantArtifact(t, ctx, call, "another", "")
		wantArtifact(t, ctx, call, "", "")
		if own := call.Artifacts(); len(own) != 0 {
			t.Errorf("the run has made %+v", own)
		}
		refs, err := call.EarlierArtifacts(ctx)
		if err != nil || len(refs) != 3 || refs[0].Name != "plan" || refs[1].Name != "notes" || refs[2].Name != "" || refs[2].Digest != chat.ContentDigest([]byte("unnamed")) {
			t.Errorf("EarlierArtifacts = %+v, %v", refs, err)
		}
		put(t, call, "plan", "second")
		wantArtifact(t, ctx, call, "plan", "second")
		return nil
	})
	var reads []string
	for _, c := range history.Calls()[before:] {
		if c == "ThreadArtifacts" || strings.HasPrefix(c, "Open") {
			reads = append(reads, c)
		}
	}
	if want := []string{"ThreadArtifacts", `Open "plan"`}; !slices.Equal(reads, want) {
		t.Errorf("the history is asked %q, want %q", reads, want)
	}
	if len(result.Artifacts) != 1 {
		t.Errorf("the run has made %+v", result.Artifacts)
	}
	artifactTurn(t, history, func(ctx context.Context, call *host.Call) error {
		wantArtifact(t, ctx, call, "plan", "second")
		wantArtifact(t, ctx, call, "notes", "some")
		return nil
	})
}

// An agent used as a tool sees the artifacts of the run around it, in front of
// those of earlier turns.
func TestAnAgentToolSeesTheArtifactsAroundIt(t *testing.T) {
	history := hosttest.NewHistory()
	artifactTurn(t, history, func(_ context.Context, call *host.Call) error {
		put(t, call, "plan", "old")
		put(t, call, "notes", "old")
		return nil
	})
	inner := newAgent(t, &host.AgentOptions{Description: "Reads.", Model: hosttest.NewModel(hosttest.Call("read", "{}"), hosttest.Say("read")),
		Tools: []*host.Tool{artifactTool(t, "read", func(ctx context.Context, call *host.Call) error {
			wantArtifact(t, ctx, call, "plan", "new")
			wantArtifact(t, ctx, call, "notes", "old")
			put(t, call, "notes", "inner")
			return nil
		})}})
	reader, err := host.NewAgentTool(inner, &host.AgentToolOptions{Name: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	writer := artifactTool(t, "write", func(_ context.Context, call *host.Call) error { put(t, call, "plan", "new"); return nil })
	after := artifactTool(t, "after", func(ctx context.Context, call *host.Call) error {
		wantArtifact(t, ctx, call, "plan", "new")
		wantArtifact(t, ctx, call, "notes", "inner")
		return nil
	})
	outer := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{writer, reader, after}, Model: hosttest.NewModel(
		hosttest.Call("write", "{}"), hosttest.Call("reader", `{"request":"read"}`), hosttest.Call("after", "{}"), hosttest.Say("done"))})
	result, err := newHost(t, &host.Options{History: newHistory(t, history)}).Run(t.Context(), outer, &host.Request{Tenant: "acme", Thread: "t1", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Artifacts) != 2 {
		t.Errorf("the run has made %+v, want the plan and the notes once each", result.Artifacts)
	}
}

func TestArtifactsOfARequestAreRead(t *testing.T) {
	read := func(want string) *host.Agent {
		return newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("read", "{}"), hosttest.Say("done")),
			Tools: []*host.Tool{artifactTool(t, "read", func(ctx context.Context, call *host.Call) error {
				wantArtifact(t, ctx, call, "plan", want)
				return nil
			})}})
	}
	h := newHost(t, nil)
	result, err := h.Run(t.Context(), read("brought"), &host.Request{Text: "go", Artifacts: []host.Artifact{textArtifact("plan", "old"), textArtifact("plan", "brought")}})
	if err != nil || len(result.Artifacts) != 0 {
		t.Errorf("the run has made %+v, %v", result.Artifacts, err)
	}
	if _, err := h.Run(t.Context(), read(""), &host.Request{Text: "go"}); err != nil {
		t.Error(err)
	}
	if _, err := h.Run(t.Context(), read(""), &host.Request{Text: "go", Artifacts: []host.Artifact{{Parts: []host.Part{nil}}}}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a part that is nil: %v", err)
	}
}

// lister is a history whose list of artifacts is fn's.
type lister struct {
	*hosttest.History
	fn func() ([]host.ArtifactRef, error)
}

func (l lister) ThreadArtifacts(context.Context, *host.HistoryRequest) ([]host.ArtifactRef, error) {
	return l.fn()
}

func TestAHistoryThatCannotTellArtifactsFailsTheCall(t *testing.T) {
	ref := func(open func(context.Context) (*host.Artifact, error)) func() ([]host.ArtifactRef, error) {
		return func() ([]host.ArtifactRef, error) { return []host.ArtifactRef{{Name: "plan", Open: open}}, nil }
	}
	for name, c := range map[string]struct {
		list func() ([]host.ArtifactRef, error)
		code host.Code
	}{
		"the list fails":    {func() ([]host.ArtifactRef, error) { return nil, host.Errorf(host.Unavailable, "down") }, host.Unavailable},
		"the list panics":   {func() ([]host.ArtifactRef, error) { panic("lost") }, host.Internal},
		"an artifact fails": {ref(func(context.Context) (*host.Artifact, error) { return nil, host.Errorf(host.DataLoss, "gone") }), host.DataLoss},
		"no artifact":       {ref(func(context.Context) (*host.Artifact, error) { return nil, nil }), host.DataLoss},
		"nothing to open":   {ref(nil), host.Internal},
		"a nil part": {ref(func(context.Context) (*host.Artifact, error) {
			return &host.Artifact{Parts: []host.Part{nil}}, nil
		}), host.DataLoss},
	} {
		t.Run(name, func(t *testing.T) {
			artifactTurn(t, lister{hosttest.NewHistory(), c.list}, func(ctx context.Context, call *host.Call) error {
				if _, err := call.Artifact(ctx, "plan"); host.CodeOf(err) != c.code {
					t.Errorf("Artifact: %v, want code %s", err, c.code)
				}
				return nil
			})
		})
	}
}

func TestARunSeesTheLastOfManyArtifacts(t *testing.T) {
	many := make([]host.ArtifactRef, host.MaxEarlierArtifacts+1)
	many[1].Digest = "first"
	artifactTurn(t, lister{hosttest.NewHistory(), func() ([]host.ArtifactRef, error) { return many, nil }}, func(ctx context.Context, call *host.Call) error {
		refs, err := call.EarlierArtifacts(ctx)
		if err != nil || len(refs) != host.MaxEarlierArtifacts || refs[0].Digest != "first" {
			t.Errorf("the run sees %d artifacts, %v", len(refs), err)
		}
		return nil
	})
	if refs, err := host.NewCall("t", nil, nil).EarlierArtifacts(t.Context()); refs != nil || err != nil {
		t.Errorf("a call outside a run sees %+v, %v", refs, err)
	}
}

// Calls of one answer may ask at once.
func TestCallsReadEarlierArtifactsAtOnce(t *testing.T) {
	history := hosttest.NewHistory()
	artifactTurn(t, history, func(_ context.Context, call *host.Call) error { put(t, call, "plan", "first"); return nil })
	reply := hosttest.Say("")
	for range 8 {
		reply = reply.Call("work", "{}")
	}
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(reply, hosttest.Say("done")),
		Tools: []*host.Tool{artifactTool(t, "work", func(ctx context.Context, call *host.Call) error {
			wantArtifact(t, ctx, call, "plan", "first")
			return nil
		})}})
	if _, err := newHost(t, &host.Options{History: newHistory(t, history)}).Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "t1", Text: "go"}); err != nil {
		t.Fatal(err)
	}
}
