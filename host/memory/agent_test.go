package memory_test

// Scenario: agents write and recall memories with tools and a provider.

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/internal/testhost"
)

// ofUser is the scope of the user that a run's state names.
var ofUser = memory.UserAt("/user")

func run(t *testing.T, opts *host.AgentOptions, user, text string) (*host.RunResult, error) {
	t.Helper()
	agent := testhost.NewAgent(t, "butler", opts)
	h := testhost.NewSingle(t, nil)
	return h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: text, State: map[string]string{"user": user}})
}

func messagesOf(r *host.RunResult) (out []*host.Message) {
	for _, res := range r.Results {
		out = append(out, res.Messages...)
	}
	return out
}

// results are what the tools of a run answered.
func results(r *host.RunResult) (out []string) {
	for _, m := range messagesOf(r) {
		for _, res := range m.ToolResults() {
			out = append(out, string(res.Content))
		}
	}
	return out
}

func TestAgentsRememberWithTools(t *testing.T) {
	s := open(t, nil)
	tools := memory.NewTools(s, ofUser)
	create := hosttest.NewModel(hosttest.Call("create_memories", `{"statements":["Ada drinks tea.","Ada sings."]}`), hosttest.Say("Noted."))
	if _, err := run(t, &host.AgentOptions{Tools: tools.Granular(), Model: create}, "ada", "I drink tea, and I sing."); err != nil {
		t.Fatal(err)
	}
	wants(t, "kept", found(t, s, ada, "tea"), []string{"Ada drinks tea."})
	list, err := s.List(t.Context(), ada, nil)
	if err != nil || len(list) != 2 {
		t.Fatalf("listed %v, %v", list, err)
	}
	ids := map[string]string{}
	for _, m := range list {
		ids[m.Text] = m.ID
	}
	manage := hosttest.NewModel(
		hosttest.Call("recall_memories", `{"queries":["sings","elephants","Ada sings","tea"]}`),
		hosttest.Call("manage_memories", `{"creations":null,"updates":[{"id":"nobody","statement":"x"}],"deletions":[{"id":"`+ids["Ada sings."]+`"}]}`),
		hosttest.Call("manage_memories", `{"creations":["Ada dances."],"updates":[{"id":"`+ids["Ada drinks tea."]+`","statement":"Ada drinks coffee."}],"deletions":[{"id":"`+ids["Ada sings."]+`"}]}`),
		hosttest.Say("Done."))
	r, err := run(t, &host.AgentOptions{Tools: tools.Consolidated(), Model: manage}, "ada", "I changed.")
	if err != nil {
		t.Fatal(err)
	}
	got := results(r)
	if want := `[{"id":"` + ids["Ada sings."] + `","statement":"Ada sings."},{"id":"` + ids["Ada drinks tea."] + `","statement":"Ada drinks tea."}]`; got[0] != want {
		t.Errorf("recalled %s, want %s", got[0], want)
	}
	if !strings.Contains(got[1], `there is no memory \"nobody\"`) {
		t.Errorf("a batch with an unknown id is answered %s", got[1])
	}
	left := found(t, s, ada, "Ada sings dances tea coffee")
	slices.Sort(left)
	wants(t, "what is left", left, []string{"Ada dances.", "Ada drinks coffee."})
	wants(t, "another user's", found(t, s, memory.Scope{Tenant: "acme", User: "bob"}, "Ada"), []string{})
}

// A call that is tried again has the ids that it had.
func TestRepeatedCallsCreateOnce(t *testing.T) {
	s := open(t, nil)
	tools := memory.NewTools(failOnce(s), ofUser)
	model := hosttest.NewModel(hosttest.Call("create_memories", `{"statements":["Ada drinks tea."]}`), hosttest.Say("Noted."))
	tool := tools.Create()
	tool.Retries = 2
	if _, err := run(t, &host.AgentOptions{Tools: []*host.Tool{tool}, Model: model}, "ada", "x"); err != nil {
		t.Fatal(err)
	}
	events, err := s.List(t.Context(), ada, nil)
	if err != nil || len(events) != 1 {
		t.Errorf("kept %v, %v", events, err)
	}
}

// failOnce is a backend whose first write is made and then reported as failed.
func failOnce(s *memory.Store) memory.Backend { return &failing{Store: s} }

type failing struct {
	*memory.Store
	failed bool
}

func (f *failing) Apply(ctx context.Context, scope memory.Scope, changes ...memory.Change) ([]*memory.Memory, error) {
	out, err := f.Store.Apply(ctx, scope, changes...)
	if err == nil && !f.failed {
		f.failed = true
		return nil, host.Errorf(host.Unavailable, "the answer got lost")
	}
	return out, err
}

