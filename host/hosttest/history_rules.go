package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

// The rules of TestHistory, in the order of historyRules.

func unknownThreadIsEmpty(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := &conversation{abilities: a, t: t, tenant: "acme", thread: "never-made", line: ""}
	if n := len(c.get().Messages); n != 0 {
		t.Errorf("Get of a thread that was never made returns %d messages, not none", n)
	}
}

func givenIDStays(t *testing.T, a *abilities, _ *HistoryOptions) {
	req := &host.HistoryRequest{Tenant: "acme", Thread: "mine", Run: "r1", Network: "kit"}
	for i, want := range []bool{true, false} {
		id, created, err := a.create.CreateThread(t.Context(), req)
		if err != nil {
			t.Fatalf("CreateThread %d: %v", i+1, err)
		}
		if id != "mine" || created != want {
			t.Errorf("CreateThread %d with id mine returns %q, created %t; want mine, %t", i+1, id, created, want)
		}
	}
}

func freshThreadIDs(t *testing.T, a *abilities, _ *HistoryOptions) {
	seen := map[string]bool{}
	for i := range 3 {
		id, created, err := a.create.CreateThread(t.Context(), &host.HistoryRequest{Tenant: "acme", Run: fmt.Sprint("r", i), Network: "kit"})
		if err != nil {
			t.Fatalf("CreateThread: %v", err)
		}
		if id == "" || seen[id] || !created {
			t.Errorf("CreateThread without an id returns %q, created %t; want a fresh id, true", id, created)
		}
		seen[id] = true
	}
}

func threadsOpenWithAMessage(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := &conversation{abilities: a, t: t, tenant: "acme"}
	hello, more := userSays("u1", "hello"), userSays("u2", "are you there?")
	open := func(m *host.Message) host.OpenedThread {
		opened, err := a.opener.OpenThread(t.Context(), c.request("run", m))
		if err != nil {
			t.Fatalf("OpenThread %q with message %q: %v", c.thread, m.ID, err)
		}
		return opened
	}
	fresh, other := open(hello), open(hello)
	if fresh.Thread == "" || fresh.Thread == other.Thread || !fresh.Created || !other.Created {
		t.Fatalf("OpenThread without an id returns %+v and %+v, want two new threads", fresh, other)
	}
	c.thread = fresh.Thread
	c.want(hello)
	for _, step := range []struct {
		message *host.Message
		created bool
		want    []*host.Message
	}{{hello, true, []*host.Message{hello}}, {hello, false, []*host.Message{hello}}, {more, false, []*host.Message{hello, more}}} {
		c.thread = "mine"
		if got := open(step.message); got.Thread != "mine" || got.Created != step.created {
			t.Errorf("OpenThread with id mine and message %q returns %q, created %t; want mine, %t", step.message.ID, got.Thread, got.Created, step.created)
		}
		c.want(step.want...)
	}
	if head := open(more).Head; a.head != nil {
		if now, err := a.head.ThreadHead(t.Context(), c.request("run", nil)); err != nil || now != head {
			t.Errorf("OpenThread returns head %q, ThreadHead %q and %v", head, now, err)
		}
	}
}

func messagesKeepOrder(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "order")
	var want []*host.Message
	for i := range 3 {
		run := fmt.Sprint("run", i)
		// The ids sort in reverse, and all times are equal: only the order of storing is
		// right.
		user := userSays(fmt.Sprintf("u%d", 9-i), fmt.Sprint("question ", i))
		said := []*host.Message{
			message(fmt.Sprintf("c%d", 9-i), host.Assistant, &host.ToolCall{ID: "call", Name: "look", Arguments: json.RawMessage(`{}`)}),
			message(fmt.Sprintf("b%d", 9-i), host.ToolRole, &host.ToolResult{ID: "call", Name: "look", Content: json.RawMessage(`"seen"`)}),
			answer(fmt.Sprintf("a%d", 9-i), fmt.Sprint("answer ", i)),
		}
		c.mustStore(run, user, turnOf(c.say(run, user), said...))
		want = append(append(want, user), said...)
	}
	c.want(want...)
}

