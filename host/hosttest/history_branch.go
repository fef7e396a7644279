package hosttest

import (
	"encoding/json"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// The rules about regenerated answers and branches.

func busyThreadRefuses(t *testing.T, a *abilities, _ *HistoryOptions) {
	req := &host.HistoryRequest{Tenant: "acme", Thread: "busy", Run: "run1", Network: "kit"}
	unlock, err := a.lock.LockThread(t.Context(), req)
	if err != nil {
		t.Fatalf("LockThread: %v", err)
	}
	hasty := *req
	hasty.Run = "run2"
	for _, racing := range []host.Racing{host.RaceConflict, host.RaceBranch} {
		hasty.Racing = racing
		if _, err := a.lock.LockThread(t.Context(), &hasty); host.CodeOf(err) != host.Conflict {
			t.Errorf("LockThread of a locked thread with Racing %q: %v (code %q); want code %s", racing, err, host.CodeOf(err), host.Conflict)
		}
	}
	unlock()
	again, err := a.lock.LockThread(t.Context(), &hasty)
	if err != nil {
		t.Fatalf("LockThread with Racing %q of a thread that is free: %v", hasty.Racing, err)
	}
	again()
}

// twoTurns stores two turns, each with a state.
func (c *conversation) twoTurns() (messages []*host.Message) {
	c.t.Helper()
	for i, n := range []string{"1", "2"} {
		user, said := userSays("u"+n, "question "+n), answer("a"+n, "answer "+n)
		turn := turnOf(c.say("run"+n, user), said)
		turn.State = json.RawMessage([]string{`{"turn":1}`, `{"turn":2}`}[i])
		c.mustStore("run"+n, user, turn)
		messages = append(messages, user, said)
	}
	return messages
}

func (c *conversation) regenerate(run, message string) string {
	c.t.Helper()
	head, err := c.again.Regenerate(c.t.Context(), c.request(run, nil), message)
	if err != nil {
		c.t.Fatalf("Regenerate message %q: %v", message, err)
	}
	return head
}

func answerIsTakenBack(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "again")
	m := c.twoTurns()
	before := c.get().Head
	head := c.regenerate("run3", "u2")
	c.want(m[:3]...)
	if got := c.get(); got.Head != head || head == before {
		t.Errorf("Regenerate returns head %q, Get %q; want one, and not the head of before %q", head, got.Head, before)
	}
	c.wantState("after the answer was taken back", `{"turn":1}`)
	if again := c.regenerate("run3", "u2"); again != head {
		t.Errorf("Regenerate again moved the head from %q to %q", head, again)
	}
	other := answer("a2b", "another answer")
	c.mustStore("run3", m[2], turnOf(head, other))
	c.want(m[0], m[1], m[2], other)
	if err := c.store("run2", m[2], turnOf(before, m[3])); err != nil && host.CodeOf(err) != host.Conflict {
		t.Errorf("AppendResults of the turn that was taken back: %v", err)
	}
	c.want(m[0], m[1], m[2], other)
	head = c.regenerate("run4", "u1")
	c.mustStore("run4", m[0], turnOf(head, answer("a1b", "yet another")))
	c.want(m[0], answer("a1b", "yet another"))
}

func regenerateRefuses(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "refuse")
	m := c.twoTurns()
	for message, want := range map[string]host.Code{"nope": host.NotFound, "a1": host.InvalidArgument} {
		if _, err := c.again.Regenerate(t.Context(), c.request("run3", nil), message); host.CodeOf(err) != want {
			t.Errorf("Regenerate message %q: %v (code %q); want code %s", message, err, host.CodeOf(err), want)
		}
	}
	unknown := c.request("run3", nil)
	unknown.Thread = "there is none of this name"
	if _, err := c.again.Regenerate(t.Context(), unknown, "u1"); host.CodeOf(err) != host.NotFound {
		t.Errorf("Regenerate in an unknown thread: %v (code %q); want code %s", err, host.CodeOf(err), host.NotFound)
	}
	c.want(m...)
}

func takenBackIsSaidAgain(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "said again")
	m := c.twoTurns()
	c.regenerate("run3", "u1")
	c.mustStore("run3", m[0], turnOf("", answer("a1b", "another")))
	c.say("run4", m[2])
	c.say("run4", m[2])
	c.want(m[0], answer("a1b", "another"), m[2])
}

func branchesAreApart(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "branches")
	m := c.twoTurns()
	head := c.get().Head
	name, err := c.branch.Branch(t.Context(), c.request("run3", nil), "u2")
	if err != nil || name == "" {
		t.Fatalf("Branch = %q, %v", name, err)
	}
	b := *c
	b.line = name
	b.want(m[:3]...)
	b.wantState("on the branch", `{"turn":1}`)
	other := answer("a2b", "another answer")
	b.mustStore("run3", m[2], turnOf(b.get().Head, other))
	u3 := userSays("u3", "question 3")
	b.say("run4", u3)
	b.want(m[0], m[1], m[2], other, u3)
	c.want(m...)
	if got := c.get().Head; got != head {
		t.Errorf("the branch moved the thread's head from %q to %q", head, got)
	}
	b.line = name + "0"
	if loaded, err := c.load.Get(t.Context(), b.request("read", nil)); err == nil && len(loaded.Messages) > 0 {
		t.Errorf("Get of a branch that there is not returns %d messages", len(loaded.Messages))
	}
}

func branchBeginsBeforeTheTurn(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "race")
	m := c.twoTurns()
	unlock, err := c.lock.LockThread(t.Context(), c.request("run3", nil))
	if err != nil {
		t.Fatalf("LockThread: %v", err)
	}
	defer unlock()
	u3, u4 := userSays("u3", "of the first"), userSays("u4", "of the second")
	head := c.say("run3", u3)
	name, err := c.branch.Branch(t.Context(), c.request("run4", nil), "")
	if err != nil {
		t.Fatalf("Branch: %v", err)
	}
	b := *c
	b.line = name
	a3, a4 := answer("a3", "to the first"), answer("a4", "to the second")
	b.mustStore("run4", u4, turnOf(b.say("run4", u4), a4))
	c.mustStore("run3", u3, turnOf(head, a3))
	b.want(append(m[:4:4], u4, a4)...)
	c.want(append(m[:4:4], u3, a3)...)
	b.wantState("on the branch", `{"turn":2}`)
}
