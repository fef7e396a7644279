package plugin

// Scenario: guests count the tokens of long texts and of many short ones.

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
)

// countFunc counts tokens at a pace that the test sets.
type countFunc func(ctx context.Context, pace func() error) (int, error)

func (f countFunc) EncodingFor(string) (string, bool) { return "any", true }

func (f countFunc) CountTokens(ctx context.Context, _ string, _ []byte) (int, error) {
	return f(ctx, ctx.(interface{ Pace() error }).Pace)
}

// count has a guest of a tenant count the tokens of a text.
func count(ctx context.Context, p *Plugin, tenant string, text string, with countFunc) (CallResult, error) {
	view := llm.NewView([]*host.Message{host.UserText("one")}, "", with)
	r, err := p.Call(ctx, tenant, "process", []byte(`tokens.count {"texts":["`+text+`"]}`), &CallOptions{View: view})
	return *r, err
}

func loadOps(t *testing.T, rt *Runtime) *Plugin {
	t.Helper()
	p, err := rt.Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// To count the tokens of a long text is work of the host's: the call pays for it,
// ends in the midst of it, and others go first whose turn it is.
func TestCountingTokensIsPaidForAndEnds(t *testing.T) {
	p := loadOps(t, startRuntime(t, nil))
	text := strings.Repeat("x", 100_000)
	r, err := count(t.Context(), p, "acme", text, func(_ context.Context, pace func() error) (int, error) { return 7, pace() })
	if err != nil || !strings.Contains(string(r.Output), `"tokens":[7]`) || r.Cost.Instructions < 64*int64(len(text)) {
		t.Errorf("it answers %.80s, %v, for %+v, want 7 tokens for 64 instructions a byte", r.Output, err, r.Cost)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = count(ctx, p, "acme", text, func(_ context.Context, pace func() error) (int, error) {
		cancel()
		err := pace()
		if err == nil {
			t.Error("a call that nobody waits for goes on")
		}
		return 0, err
	})
	if host.CodeOf(err) != host.Canceled {
		t.Errorf("a call whose caller leaves meanwhile ends with %v, want canceled", err)
	}
}

// Many texts that are short are as much work as a long one.
func TestCountingManyTextsEnds(t *testing.T) {
	p := loadOps(t, startRuntime(t, nil))
	ctx, cancel := context.WithCancel(t.Context())
	counted := 0
	_, err := count(ctx, p, "acme", strings.Repeat("x", 10_000)+strings.Repeat(`","`+strings.Repeat("x", 10_000), 20), func(context.Context, func() error) (int, error) {
		cancel()
		counted++
		return 1, nil
	})
	if host.CodeOf(err) != host.Canceled || counted > 2 {
		t.Errorf("after its caller has left it counts %d texts and ends with %v, want at most 2 and canceled", counted, err)
	}
}

func TestCountingTokensGivesWay(t *testing.T) {
	p := loadOps(t, startRuntime(t, &Options{Running: 1}))
	others := make(chan error, 1)
	_, err := count(t.Context(), p, "acme", strings.Repeat("x", 100_000), func(ctx context.Context, pace func() error) (int, error) {
		go func() {
			_, err := count(t.Context(), p, "globex", "x", func(context.Context, func() error) (int, error) { return 1, nil })
			others <- err
		}()
		for {
			select {
			case err := <-others:
				return 1, err
			default:
			}
			if err := pace(); err != nil {
				return 0, err
			}
		}
	})
	if err != nil {
		t.Errorf("another tenant's call does not get the one turn: %v", err)
	}
}
