package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
)

// MessageStoresOptions describe the properties of a store that [TestMessageStores]
// cannot see through its methods.
type MessageStoresOptions struct {
	// Limited returns stores on the same place that keep at most limit messages of a
	// thread, or an error for an invalid limit. Nil skips the rules about limits.
	Limited func(t *testing.T, limit int) (host.MessageStores, error)

	// Secrets must not be in the serialized state of a store: passwords, addresses,
	// tokens.
	Secrets []string

	// Embedded is set if the messages are in the serialized state. Stores opened from one
	// state are then independent; otherwise they are the same list.
	Embedded bool
}

// TestMessageStores checks message stores against the rules of [host.MessageStore] and
// [host.MessageStores], each a subtest of its name. newStores returns stores on an empty
// place; it is called once for each rule and cleans up through t. opts may be nil.
func TestMessageStores(t *testing.T, newStores func(t *testing.T) host.MessageStores, opts *MessageStoresOptions) {
	t.Helper()
	if opts == nil {
		opts = &MessageStoresOptions{}
	}
	for _, rule := range messageRules {
		t.Run(rule.name, func(t *testing.T) { rule.check(&messagesTest{t, newStores(t), opts}) })
	}
}

var messageRules = []struct {
	name  string
	check func(t *messagesTest)
}{
	{"a new thread is empty", (*messagesTest).startsEmpty},
	{"messages come back in order and byte for byte", (*messagesTest).keepsOrderAndBytes},
	{"adding nothing changes nothing", (*messagesTest).addsNothing},
	{"adding the same again changes nothing", (*messagesTest).addsOnce},
	{"equal texts are two messages", (*messagesTest).equalTexts},
	{"tenants do not see each other", (*messagesTest).tenants},
	{"threads do not see each other, whatever their ids", (*messagesTest).threads},
	{"what is given and returned is not shared", (*messagesTest).sharesNothing},
	{"a canceled call adds nothing", (*messagesTest).canceled},
	{"many writers lose nothing and do not mix", (*messagesTest).manyWriters},
	{"a serialized store finds its messages again", (*messagesTest).serializes},
	{"one state opens as often as wanted", (*messagesTest).opensTwice},
	{"the state is an object without secrets", (*messagesTest).noSecrets},
	{"a state that it does not write is refused", (*messagesTest).refusesStates},
	{"another tenant's state finds nothing", (*messagesTest).foreignState},
	{"cleared is empty, and others are not", (*messagesTest).clears},
	{"what is set is what there is, and others stay", (*messagesTest).sets},
	{"a limit below zero is refused", (*messagesTest).negativeLimit},
	{"a limit keeps the newest and the system message", (*messagesTest).limits},
	{"a limit parts no call from its results", (*messagesTest).limitsKeepPairs},
}

type messagesTest struct {
	*testing.T
	stores host.MessageStores
	opts   *MessageStoresOptions
}

// place is one thread's store.
type place struct {
	host.MessageStore
	t *messagesTest
}

func (t *messagesTest) open(tenant, thread string, state json.RawMessage) place {
	t.Helper()
	return t.openIn(t.stores, tenant, thread, state)
}

func (t *messagesTest) openIn(stores host.MessageStores, tenant, thread string, state json.RawMessage) place {
	t.Helper()
	s, err := stores.OpenStore(t.Context(), &host.StoreRequest{Tenant: tenant, Thread: thread, State: state})
	if err != nil {
		t.Fatalf("OpenStore(%q, %q, %s): %v", tenant, thread, state, err)
	}
	return place{s, t}
}

func (p place) add(messages ...*host.Message) {
	p.t.Helper()
	if err := p.AddMessages(p.t.Context(), messages); err != nil {
		p.t.Fatalf("AddMessages of %d: %v", len(messages), err)
	}
}

func (p place) list() []*host.Message {
	p.t.Helper()
	got, err := p.ListMessages(p.t.Context())
	if err != nil {
		p.t.Fatalf("ListMessages: %v", err)
	}
	return got
}