func messagesKeepBytes(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "bytes")
	user := decode(t, hardUserMessage)
	said := decode(t, hardAnswer)
	result := decode(t, hardToolMessage)
	c.mustStore("run", user, turnOf(c.say("run", user), said, result))
	c.want(user, said, result)
}

// The hard messages contain values that a store is likely to change: integers beyond
// 2^53, escapes, members and parts of unknown kinds.
const (
	hardUserMessage = `{"id":"u1","role":"user","parts":[{"type":"text","text":"a<b> & \"c\" é 🙂 \u0000","x_new":{"n":9007199254740993}},` +
		`{"type":"hologram","depth":[1.0,1e2,-0],"nested":{"b":1,"a":2}},{"type":"media","media_type":"image/png","data":"AAEC"}],` +
		`"created_at":"2025-03-04T05:06:07.000000001Z","metadata":{"source":{"z":1,"a":18446744073709551616}},"x_field":[null,true]}`
	hardAnswer = `{"id":"a1","role":"assistant","agent":"clerk","parts":[{"type":"reasoning","text":"hm","signature":"c2ln"},` +
		`{"type":"tool_call","id":"c1","name":"look","arguments":{"order":9007199254740993,"b":1,"a":[1.50]}}],"created_at":"2025-03-04T05:06:08Z"}`
	hardToolMessage = `{"id":"t1","role":"tool","agent":"clerk","parts":[{"type":"tool_result","id":"c1","name":"look",` +
		`"content":{"total":12345678901234567890,"html":"<b>"},"is_error":true},{"type":"data","value":0.10}],"created_at":"2025-03-04T05:06:09.5Z"}`
)

func decode(t *testing.T, raw string) *host.Message {
	t.Helper()
	m := &host.Message{}
	if err := m.UnmarshalJSON([]byte(raw)); err != nil {
		t.Fatalf("decode the kit's message: %v", err)
	}
	return m
}

func userMessageOnce(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "once")
	user := userSays("u1", "hello")
	first := c.say("run1", user)
	if again := c.say("run2", user); again != first {
		t.Errorf("AppendUserMessage again moves the head from %q to %q", first, again)
	}
	c.want(user)
}

func equalTextsAreTwo(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "twins")
	one, two := userSays("u1", "yes"), userSays("u2", "yes")
	c.say("run1", one)
	c.say("run2", two)
	c.want(one, two)
}

func turnOnce(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "again")
	user, said := userSays("u1", "hello"), answer("a1", "hi")
	turn := turnOf(c.say("run", user), said)
	c.mustStore("run", user, turn)
	if err := c.store("run", user, turn); err != nil {
		t.Errorf("AppendResults of the same turn again: %v; want it to do nothing", err)
	}
	c.want(user, said)
}

func anotherTurnIsNotLost(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "used run")
	u1, a1, u2 := userSays("u1", "hello"), answer("a1", "hi"), userSays("u2", "bye")
	c.mustStore("run", u1, turnOf(c.say("run", u1), a1))
	head := c.say("run", u2)
	want := []*host.Message{u1, a1, u2}
	for _, other := range []struct {
		what     string
		messages []*host.Message
	}{
		{"another answer", []*host.Message{answer("a2", "hi")}},
		{"the answer and another", []*host.Message{a1, answer("a3", "hi")}},
	} {
		turn := turnOf(head, other.messages...)
		switch err := c.store("run", u2, turn); {
		case err == nil:
			want = append(want, other.messages[len(other.messages)-1])
			head = c.get().Head
		case host.CodeOf(err) != host.AlreadyExists:
			t.Errorf("AppendResults of %s for a run that has a turn: %v (code %q); want it stored, or code %s", other.what, err, host.CodeOf(err), host.AlreadyExists)
		}
		c.want(want...)
	}
	if err := c.store("run", u1, turnOf(head, a1)); err != nil {
		t.Errorf("AppendResults of the run's own turn again, after others: %v; want it to do nothing", err)
	}
	c.want(want...)
}