func TestAProviderRecallsAndRemembers(t *testing.T) {
	s := open(t, nil)
	add(t, s, ada, "Ada is allergic\nto nuts.")
	add(t, s, ada, "Ada sings.")
	var remembered error
	provider := memory.NewProvider("memory", s, ofUser, &memory.ProviderOptions{
		Remember: func(_ context.Context, req *host.ObserveRequest) ([]memory.Change, error) {
			if remembered != nil {
				return nil, remembered
			}
			return []memory.Change{{Kind: memory.Add, Text: "Ada asked: " + req.Messages[len(req.Messages)-1].Text()}}, nil
		}})
	model := hosttest.NewModel(hosttest.Say("No nuts."), hosttest.Say("Hm."))
	options := &host.AgentOptions{Providers: []host.Provider{provider}, Model: model}
	r, err := run(t, options, "ada", "Am I allergic to this?")
	if err != nil {
		t.Fatal(err)
	}
	asked := model.Requests()[0].Messages
	if len(asked) != 2 || asked[0].Role != host.User || asked[0].Text() != memory.DefaultHeading+"\n- Ada is allergic to nuts." {
		t.Errorf("the model was shown %q", asked[0].Text())
	}
	for _, m := range messagesOf(r) {
		if strings.Contains(m.Text(), "nuts.\n") {
			t.Errorf("what was recalled is stored: %q", m.Text())
		}
	}
	wants(t, "remembered", found(t, s, ada, "asked"), []string{"Ada asked: Am I allergic to this?"})
	remembered = errors.New("no idea")
	if _, err := run(t, options, "ada", "And sing?"); err != nil {
		t.Errorf("a memory that fails, fails the run: %v", err)
	}
}

func TestNobodysMemoriesAreShownToNobody(t *testing.T) {
	s := open(t, nil)
	provider := memory.NewProvider("memory", s, ofUser, nil)
	_, err := run(t, &host.AgentOptions{Providers: []host.Provider{provider}, Model: hosttest.NewModel(hosttest.Say("x"))}, "", "hello")
	wantCode(t, "a run without a user", err, host.InvalidArgument)
}

// Whatever a model writes as arguments is answered, and keeps or loses nothing
// that it should not.
func TestHostileArguments(t *testing.T) {
	s := open(t, nil)
	tea := add(t, s, ada, "Ada drinks tea.")
	bobs := add(t, s, memory.Scope{Tenant: "acme", User: "bob"}, "Bob's secret.")
	many := func(n int, item string) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	for name, c := range map[string]struct{ tool, args, says string }{
		"nothing to remember":      {"create_memories", `{"statements":[]}`, `[]`},
		"null":                     {"create_memories", `{"statements":null}`, "got null, want array"},
		"a blank statement":        {"create_memories", `{"statements":["Ada sings."," \n"]}`, "without text"},
		"a long statement":         {"create_memories", `{"statements":["` + strings.Repeat("x", memory.MaxTextBytes+1) + `"]}`, "the limit is"},
		"too many statements":      {"create_memories", `{"statements":` + many(memory.MaxChanges+1, `"x"`) + `}`, "more than 32"},
		"a scope of its own":       {"create_memories", `{"statements":["x"],"user":"bob"}`, "user"},
		"too many queries":         {"recall_memories", `{"queries":` + many(memory.MaxChanges+1, `"x"`) + `}`, "more than 32"},
		"a query of anything":      {"recall_memories", `{"queries":["\u0000 % _ * \" '"]}`, `[]`},
		"a long query":             {"recall_memories", `{"queries":["` + strings.Repeat("elephants and lions ", 5000) + `"]}`, `[]`},
		"an update to nothing":     {"update_memories", `{"updates":[{"id":"` + tea.ID + `","statement":""}]}`, "to say nothing"},
		"an update to blanks":      {"update_memories", `{"updates":[{"id":"` + tea.ID + `","statement":"  "}]}`, "without text"},
		"an update of another's":   {"update_memories", `{"updates":[{"id":"` + bobs.ID + `","statement":"x"}]}`, "there is no memory"},
		"a deletion of another's":  {"delete_memories", `{"deletions":[{"id":"` + bobs.ID + `"}]}`, "there is no memory"},
		"a deletion twice":         {"delete_memories", `{"deletions":[{"id":"` + tea.ID + `"},{"id":"` + tea.ID + `"}]}`, "there is no memory"},
		"an id that is a path":     {"delete_memories", `{"deletions":[{"id":"../../` + tea.ID + `"}]}`, "there is no memory"},
		"an id with NUL":           {"delete_memories", `{"deletions":[{"id":"\u0000"}]}`, "without control characters"},
		"an id of nothing":         {"delete_memories", `{"deletions":[{"id":""}]}`, "without the id"},
		"an id of a kilobyte":      {"delete_memories", `{"deletions":[{"id":"` + strings.Repeat("x", 1000) + `"}]}`, "at most"},
		"an update to what is":     {"manage_memories", `{"creations":["Ada swims."],"updates":[{"id":"` + tea.ID + `","statement":"Ada swims."},{"id":"nobody","statement":"x"}],"deletions":null}`, "there is no memory"},
		"all of it, and one wrong": {"manage_memories", `{"creations":["Ada runs."],"updates":null,"deletions":[{"id":"` + tea.ID + `"},{"id":"nobody"}]}`, "there is no memory"},
	} {
		tools := memory.NewTools(s, ofUser)
		r, err := run(t, &host.AgentOptions{Tools: append(tools.Granular(), tools.Manage()),
			Model: hosttest.NewModel(hosttest.Call(c.tool, c.args), hosttest.Say("ok"))}, "ada", "x")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := results(r); len(got) != 1 || !strings.Contains(got[0], c.says) {
			t.Errorf("%s is answered %.300q, want %q in it", name, got, c.says)
		}
	}
	for _, scope := range []memory.Scope{ada, {Tenant: "acme", User: "bob"}} {
		if n, err := s.Count(t.Context(), scope); n != 1 || err != nil {
			t.Errorf("%s has %d memories, %v", scope.User, n, err)
		}
	}
	if m, err := s.Get(t.Context(), ada, tea.ID); err != nil || m.Text != "Ada drinks tea." {
		t.Errorf("what there was is %v, %v", m, err)
	}
}
