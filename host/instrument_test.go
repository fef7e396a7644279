package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/llm"
)

// operationLog writes operations down as they end, each with the names of those around it.
type operationLog struct {
	mu    sync.Mutex
	begun int
	lines []string
}

type pathKey struct{}

func (r *operationLog) Begin(ctx context.Context, op instrument.Operation) (context.Context, func(error)) {
	outer, _ := ctx.Value(pathKey{}).(string)
	path := outer + "/" + nameOf(op)
	r.mu.Lock()
	r.begun++
	r.mu.Unlock()
	return context.WithValue(ctx, pathKey{}, path), func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, strings.TrimSpace(path+" "+endOf(op)+" "+string(host.CodeOf(err))))
	}
}

// ended returns the lines, and checks that each operation that began has ended once.
func (r *operationLog) ended(t *testing.T) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun != len(r.lines) {
		t.Errorf("%d operations began and %d ended", r.begun, len(r.lines))
	}
	return r.lines
}

func nameOf(op instrument.Operation) string {
	switch op := op.(type) {
	case *instrument.Run:
		return "run"
	case *instrument.Agent:
		return op.Scope.Agent
	case *instrument.Model:
		return string(op.Purpose) + "'s model"
	case *instrument.Tool:
		return op.Name
	case *instrument.Processor:
		return op.Name
	case *instrument.Provider:
		return fmt.Sprint(op.Name, map[bool]string{true: ".observe"}[op.Observes])
	case *instrument.Router:
		return op.Name
	}
	return fmt.Sprintf("%T", op)
}

func endOf(op instrument.Operation) string {
	switch op := op.(type) {
	case *instrument.Run:
		return fmt.Sprintf("%s %d+%d", op.FinishReason, op.Usage.InputTokens, op.Usage.OutputTokens)
	case *instrument.Agent:
		return fmt.Sprintf("%s %d", op.FinishReason, op.Rounds)
	case *instrument.Model:
		return fmt.Sprintf("%s retries=%d", op.Answered, op.Retries)
	case *instrument.Tool:
		return fmt.Sprintf("%d %s", op.Attempts, op.Result)
	case *instrument.Processor:
		return fmt.Sprintf("%d>%d skipped=%t", op.MessagesBefore, op.MessagesAfter, op.Skipped != nil)
	case *instrument.Provider:
		return fmt.Sprint(op.Messages)
	case *instrument.Router:
		return strings.Join(op.Next, ",")
	}
	return ""
}

type noted struct{}

func (noted) Name() string { return "notes" }
func (noted) Provide(context.Context, *host.ProvideRequest) (*host.Provided, error) {
	return &host.Provided{Messages: []*host.Message{host.UserText("note")}}, nil
}
func (noted) Observe(context.Context, *host.ObserveRequest) (*host.Cost, error) { return nil, nil }