func (p place) state() json.RawMessage {
	p.t.Helper()
	state, err := p.Serialize(p.t.Context())
	if err != nil {
		p.t.Fatalf("Serialize: %v", err)
	}
	return state
}

// want compares the messages of a store with these, as JSON.
func (p place) want(messages ...*host.Message) {
	p.t.Helper()
	if diff := cmp.Diff(jsonLines(messages), jsonLines(p.list())); diff != "" {
		p.t.Fatalf("the store has other messages (-want +got):\n%s", diff)
	}
}

// says returns users' messages of these texts.
func says(texts ...string) []*host.Message {
	out := make([]*host.Message, len(texts))
	for i, text := range texts {
		out[i] = host.UserText(text)
	}
	return out
}

func (t *messagesTest) startsEmpty() { t.open("acme", "t1", nil).want() }

func (t *messagesTest) keepsOrderAndBytes() {
	var first host.Message
	raw := `{"id":"m-1","role":"user","parts":[{"type":"text","text":"<a>\u2028\"é"},{"type":"data","value":{"n":9007199254740993,"x":1.50}},` +
		`{"type":"hologram","beam":[1,2]}],"metadata":{"k":{"b":1,"a":2}},"later":{"z":1}}`
	if err := first.UnmarshalJSON([]byte(raw)); err != nil {
		t.Fatal(err)
	}
	call := host.NewMessage(host.Assistant, &host.Reasoning{Text: "hm", Signature: "s=="}, &host.ToolCall{ID: "c1", Name: "look", Arguments: json.RawMessage(`{ "q": "x" }`)})
	call.Agent = "clerk"
	result := host.NewMessage(host.ToolRole, &host.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(`"none"`), IsError: true})
	p := t.open("acme", "t1", nil)
	p.add(&first)
	p.add(call, result)
	p.want(&first, call, result)
	large := host.UserText(strings.Repeat("long ", 100_000))
	p.add(large)
	p.want(&first, call, result, large)
}

func (t *messagesTest) addsNothing() {
	p := t.open("acme", "t1", nil)
	p.add()
	p.want()
	m := host.UserText("one")
	p.add(m)
	p.add()
	p.want(m)
}

func (t *messagesTest) addsOnce() {
	p := t.open("acme", "t1", nil)
	turn := says("one", "two", "three")
	p.add(turn[:1]...)
	p.add(turn[1:]...)
	p.add(turn[1:]...)
	p.want(turn...)
}

func (t *messagesTest) equalTexts() {
	p := t.open("acme", "t1", nil)
	yes := says("yes", "yes")
	p.add(yes[0])
	p.add(yes[1])
	p.want(yes...)
}

func (t *messagesTest) tenants() {
	one, other := t.open("acme", "t1", nil), t.open("globex", "t1", nil)
	m := host.UserText("for acme")
	one.add(m)
	other.want()
	one.want(m)
	// A tenant's name and a thread's id must not be joined ambiguously.
	t.open("acme:x", "y", nil).add(host.UserText("x"))
	t.open("acme", "x:y", nil).want()
}

func (t *messagesTest) threads() {
	ids := []string{"a", "ab", "a:b", "a:b:c", "a/b", "../a", ".a", "A", "a%3Ab", "a*", "[a]", "{a}", "ä", "a\u00a0b", " a", strings.Repeat("a", 200), strings.Repeat("a", 201)}
	said := make([]*host.Message, len(ids))
	for i, id := range ids {
		said[i] = host.UserText(fmt.Sprintf("in %q", id))
		t.open("acme", id, nil).add(said[i])
	}
	if t.opts.Embedded { // the added messages were lost with the store
		return
	}
	for i, id := range ids {
		t.open("acme", id, nil).want(said[i])
	}
}

func (t *messagesTest) sharesNothing() {
	p := t.open("acme", "t1", nil)
	given := says("one", "two")
	want := slices.Clone(given)
	p.add(given...)
	given[0] = host.UserText("changed")
	got := p.list()
	clear(got)
	p.want(want...)
}

