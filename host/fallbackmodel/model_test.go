package fallbackmodel_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fallbackmodel"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/internal/testhost"
)

func down(name string, code host.Code) *hosttest.Model {
	return hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		return hosttest.Fail(host.Errorf(code, "%s is down", name))
	}).Named(name)
}

func up(name string) *hosttest.Model {
	return hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("I am " + name + ".") }).Named(name)
}

func fallback(t testing.TB, opts *fallbackmodel.Options, models ...host.Model) *fallbackmodel.Model {
	t.Helper()
	f, err := fallbackmodel.New(models, opts)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var newHost = testhost.NewSingle

func newAgent(t testing.TB, opts *host.AgentOptions) *host.Agent {
	t.Helper()
	return testhost.NewAgent(t, "clerk", opts)
}

// told runs a lone agent and returns what became of it and which models were
// fallen back on.
func told(t testing.TB, model host.Model) (text string, changes []string, err error) {
	t.Helper()
	for ev, failure := range newHost(t, nil).Stream(t.Context(), newAgent(t, &host.AgentOptions{Model: model}), &host.Request{Text: "who are you?"}) {
		switch d := ev.Data.(type) {
		case *runevent.ModelFellBack:
			changes = append(changes, fmt.Sprintf("%s to %s: %s", d.From, d.To, d.Code))
		case *runevent.TextDelta:
			text += d.Text
		}
		err = failure
	}
	return text, changes, err
}

func TestFallbackByCode(t *testing.T) {
	for _, tt := range []struct {
		code  host.Code
		falls bool
	}{
		{host.Unavailable, true}, {host.DeadlineExceeded, true}, {host.ResourceExhausted, true}, {host.Internal, true},
		{host.InvalidArgument, false}, {host.Unauthenticated, false}, {host.PermissionDenied, false}, {host.NotFound, false}, {host.Canceled, false},
	} {
		text, changes, err := told(t, fallback(t, nil, down("a", tt.code), up("b")))
		if tt.falls && (text != "I am b." || err != nil || !slices.Equal(changes, []string{"a to b: " + string(tt.code)})) {
			t.Errorf("after %s: %q, %q, %v", tt.code, text, changes, err)
		}
		if !tt.falls && (text != "" || host.CodeOf(err) != tt.code || changes != nil) {
			t.Errorf("%s must be returned: %q, %q, %v", tt.code, text, changes, err)
		}
	}
	if text, _, err := told(t, fallback(t, &fallbackmodel.Options{On: []host.Code{host.NotFound}}, down("a", host.NotFound), up("b"))); text != "I am b." || err != nil {
		t.Errorf("after a code that is asked for: %q, %v", text, err)
	}
}

func TestFallbackTellsWhatAllSaid(t *testing.T) {
	_, changes, err := told(t, fallback(t, nil, down("a", host.Unavailable), down("b", host.ResourceExhausted), down("c", host.Unavailable)))
	if !slices.Equal(changes, []string{"a to b: unavailable", "b to c: resource_exhausted"}) || host.CodeOf(err) != host.Unavailable ||
		!strings.Contains(err.Error(), "3 models failed: a: a is down; b: b is down; c: c is down") {
		t.Errorf("%q, %v", changes, err)
	}
}

// What was shown cannot be taken back.
func TestFallbackStaysWithAnAnswerThatHasBegun(t *testing.T) {
	breaks := hosttest.NewModel(hosttest.Reply{Text: "I am", Err: host.Errorf(host.Unavailable, "broke off")}).Named("a")
	text, changes, err := told(t, fallback(t, nil, breaks, up("b")))
	if text != "I am" || changes != nil || host.CodeOf(err) != host.Unavailable {
		t.Errorf("%q, %q, %v", text, changes, err)
	}
}

func TestFallbackCoolsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		first := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
			if broken {
				return hosttest.Fail(host.Errorf(host.Unavailable, "down"))
			}
			return hosttest.Say("I am a.")
		}).Named("a")
		f := fallback(t, nil, first, up("b"))
		step := func(want string, asked int) {
			t.Helper()
			text, changes, err := told(t, f)
			if text != want || err != nil || len(changes) != strings.Count(want, "b") {
				t.Errorf("%q, %q, %v; want %q", text, changes, err, want)
			}
			if got := len(first.Requests()); got != asked {
				t.Errorf("the first model was asked %d times, want %d", got, asked)
			}
		}
		step("I am b.", 1)
		step("I am b.", 1) // it is left alone
		time.Sleep(fallbackmodel.DefaultCooldown)
		step("I am b.", 2)
		broken = false
		step("I am b.", 2)
		time.Sleep(fallbackmodel.DefaultCooldown)
		step("I am a.", 3)
		step("I am a.", 4)
	})
}

