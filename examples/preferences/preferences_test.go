package preferences_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/examples/preferences"
	"github.com/agenthost/agenthost/examples/preferences/learn"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testcode"
)

// providers are the two that are to do the same.
func providers(t *testing.T) map[string]host.Provider {
	t.Helper()
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir(),
		Limits: plugin.Limits{Timeout: time.Minute, StartTimeout: time.Minute}}) // on a busy machine
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(t.Context()) })
	p, err := rt.Load(t.Context(), "preferences", preferences.Wasm, nil) // it asks for no permission
	if err != nil {
		t.Fatal(err)
	}
	inWasm, err := p.Provider("", nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]host.Provider{"Go": preferences.Memory{}, "Wasm": inWasm}
}

func agent(t *testing.T, model host.Model, p host.Provider, opts host.AgentOptions) *host.Agent {
	t.Helper()
	opts.Instructions, opts.Model, opts.Providers = "You help.", model, []host.Provider{p}
	a, err := host.NewAgent("helper", &opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// says are what users say in turn, and what the agent's instructions are then.
var says = []struct{ text, instructions string }{
	{"Hello.", "You help."},
	{"My favourite colour is green. Call me Ada", "You help."},
	{"And now?", "You help.\nUser preferences: favourite colour: green, name: Ada"},
	{"My favourite colour is blue!", "You help.\nUser preferences: favourite colour: green, name: Ada"},
	{"Which?", "You help.\nUser preferences: name: Ada, favourite colour: blue"},
}

// What was learned is there after a restart: each turn opens the database anew.
func TestPreferencesSurviveARestart(t *testing.T) {
	for name, p := range providers(t) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			for _, turn := range says {
				driver, err := badgerkv.Open(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				history, err := host.NewHistory(threads.New(driver, nil), nil)
				if err != nil {
					t.Fatal(err)
				}
				ask(t, p, turn.text, turn.instructions, &host.Options{SingleTenant: true, History: history}, &host.Request{Thread: "t1"})
				if turn.text == "And now?" {
					ask(t, p, "And for me?", "You help.", &host.Options{SingleTenant: true, History: history}, &host.Request{Thread: "somebody else's"})
				}
				if err := driver.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// ask runs one turn and looks at what the model is told.
func ask(t *testing.T, p host.Provider, text, instructions string, opts *host.Options, req *host.Request) {
	t.Helper()
	model := hosttest.NewModel(hosttest.Say("Fine."))
	h, err := host.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	req.Text = text
	if _, err := h.Run(t.Context(), agent(t, model, p, host.AgentOptions{}), req); err != nil {
		t.Fatal(err)
	}
	if got := model.Requests()[0].Messages[0].Text(); got != instructions {
		t.Errorf("%q: the instructions are %q, want %q", text, got, instructions)
	}
}

// What was learned goes with the thread where that is serialized, to the other
// provider too: both keep the same.
func TestPreferencesSurviveSerialization(t *testing.T) {
	both := providers(t)
	for _, order := range [][]string{{"Go", "Wasm", "Go", "Wasm", "Go"}, {"Wasm", "Go", "Wasm", "Go", "Wasm"}} {
		var kept []byte
		for i, turn := range says {
			model := hosttest.NewModel(hosttest.Say("Fine."))
			a := agent(t, model, both[order[i]], host.AgentOptions{})
			thread, err := a.NewThread(t.Context(), nil)
			if kept != nil {
				thread, err = a.RestoreThread(t.Context(), kept, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			h, err := host.New(&host.Options{SingleTenant: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Run(t.Context(), a, &host.Request{AgentThread: thread, Text: turn.text}); err != nil {
				t.Fatal(err)
			}
			if got := model.Requests()[0].Messages[0].Text(); got != turn.instructions {
				t.Errorf("%s, %q: the instructions are %q, want %q", order[i], turn.text, got, turn.instructions)
			}
			if kept, err = thread.Serialize(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A run that fails teaches nothing.
func TestAFailedRunTeachesNothing(t *testing.T) {
	for name, p := range providers(t) {
		t.Run(name, func(t *testing.T) {
			model := hosttest.NewModel(hosttest.Fail(host.Errorf(host.Unavailable, "down")), hosttest.Say("Fine."))
			history, err := host.NewHistory(hosttest.NewHistory(), nil)
			if err != nil {
				t.Fatal(err)
			}
			h, err := host.New(&host.Options{SingleTenant: true, History: history})
			if err != nil {
				t.Fatal(err)
			}
			a := agent(t, model, p, host.AgentOptions{})
			if _, err := h.Run(t.Context(), a, &host.Request{Thread: "t1", Text: "Call me Ada."}); host.CodeOf(err) != host.Unavailable {
				t.Fatalf("Run: %v", err)
			}
			if _, err := h.Run(t.Context(), a, &host.Request{Thread: "t1", Text: "Hello?"}); err != nil {
				t.Fatal(err)
			}
			if got := model.Requests()[1].Messages[0].Text(); got != "You help." {
				t.Errorf("the instructions are %q", got)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	known := learn.Preferences{{Name: "name", Value: "Ada"}}
	for _, c := range []struct {
		text    string
		want    learn.Preferences
		changed bool
	}{
		{"", known, false},
		{"Call me Ada.", known, false},
		{"My is", known, false},
		{"my  is ", known, false},
		{"İ prefer tea", known, false},
		{"I prefer short answers", learn.Preferences{{Name: "name", Value: "Ada"}, {Name: "style", Value: "short answers"}}, true},
		{"call me Bob! My Tea is green\nMy tea is black", learn.Preferences{{Name: "name", Value: "Bob"}, {Name: "tea", Value: "black"}}, true},
	} {
		got, changed := known.Add(c.text)
		if diff := cmp.Diff(c.want, got); diff != "" || changed != c.changed {
			t.Errorf("Add(%q): changed %v, want %v (-want +got):\n%s", c.text, changed, c.changed, diff)
		}
	}
	for i := range 2 * learn.MaxPreferences {
		known, _ = known.Add(fmt.Sprintf("my number %d is x", i))
	}
	if len(known) != learn.MaxPreferences {
		t.Errorf("%d are kept, want %d", len(known), learn.MaxPreferences)
	}
}