func (t *messagesTest) canceled() {
	p := t.open("acme", "t1", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.AddMessages(ctx, says("late")); host.CodeOf(err) != host.Canceled {
		t.Errorf("AddMessages with a canceled context: %v; want code %s", err, host.Canceled)
	}
	if _, err := p.ListMessages(ctx); host.CodeOf(err) != host.Canceled {
		t.Errorf("ListMessages with a canceled context: %v; want code %s", err, host.Canceled)
	}
	p.want()
}

func (t *messagesTest) manyWriters() {
	const writers, batches, size = 8, 5, 3
	p := t.open("acme", "t1", nil)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for b := range batches {
				var batch []*host.Message
				for i := range size {
					batch = append(batch, host.UserText(fmt.Sprintf("%d/%d/%d", w, b, i)))
				}
				if err := p.AddMessages(t.Context(), batch); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	wg.Wait()
	list := p.list()
	if len(list) != writers*batches*size {
		t.Fatalf("%d messages, want %d", len(list), writers*batches*size)
	}
	next := map[string]int{} // batch of each writer
	for i := 0; i < len(list); i += size {
		w, _, _ := strings.Cut(list[i].Text(), "/")
		for k := range size {
			if got, want := list[i+k].Text(), fmt.Sprintf("%s/%d/%d", w, next[w], k); got != want {
				t.Fatalf("message %d is %s, want %s: what was added together must stand together", i+k, got, want)
			}
		}
		next[w]++
	}
}

func (t *messagesTest) serializes() {
	p := t.open("acme", "t1", nil)
	turn := says("one", "two")
	p.add(turn...)
	again := t.open("acme", "t1", p.state())
	again.want(turn...)
	more := host.UserText("three")
	again.add(more)
	again.want(turn[0], turn[1], more)
	empty := t.open("acme", "t2", nil)
	t.open("acme", "t2", empty.state()).want()
}

func (t *messagesTest) opensTwice() {
	p := t.open("acme", "t1", nil)
	m := host.UserText("one")
	p.add(m)
	state := p.state()
	one, two := t.open("acme", "t1", slices.Clone(state)), t.open("acme", "t1", slices.Clone(state))
	more := host.UserText("more")
	one.add(more)
	if t.opts.Embedded {
		two.want(m)
	} else {
		two.want(m, more)
	}
	one.want(m, more)
}

func (t *messagesTest) noSecrets() {
	p := t.open("acme", "t1", nil)
	p.add(host.UserText("one"))
	state := p.state()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(state, &object); err != nil || object == nil {
		t.Errorf("the state is %s, not an object", state)
	}
	for _, secret := range t.opts.Secrets {
		if strings.Contains(string(state), secret) {
			t.Errorf("the state has the secret %q: %s", secret, state)
		}
	}
}

func (t *messagesTest) refusesStates() {
	p := t.open("acme", "t1", nil)
	p.add(host.UserText("one"))
	good := p.state()
	bad := []string{``, `null`, `[]`, `"x"`, `7`, `{}`, `{"made":"up"}`, `{"messages":null,"thread_id":null}`, string(good) + string(good), string(good[:len(good)-1])}
	for _, state := range bad {
		s, err := t.stores.OpenStore(t.Context(), &host.StoreRequest{Tenant: "acme", Thread: "t1", State: json.RawMessage(state)})
		if err == nil || s != nil {
			t.Errorf("OpenStore takes the state %s", state)
		} else if host.CodeOf(err) != host.DataLoss {
			t.Errorf("OpenStore of the state %s: code %s, want %s", state, host.CodeOf(err), host.DataLoss)
		}
	}
	t.open("acme", "t1", good).want(p.list()...)
}

func (t *messagesTest) foreignState() {
	if t.opts.Embedded {
		return // the state contains the messages
	}
	p := t.open("acme", "t1", nil)
	p.add(host.UserText("for acme"))
	s, err := t.stores.OpenStore(t.Context(), &host.StoreRequest{Tenant: "globex", Thread: "t1", State: p.state()})
	if err == nil {
		(place{s, t}).want()
	}
}

func (t *messagesTest) clears() {
	p, other := t.open("acme", "t1", nil), t.open("acme", "t11", nil)
	c, ok := p.MessageStore.(host.MessageClearer)
	if !ok {
		return
	}
	m := host.UserText("kept")
	p.add(says("one", "two")...)
	other.add(m)
	if err := c.ClearMessages(t.Context()); err != nil {
		t.Fatalf("ClearMessages: %v", err)
	}
	p.want()
	other.want(m)
	after := host.UserText("after")
	p.add(after)
	p.want(after)
}

func (t *messagesTest) sets() {
	p, other := t.open("acme", "t1", nil), t.open("acme", "t11", nil)
	e, ok := p.MessageStore.(host.MessageEditor)
	if !ok {
		return
	}
	m := host.UserText("kept")
	old := says("one", "two")
	p.add(old...)
	other.add(m)
	first := host.UserText("first")
	if err := e.SetMessages(t.Context(), []*host.Message{first, old[1]}); err != nil {
		t.Fatalf("SetMessages: %v", err)
	}
	p.want(first, old[1])
	other.want(m)
	if err := e.SetMessages(t.Context(), []*host.Message{nil}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("SetMessages of a message that is nil: %v", err)
	}
	p.want(first, old[1])
	p.add(old...)
	p.want(first, old[1], old[0])
}

func (t *messagesTest) limited(limit int) (host.MessageStores, bool) {
	t.Helper()
	if t.opts.Limited == nil {
		return nil, false
	}
	stores, err := t.opts.Limited(t.T, limit)
	if err != nil {
		t.Fatalf("stores with the limit %d: %v", limit, err)
	}
	return stores, true
}

func (t *messagesTest) negativeLimit() {
	if t.opts.Limited == nil {
		return
	}
	if _, err := t.opts.Limited(t.T, -1); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("stores with the limit -1: %v; want code %s", err, host.InvalidArgument)
	}
}

func (t *messagesTest) limits() {
	if stores, ok := t.limited(0); ok {
		p, many := t.openIn(stores, "acme", "all", nil), says(strings.Split(strings.Repeat("x", 150), "")...)
		p.add(many...)
		p.want(many...)
	}
	stores, ok := t.limited(3)
	if !ok {
		return
	}
	p := t.openIn(stores, "acme", "t1", nil)
	system, said := host.NewMessage(host.System, &host.Text{Text: "be kind"}), says("1", "2", "3", "4", "5")
	p.add(said[0], system)
	p.add(said[1:3]...)
	p.want(said[0], system, said[1], said[2])
	p.add(said[3])
	p.want(system, said[1], said[2], said[3])
	p.add(said[4])
	p.add(said[4])
	p.want(system, said[2], said[3], said[4])
}

func (t *messagesTest) limitsKeepPairs() {
	stores, ok := t.limited(3)
	if !ok {
		return
	}
	call := func(ids ...string) *host.Message {
		m := host.NewMessage(host.Assistant)
		for _, id := range ids {
			m.Parts = append(m.Parts, &host.ToolCall{ID: id, Name: "look", Arguments: json.RawMessage(`{}`)})
		}
		return m
	}
	result := func(id string) *host.Message {
		return host.NewMessage(host.ToolRole, &host.ToolResult{ID: id, Name: "look", Content: json.RawMessage(`1`)})
	}
	said, answer := says("1", "2"), host.AssistantText("done")
	p := t.openIn(stores, "acme", "t1", nil)
	turn := []*host.Message{said[0], call("a", "b"), result("a"), result("b"), answer}
	p.add(turn...)
	p.want(answer) // the newest three would begin with a result
	p.add(said[1])
	p.want(answer, said[1])

	q := t.openIn(stores, "acme", "t2", nil)
	open := []*host.Message{call("a", "b", "c"), result("a"), result("b"), result("c")}
	q.add(said[0], open[0])
	q.add(open[1:]...)
	q.want(open...) // no other message could be kept
}