func stateComesBack(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "state")
	user := userSays("u1", "hello")
	turn := turnOf(c.say("run", user), answer("a1", "hi"))
	turn.State = json.RawMessage(`{"order":9007199254740993}`)
	c.mustStore("run", user, turn)
	c.wantState("after a turn with state", string(turn.State))
}

func noStateKeepsState(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "state")
	u1, u2 := userSays("u1", "hello"), userSays("u2", "again")
	turn := turnOf(c.say("run1", u1), answer("a1", "hi"))
	turn.State = json.RawMessage(`{"a":1}`)
	c.mustStore("run1", u1, turn)
	c.mustStore("run2", u2, turnOf(c.say("run2", u2), answer("a2", "hi")))
	c.wantState("after a turn without state", `{"a":1}`)
}

func providersComeBack(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "providers")
	type states = map[string]json.RawMessage
	first := states{"clerk/memory": json.RawMessage(`{"n":9007199254740993}`), "notes": json.RawMessage(`["a"]`)}
	for i, step := range []struct {
		why              string
		state            string
		providers, after states
	}{
		{"after a turn with states", "", first, first},
		{"after a turn without", "", nil, first},
		{"after a turn with custom state alone", `{"a":1}`, nil, first},
		{"after a turn with another", "", states{"notes": json.RawMessage(`1`)}, states{"notes": json.RawMessage(`1`)}},
		{"after a turn with none left", `{"a":2}`, states{}, states{}},
	} {
		n := strconv.Itoa(i)
		user := userSays("u"+n, "hello")
		turn := turnOf(c.say("run"+n, user), answer("a"+n, "hi"))
		turn.Providers = step.providers
		if step.state != "" {
			turn.State = json.RawMessage(step.state)
		}
		c.mustStore("run"+n, user, turn)
		got := c.get()
		if a.opts.NoProviders {
			step.after = nil
		}
		if !maps.EqualFunc(got.Providers, step.after, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Errorf("%s Get returns the providers %s, want %s", step.why, got.Providers, step.after)
		}
		if step.state != "" {
			c.wantState(step.why, step.state)
		}
	}
}

func failedTurnIsKept(t *testing.T, a *abilities, opts *HistoryOptions) {
	c := a.open(t, "acme", "failed")
	user, said := userSays("u1", "hello"), answer("a1", "half of it")
	turn := turnOf(c.say("run", user), said)
	turn.Status = chat.FinishFailed
	turn.Error = fault.AsError(host.Errorf(host.Unavailable, "the model is down"))
	c.mustStore("run", user, turn)
	c.want(user, said)
	if opts.Status == nil {
		return
	}
	if got := opts.Status(t, a.adapter, "acme", "failed"); got != chat.FinishFailed {
		t.Errorf("the turn is stored with status %q, want %q", got, chat.FinishFailed)
	}
}

func staleHeadLosesNothing(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "race")
	u1, u2 := userSays("u1", "first"), userSays("u2", "second")
	a1, a2 := answer("a1", "to the first"), answer("a2", "to the second")
	head1 := c.say("run1", u1)
	head2 := c.say("run2", u2)
	c.mustStore("run2", u2, turnOf(head2, a2))
	want := []*host.Message{u1, u2, a2}
	switch err := c.store("run1", u1, turnOf(head1, a1)); {
	case err == nil:
		want = append(want, a1)
	case host.CodeOf(err) != host.Conflict:
		t.Errorf("AppendResults on a stale head: %v (code %s); want it stored, or code %s", err, host.CodeOf(err), host.Conflict)
	}
	got := jsonLines(c.get().Messages)
	for _, m := range a.opts.kept(t, want) {
		if !slices.Contains(got, string(m.AppendJSON(nil))) {
			t.Errorf("message %s is lost; the thread holds %q", m.ID, got)
		}
	}
}

func tenantsAreApart(t *testing.T, a *abilities, _ *HistoryOptions) {
	ours, theirs := a.open(t, "acme", "same"), a.open(t, "globex", "same")
	one, two := userSays("u1", "of acme"), userSays("u1", "of globex")
	ours.say("run1", one)
	theirs.say("run2", two)
	ours.want(one)
	theirs.want(two)
}