// newInstrumented returns a host and a network of all kinds of operations.
func newInstrumented(t *testing.T, in host.Instrument, logger *slog.Logger) (*host.Host, *host.Network) {
	t.Helper()
	h, err := host.New(&host.Options{SingleTenant: true, Instrument: in, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	keep := host.ProcessorFunc("keep", func(_ context.Context, m []*host.Message) ([]*host.Message, error) { return m, nil })
	broken := host.Optional(host.ProcessorFunc("broken", func(context.Context, []*host.Message) ([]*host.Message, error) { return nil, errors.New("broken") }))
	helper, err := host.NewAgent("helper", &host.AgentOptions{Description: "Helps.", Model: hosttest.NewModel(hosttest.Say("helped"))})
	if err != nil {
		t.Fatal(err)
	}
	help, err := host.NewAgentTool(helper, nil)
	if err != nil {
		t.Fatal(err)
	}
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "", errors.New("dark") }, nil)
	clerk, err := host.NewAgent("clerk", &host.AgentOptions{
		Description: "Answers.", Tools: []*host.Tool{help, look}, Providers: []host.Provider{noted{}}, Processors: []host.Processor{keep, broken},
		Model: hosttest.NewModel(hosttest.Call("helper", `{"request":"x"}`), hosttest.Call("look", "{}"), hosttest.Say("done")),
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := host.NewNetwork("desk", []*host.Agent{clerk}, &host.NetworkOptions{
		Router: host.NewModelRouter("choose", &host.ModelRouterOptions{Model: hosttest.NewModel(hosttest.Call("select_agent", `{"name":"clerk"}`), hosttest.Call("done", `{"summary":"ok"}`))}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, n
}

func TestInstrumentIsCalledAroundEveryOperation(t *testing.T) {
	var r operationLog
	h, n := newInstrumented(t, &r, nil)
	if _, err := h.Run(t.Context(), n, &host.Request{Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/run/choose/router's model scripted retries=0",
		"/run/choose clerk",
		"/run/clerk/notes 1",
		"/run/clerk/keep 1>1 skipped=false", "/run/clerk/broken 1>1 skipped=true",
		"/run/clerk/agent's model scripted retries=0",
		"/run/clerk/helper/helper/agent's model scripted retries=0",
		"/run/clerk/helper/helper stop 1",
		`/run/clerk/helper 1 "helped"`,
		"/run/clerk/keep 3>3 skipped=false", "/run/clerk/broken 3>3 skipped=true",
		"/run/clerk/agent's model scripted retries=0",
		`/run/clerk/look 1 "dark" internal`,
		"/run/clerk/keep 5>5 skipped=false", "/run/clerk/broken 5>5 skipped=true",
		"/run/clerk/agent's model scripted retries=0",
		"/run/clerk/notes.observe 0",
		"/run/clerk stop 3",
		"/run/choose/router's model scripted retries=0",
		"/run/choose",
	}
	got := r.ended(t)
	if diff := cmp.Diff(want, got[:len(got)-1]); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	if last := got[len(got)-1]; !strings.HasPrefix(last, "/run stop ") || strings.HasSuffix(last, " 0+0") {
		t.Errorf("the run ends with %q", last)
	}
}

// thrower panics in Begin, or when an operation ends, or returns useless contexts.
type thrower struct{ inBegin, foreign, nothing bool }

func (p thrower) Begin(context.Context, instrument.Operation) (context.Context, func(error)) {
	switch {
	case p.inBegin:
		panic("in Begin")
	case p.foreign:
		return context.Background(), nil
	case p.nothing:
		return nil, nil
	}
	return nil, func(error) { panic("at the end") }
}

func TestFaultsOfAnInstrumentDoNotReachTheRun(t *testing.T) {
	for name, in := range map[string]host.Instrument{"panics in Begin": thrower{inBegin: true}, "panics at the end": thrower{},
		"returns another context": thrower{foreign: true}, "returns nothing": thrower{nothing: true}} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			h, n := newInstrumented(t, in, slog.New(slog.NewTextHandler(&log, nil)))
			result, err := h.Run(t.Context(), n, &host.Request{Text: "hi"})
			if err != nil || result.Text() != "done" {
				t.Errorf("the run answers %v, %v", result, err)
			}
			if panics := strings.Contains(log.String(), "instrument panicked"); panics != strings.HasPrefix(name, "panics") {
				t.Errorf("a panic is logged: %t\n%s", panics, log.String())
			}
		})
	}
}

func TestCanceledOperationsEndWithTheCodeOfTheirContext(t *testing.T) {
	var r operationLog
	h, err := host.New(&host.Options{SingleTenant: true, Instrument: &r})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	model := hosttest.ModelFunc(func(ctx context.Context, _ *llm.Request) hosttest.Reply {
		cancel()
		<-ctx.Done()
		return hosttest.Fail(errors.New("connection closed"))
	})
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(ctx, agent, &host.Request{Text: "hi"}); host.CodeOf(err) != host.Canceled {
		t.Fatalf("the run ends with %v", err)
	}
	for _, line := range r.ended(t) {
		if !strings.HasSuffix(line, " canceled") {
			t.Errorf("operation %q", line)
		}
	}
}

// A reader that leaves, one that panics, a model that panics: each operation ends.
func TestOperationsEndHoweverTheRunDoes(t *testing.T) {
	t.Run("its reader leaves", func(t *testing.T) {
		var r operationLog
		h, n := newInstrumented(t, &r, nil)
		for ev := range h.Stream(t.Context(), n, &host.Request{Text: "hi"}) {
			if ev.Agent == "clerk" {
				break
			}
		}
		if last := r.ended(t); !strings.HasSuffix(last[len(last)-1], " canceled") {
			t.Errorf("the run ends with %q", last)
		}
	})
	t.Run("its reader panics", func(t *testing.T) {
		var r operationLog
		h, n := newInstrumented(t, &r, nil)
		func() {
			defer func() { _ = recover() }()
			for ev := range h.Stream(t.Context(), n, &host.Request{Text: "hi"}) {
				if ev.Agent == "clerk" {
					panic("reader")
				}
			}
		}()
		if last := r.ended(t); !strings.HasSuffix(last[len(last)-1], " internal") {
			t.Errorf("the run ends with %q", last)
		}
	})
	t.Run("its model panics", func(t *testing.T) {
		var r operationLog
		h, err := host.New(&host.Options{SingleTenant: true, Instrument: &r, Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { panic("model") })})
		if err != nil {
			t.Fatal(err)
		}
		agent, err := host.NewAgent("clerk", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Run(t.Context(), agent, &host.Request{Text: "hi"}); host.CodeOf(err) != host.Internal {
			t.Fatal(err)
		}
		for _, line := range r.ended(t) {
			if !strings.HasSuffix(line, " internal") {
				t.Errorf("operation %q", line)
			}
		}
	})
}

// pricing is a ledger that admits all and has prices.
type pricing struct{ host.Ledger }

func (pricing) AdmitRun(context.Context, string, string) error { return nil }
func (pricing) OpenRun(host.Scope, string) host.UsageRecord    { return nil }
func (pricing) Price(model string, used host.Usage) instrument.Money {
	return instrument.Money{Amount: int64(used.OutputTokens) * 7, Currency: model}
}

type modelEnds func(*instrument.Model)

func (f modelEnds) Begin(ctx context.Context, op instrument.Operation) (context.Context, func(error)) {
	return ctx, func(error) {
		if m, ok := op.(*instrument.Model); ok {
			f(m)
		}
	}
}

func TestModelCallsHaveTheirDetails(t *testing.T) {
	var got *instrument.Model
	h, err := host.New(&host.Options{SingleTenant: true, Ledger: pricing{}, Instrument: modelEnds(func(m *instrument.Model) { got = m })})
	if err != nil {
		t.Fatal(err)
	}
	temperature := 0.5
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Temperature: &temperature, MaxOutputTokens: 100,
		Model: hosttest.NewModel(hosttest.Reply{Text: "Hello, you!", Usage: host.Usage{InputTokens: 5, OutputTokens: 3, CachedTokens: 2, ReasoningTokens: 1}})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), agent, &host.Request{Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	switch {
	case got.Name != "scripted" || got.Scope.Agent != "clerk" || *got.Request.Temperature != 0.5 || got.Request.MaxOutputTokens != 100:
		t.Errorf("the request is %+v", got)
	case got.Usage != host.Usage{InputTokens: 5, OutputTokens: 3, CachedTokens: 2, ReasoningTokens: 1} || got.Price != instrument.Money{Amount: 21, Currency: "scripted"}:
		t.Errorf("the use is %+v, at %+v", got.Usage, got.Price)
	case got.FirstChunk <= 0 || got.Response == nil:
		t.Errorf("the answer is %+v after %s", got.Response, got.FirstChunk)
	}
}