func TestFallbackAsksWhatCoolsDownWhenNothingElseIsLeft(t *testing.T) {
	first := hosttest.NewModel(hosttest.Fail(host.Errorf(host.Unavailable, "busy")), hosttest.Say("I am a.")).Named("a")
	f := fallback(t, nil, first, down("b", host.Unavailable))
	if _, _, err := told(t, f); host.CodeOf(err) != host.Unavailable {
		t.Fatal(err)
	}
	if text, _, err := told(t, f); text != "I am a." || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// A caller who has left is no reason to ask somebody else, nor to leave a model
// alone.
func TestFallbackEndsWithItsCaller(t *testing.T) {
	second := up("b")
	ctx, cancel := context.WithCancel(t.Context())
	first := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		cancel()
		return hosttest.Fail(host.Errorf(host.Unavailable, "cut off"))
	}).Named("a")
	f := fallback(t, nil, first, second)
	if _, err := newHost(t, nil).Run(ctx, newAgent(t, &host.AgentOptions{Model: f}), &host.Request{Text: "hi"}); err == nil || len(second.Requests()) > 0 {
		t.Errorf("Run: %v; the second model was asked %d times", err, len(second.Requests()))
	}
	for _, err := range f.Generate(t.Context(), &llm.Request{}) {
		if err != nil {
			break
		}
	}
	if len(first.Requests()) != 2 {
		t.Errorf("the first model was asked %d times", len(first.Requests()))
	}
}

// silent yields nothing at all.
type silent struct{}

func (silent) Name() string { return "silent" }

func (silent) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(func(llm.Chunk, error) bool) {}
}

func TestFallbackFromAModelThatSaysNothing(t *testing.T) {
	if text, changes, err := told(t, fallback(t, nil, silent{}, up("b"))); text != "I am b." || err != nil || len(changes) != 1 {
		t.Errorf("%q, %q, %v", text, changes, err)
	}
}

// A fallback stands where any model does, and the run's beats the agent's.
func TestFallbackAtEveryLevel(t *testing.T) {
	f := fallback(t, nil, down("a", host.Unavailable), up("b"))
	lone := newAgent(t, nil)
	network, err := host.NewNetwork("desk", []*host.Agent{lone}, &host.NetworkOptions{Model: f, MaxIterations: 1, Router: host.InOrder("in order", "clerk")})
	if err != nil {
		t.Fatal(err)
	}
	for level, run := range map[string]func() (*host.RunResult, error){
		"host": func() (*host.RunResult, error) {
			return newHost(t, &host.Options{Model: f}).Run(t.Context(), lone, &host.Request{Text: "hi"})
		},
		"network": func() (*host.RunResult, error) {
			return newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "hi"})
		},
		"agent": func() (*host.RunResult, error) {
			return newHost(t, nil).Run(t.Context(), newAgent(t, &host.AgentOptions{Model: f}), &host.Request{Text: "hi"})
		},
		"run": func() (*host.RunResult, error) {
			return newHost(t, nil).Run(t.Context(), newAgent(t, &host.AgentOptions{Model: up("c")}), &host.Request{Text: "hi", Model: f})
		},
	} {
		if r, err := run(); err != nil || r.Text() != "I am b." {
			t.Errorf("%s: %+v, %v", level, r, err)
		}
	}
}

func TestNewFallbackRefuses(t *testing.T) {
	for name, f := range map[string]func() (*fallbackmodel.Model, error){
		"no model":    func() (*fallbackmodel.Model, error) { return fallbackmodel.New(nil, nil) },
		"a nil model": func() (*fallbackmodel.Model, error) { return fallbackmodel.New([]host.Model{up("a"), nil}, nil) },
		"nine": func() (*fallbackmodel.Model, error) {
			return fallbackmodel.New(slices.Repeat([]host.Model{up("a")}, 9), nil)
		},
		"a new code": func() (*fallbackmodel.Model, error) {
			return fallbackmodel.New([]host.Model{up("a")}, &fallbackmodel.Options{On: []host.Code{"tired"}})
		},
		"canceled": func() (*fallbackmodel.Model, error) {
			return fallbackmodel.New([]host.Model{up("a")}, &fallbackmodel.Options{On: []host.Code{host.Canceled}})
		},
	} {
		if _, err := f(); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func Example() {
	busy := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		return hosttest.Fail(host.Errorf(host.ResourceExhausted, "too many requests"))
	}).Named("large")
	small := hosttest.NewModel(hosttest.Say("Here is a short answer.")).Named("small")
	model, err := fallbackmodel.New([]host.Model{busy, small}, nil)
	if err != nil {
		panic(err)
	}
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model})
	if err != nil {
		panic(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		panic(err)
	}
	for ev, err := range h.Stream(context.Background(), agent, &host.Request{Text: "hi"}) {
		if err != nil {
			panic(err)
		}
		switch d := ev.Data.(type) {
		case *runevent.ModelFellBack:
			fmt.Printf("%s instead of %s: %s\n", d.To, d.From, d.Reason)
		case *runevent.MessageDone:
			fmt.Println(d.Message.Text())
		}
	}
	// Output:
	// small instead of large: too many requests
	// Here is a short answer.
}