func threadsAreApart(t *testing.T, a *abilities, _ *HistoryOptions) {
	// One name is a prefix of the other: a store that scans by prefix mixes them up.
	short, long := a.open(t, "acme", "t1"), a.open(t, "acme", "t10")
	one, two := userSays("u1", "short"), userSays("u2", "long")
	short.say("run1", one)
	long.say("run2", two)
	short.want(one)
	long.want(two)
}

func nothingIsShared(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "shared")
	user, said := userSays("u1", "hello"), answer("a1", "hi")
	turn := turnOf(c.say("run", user), said)
	before := len(turn.Results[0].Messages)
	c.mustStore("run", user, turn)
	if after := len(turn.Results[0].Messages); after != before {
		t.Errorf("AppendResults changes the turn: %d messages, then %d", before, after)
	}
	loaded := c.get().Messages
	loaded = append(loaded[:0], answer("x", "written by a caller"))
	_ = append(loaded, answer("y", "and another"))
	c.want(user, said)
}

func (c *conversation) keepRound(run string, round *host.Round) string {
	c.t.Helper()
	head, err := c.round.AppendRound(c.t.Context(), c.request(run, nil), round)
	if err != nil {
		c.t.Fatalf("AppendRound of run %q: %v", run, err)
	}
	return head
}

func roundsAreKept(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "rounds")
	user := userSays("u1", "look twice")
	var said []*host.Message
	head := c.say("run", user)
	for i := range 2 {
		call := fmt.Sprint("call", i)
		round := []*host.Message{
			message(fmt.Sprint("c", 9-i), host.Assistant, &host.ToolCall{ID: call, Name: "look", Arguments: json.RawMessage(`{}`)}),
			message(fmt.Sprint("b", 9-i), host.ToolRole, &host.ToolResult{ID: call, Name: "look", Content: json.RawMessage(`"seen"`)}),
		}
		head = c.keepRound("run", &host.Round{Head: head, Messages: round})
		said = append(said, round...)
		c.want(append([]*host.Message{user}, said...)...)
	}
	said = append(said, answer("a1", "seen twice"))
	turn := turnOf(head, said...)
	turn.State = json.RawMessage(`{"n":2}`)
	c.mustStore("run", user, turn)
	c.want(append([]*host.Message{user}, said...)...)
	c.wantState("after the turn", `{"n":2}`)
}

func roundOnce(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "round-again")
	user, said := userSays("u1", "hello"), answer("a1", "hi")
	before := c.say("run", user)
	round := &host.Round{Head: before, Messages: []*host.Message{said}}
	first := c.keepRound("run", round)
	if again := c.keepRound("run", round); again != first {
		t.Errorf("AppendRound again moves the head from %q to %q", first, again)
	}
	c.want(user, said)
}

func staleRoundLosesNothing(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "round-race")
	u1, u2, a1 := userSays("u1", "first"), userSays("u2", "second"), answer("a1", "to the first")
	head := c.say("run1", u1)
	c.say("run2", u2)
	want := []*host.Message{u1, u2}
	switch _, err := a.round.AppendRound(t.Context(), c.request("run1", nil), &host.Round{Head: head, Messages: []*host.Message{a1}}); {
	case err == nil:
		want = append(want, a1)
	case host.CodeOf(err) != host.Conflict:
		t.Errorf("AppendRound on a stale head: %v (code %s); want it stored, or code %s", err, host.CodeOf(err), host.Conflict)
	}
	c.want(want...)
}

func threadsAtOnce(t *testing.T, a *abilities, _ *HistoryOptions) {
	const threads, turns = 8, 5
	var wg sync.WaitGroup
	want := make([][]*host.Message, threads)
	all := make([]*conversation, threads)
	for i := range threads {
		all[i] = a.open(t, "acme", fmt.Sprint("at-once-", i))
		wg.Go(func() {
			for j := range turns {
				run := fmt.Sprintf("run-%d-%d", i, j)
				user, said := userSays("u"+run, "hello"), answer("a"+run, "hi")
				head, err := a.user.AppendUserMessage(t.Context(), all[i].request(run, user))
				if err == nil {
					err = a.results.AppendResults(t.Context(), all[i].request(run, user), turnOf(head, said))
				}
				if err != nil {
					t.Errorf("turn %d of thread %d: %v", j, i, err)
					return
				}
				want[i] = append(want[i], user, said)
			}
		})
	}
	wg.Wait()
	for i, c := range all {
		c.want(want[i]...)
	}
}

