package host_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// countOf counts the calls of a method.
func countOf(h *hosttest.History, method string) (n int) {
	for _, line := range h.Calls() {
		if strings.HasPrefix(line, method) {
			n++
		}
	}
	return n
}

// Wherever a durable run is killed, the one that goes on does not load its history
// again, and stores nothing twice. A conversation that is too long to be written
// down is loaded again.
func TestAResumedRunDoesNotLoadItsHistoryAgain(t *testing.T) {
	for _, long := range []bool{false, true} {
		for lives, killed := 1, true; killed; lives++ {
			history, journal := hosttest.NewHistory(), hosttest.NewJournal()
			earlier := host.UserText("earlier")
			if long {
				earlier = host.UserText(strings.Repeat("long ", 60_000))
			}
			history.Seed("acme", "t1", earlier, host.AssistantText("before"))
			var asked []int
			model := hosttest.NewModel(hosttest.Call("look", `{}`), hosttest.Say("done"), hosttest.Say("done"))
			look, err := lookingTool(nil).With(&host.ToolOptions{Idempotent: true})
			if err != nil {
				t.Fatal(err)
			}
			a := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{look}})
			run := func(j host.Journal, req *host.Request) (*host.RunResult, error) {
				req.Tenant = "acme"
				return newHost(t, &host.Options{History: newHistory(t, history), Journal: j}).Run(t.Context(), a, req)
			}
			r, err := run(&mortal{journal, lives}, &host.Request{Thread: "t1", Text: "hi", Durable: true})
			if killed = err != nil; !killed {
				break
			}
			if _, err := run(journal, &host.Request{Resume: r.Run}); err != nil {
				t.Fatalf("lives %d: %v", lives, err)
			}
			want := 1
			if long {
				want = 2
			}
			if n := countOf(history, "Get"); n != want {
				t.Errorf("lives %d, long %t: the history was loaded %d times, want %d: %q", lives, long, n, want, history.Calls())
			}
			for _, req := range model.Requests() {
				asked = append(asked, len(req.Messages))
			}
			if !slices.Contains(asked, 3) || asked[len(asked)-1] < 3 {
				t.Errorf("lives %d: the model was shown %v messages", lives, asked)
			}
			texts := map[string]int{}
			for _, m := range history.Messages("acme", "t1") {
				texts[m.Text()]++
			}
			if texts["hi"] != 1 || texts["done"] != 1 {
				t.Errorf("lives %d: stored %v", lives, texts)
			}
		}
	}
}

// A thread that somebody else has used since is noticed before the run costs more.
func TestAResumedRunNoticesThatItsThreadHasMovedOn(t *testing.T) {
	history, journal := hosttest.NewHistory(), hosttest.NewJournal()
	model := hosttest.NewModel(hosttest.Say("lost"))
	a := newAgent(t, &host.AgentOptions{Model: model})
	h := func(j host.Journal) *host.Host {
		return newHost(t, &host.Options{History: newHistory(t, history), Journal: j})
	}
	history.Seed("acme", "t1", host.UserText("earlier"), host.AssistantText("before"))
	r, err := h(&mortal{journal, 1}).Run(t.Context(), a, &host.Request{Tenant: "acme", Thread: "t1", Text: "hi", Durable: true})
	if err == nil {
		t.Fatal("the process lived")
	}
	asked := len(model.Requests())
	history.Seed("acme", "t1", host.UserText("somebody else"))
	_, err = h(journal).Run(t.Context(), a, &host.Request{Tenant: "acme", Resume: r.Run})
	if host.CodeOf(err) != host.Conflict || len(model.Requests()) != asked {
		t.Errorf("%v, asked %d times; want code %s and %d", err, len(model.Requests()), host.Conflict, asked)
	}
	if n := countOf(history, "Get"); n != 1 {
		t.Errorf("the history was loaded %d times", n)
	}
}