func headIsTold(t *testing.T, a *abilities, _ *HistoryOptions) {
	head := func(c *conversation) string {
		t.Helper()
		h, err := a.head.ThreadHead(t.Context(), c.request("read", nil))
		if err != nil {
			t.Fatalf("ThreadHead: %v", err)
		}
		return h
	}
	if got := head(&conversation{abilities: a, t: t, tenant: "acme", thread: "nobody's"}); got != "" {
		t.Errorf("an unknown thread has the head %q", got)
	}
	c := a.open(t, "acme", "t1")
	said := c.say("run1", message("m1", host.User, &host.Text{Text: "hi"}))
	if got := head(c); got != said {
		t.Errorf("the head is %q after the user's message, which left %q", got, said)
	}
	c.mustStore("run1", nil, &host.Turn{Head: said, Status: chat.FinishStop, Results: []*host.Result{{Agent: "a", Messages: []*host.Message{message("m2", host.Assistant, &host.Text{Text: "hello"})}}}})
	if got := head(c); got == said || got != c.get().Head {
		t.Errorf("the head is %q after the turn, and loaded %q; it was %q", got, c.get().Head, said)
	}
}

func lockedThreadWaits(t *testing.T, a *abilities, _ *HistoryOptions) {
	req := &host.HistoryRequest{Tenant: "acme", Thread: "locked", Run: "run1", Network: "kit"}
	unlock, err := a.lock.LockThread(t.Context(), req)
	if err != nil {
		t.Fatalf("LockThread: %v", err)
	}
	other := &host.HistoryRequest{Tenant: "globex", Thread: "locked", Run: "run2", Network: "kit"}
	unlockOther, err := a.lock.LockThread(t.Context(), other)
	if err != nil {
		t.Fatalf("LockThread of another tenant's thread of that name: %v", err)
	}
	unlockOther()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.lock.LockThread(ctx, req); host.CodeOf(err) != host.Canceled {
		t.Errorf("LockThread of a locked thread with a cancelled context: %v (code %q); want code %s", err, host.CodeOf(err), host.Canceled)
	}
	got := make(chan error, 1)
	go func() {
		again, err := a.lock.LockThread(t.Context(), req)
		if err == nil {
			again()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Errorf("LockThread after the lock was given back: %v", err)
	}
}

func runsAreKept(t *testing.T, a *abilities, _ *HistoryOptions) {
	h, agent, model := historyAgent(t, a.adapter)
	model.Queue(Call("look", `{}`), Say("found"), Say("again"))
	first, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "run", Text: "look"})
	if err != nil {
		t.Fatalf("first run: %v", err)
	}
	if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "run", Text: "and now?"}); err != nil {
		t.Fatalf("second run: %v", err)
	}
	requests := model.Requests()
	var texts []string
	for _, m := range requests[len(requests)-1].Messages {
		texts = append(texts, string(m.Role)+": "+string(m.AppendCountedText(nil)))
	}
	call := string(a.opts.kept(t, first.Results[0].Messages)[0].AppendCountedText(nil))
	want := []string{"user: look", "assistant: " + call, "tool: looked", "assistant: found", "user: and now?"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("what the model is sent in the second turn (-want +got):\n%s", diff)
	}
}

// historyAgent returns a host that runs an agent with one tool over adapter.
func historyAgent(t *testing.T, adapter any) (*host.Host, *host.Agent, *Model) {
	t.Helper()
	history, err := host.NewHistory(adapter, nil)
	if err != nil {
		t.Fatalf("NewHistory: %v", err)
	}
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "looked", nil }, nil)
	model := NewModel()
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{look}, History: history})
	if err != nil {
		t.Fatalf("NewAgent: %v", err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return h, agent, model
}
