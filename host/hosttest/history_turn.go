package hosttest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// The rules about stored turns.

// readTurn asks for the turn that answered a message.
func (c *conversation) readTurn(input *host.Message) *host.StoredTurn {
	c.t.Helper()
	stored, err := c.turn.ReadTurn(c.t.Context(), c.request("asks", input))
	if err != nil {
		c.t.Fatalf("ReadTurn of message %q: %v", input.ID, err)
	}
	return stored
}

// resent returns a message as a client sends it again: with another time.
func resent(m *host.Message) *host.Message {
	again := host.UserText(m.Text())
	again.ID = m.ID
	return again
}

func answersAreRead(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "answers")
	asks, later := host.UserText("What is it?"), host.UserText("And then?")
	two := []*host.Result{
		{ID: "r1/0", Agent: "one", FinishReason: chat.FinishStop, Rounds: 1, Messages: []*host.Message{host.AssistantText("It is"), host.AssistantText("a thing.")}},
		{ID: "r1/1", Agent: "two", FinishReason: chat.FinishStop, Rounds: 1, Messages: []*host.Message{host.AssistantText("Quite.")}},
	}
	made := host.Artifact{Name: "thing", Parts: []host.Part{&host.Text{Text: "it"}}}
	head := c.say("r1", asks)
	c.mustStore("r1", asks, &host.Turn{Head: head, Results: two, State: []byte(`{"n":1}`), Artifacts: []host.Artifact{made}, Status: chat.FinishMaxIterations})
	head = c.say("r2", later)
	c.mustStore("r2", later, &host.Turn{Head: head, Results: resultsOf(host.AssistantText("Nothing.")), State: []byte(`{"n":2}`), Status: chat.FinishStop})

	got := c.readTurn(resent(asks))
	if got == nil {
		t.Fatal("ReadTurn of an answered message finds no turn")
	}
	var messages, want []*host.Message
	for i, r := range got.Results {
		messages = append(messages, r.Messages...)
		if i < len(two) && (r.Agent != two[i].Agent || r.FinishReason != two[i].FinishReason || len(r.Messages) != len(two[i].Messages)) {
			t.Errorf("result %d is %+v, want %+v", i, r, two[i])
		}
	}
	for _, r := range two {
		want = append(want, r.Messages...)
	}
	if diff := cmp.Diff(jsonLines(want), jsonLines(messages)); diff != "" {
		t.Errorf("the turn's messages (-want +got):\n%s", diff)
	}
	if got.Run != "r1" || got.Status != chat.FinishMaxIterations || string(got.State) != `{"n":1}` {
		t.Errorf("the turn is of run %q, %s, with state %s; want r1, max_iterations and the state of then", got.Run, got.Status, got.State)
	}
	if len(got.Artifacts) != 1 || got.Artifacts[0].Name != "thing" || got.Artifacts[0].Digest() != made.Digest() {
		t.Errorf("the turn's artifacts are %+v, want the one it made", got.Artifacts)
	}
	if got := c.readTurn(resent(later)); got == nil || got.Run != "r2" || len(got.Artifacts) != 0 || string(got.State) != `{"n":2}` {
		t.Errorf("ReadTurn of the last message = %+v, want run r2", got)
	}
	other := resent(asks)
	other.Parts = []host.Part{&host.Text{Text: "What is that?"}}
	if got, err := c.turn.ReadTurn(t.Context(), c.request("asks", other)); host.CodeOf(err) != host.Conflict {
		t.Errorf("ReadTurn of other content under the id = %+v, %v; want code conflict", got, err)
	}
	req := c.request("asks", resent(asks))
	req.Network = "another"
	if got, err := c.turn.ReadTurn(t.Context(), req); err != nil || got != nil {
		t.Errorf("ReadTurn for another network = %+v, %v; want none", got, err)
	}
	for _, other := range []*conversation{a.open(t, "globex", "answers"), a.open(t, "acme", "others"), {abilities: a, t: t, tenant: "acme", thread: "never-made"}} {
		if got := other.readTurn(resent(asks)); got != nil {
			t.Errorf("ReadTurn in thread %q of tenant %q = %+v, want none", other.thread, other.tenant, got)
		}
	}
}

func openMessagesHaveNoTurn(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "open")
	asks, next := host.UserText("Hello?"), host.UserText("Anybody?")
	none := func(when string) {
		t.Helper()
		if got := c.readTurn(resent(asks)); got != nil {
			t.Errorf("ReadTurn %s = %+v, want none", when, got)
		}
	}
	none("before the message is there")
	c.mustStore("r0", nil, &host.Turn{Results: resultsOf(host.AssistantText("I am here.")), Status: chat.FinishStop})
	head := c.say("r1", asks)
	none("before its turn ended")
	for i, status := range []host.FinishReason{chat.FinishFailed, chat.FinishCanceled, chat.FinishInterrupted} {
		turn := &host.Turn{Head: head, Results: resultsOf(host.AssistantText("I " + string(status))), Status: status}
		if status == chat.FinishFailed {
			turn.Error = host.Errorf(host.Unavailable, "away")
		}
		c.mustStore([]string{"r1", "r2", "r3"}[i], asks, turn)
		none("after a turn that ended as " + string(status))
		head = c.get().Head
	}
	head = c.say("r4", next)
	c.mustStore("r4", next, &host.Turn{Head: head, Results: resultsOf(host.AssistantText("Me.")), Status: chat.FinishStop})
	none("after another message was answered")
	if got := c.readTurn(resent(next)); got == nil || got.Run != "r4" {
		t.Errorf("ReadTurn of the other message = %+v, want run r4", got)
	}
	// A turn without an input answers the message before it again.
	last := host.UserText("And you?")
	head = c.say("r5", last)
	c.mustStore("r5", last, &host.Turn{Head: head, Status: chat.FinishFailed, Error: host.Errorf(host.Unavailable, "away")})
	head = c.get().Head
	c.mustStore("r6", nil, &host.Turn{Head: head, Results: resultsOf(host.AssistantText("Fine.")), Status: chat.FinishStop})
	if got := c.readTurn(resent(last)); got == nil || got.Run != "r6" {
		t.Errorf("ReadTurn of a message that was tried again = %+v, want run r6", got)
	}
}

func answersTakenBackAreNone(t *testing.T, a *abilities, opts *HistoryOptions) {
	c := a.open(t, "acme", "again")
	asks := host.UserText("One?")
	head := c.say("r1", asks)
	c.mustStore("r1", asks, &host.Turn{Head: head, Results: resultsOf(host.AssistantText("1")), Status: chat.FinishStop})
	if _, err := c.again.Regenerate(t.Context(), c.request("r2", nil), asks.ID); err != nil {
		t.Fatalf("Regenerate: %v", err)
	}
	if got := c.readTurn(resent(asks)); got != nil {
		t.Errorf("ReadTurn after the answer was taken back = %+v, want none", got)
	}
	c.mustStore("r2", asks, &host.Turn{Head: c.get().Head, Results: resultsOf(host.AssistantText("one")), Status: chat.FinishStop})
	got := c.readTurn(resent(asks))
	if got == nil || got.Run != "r2" || !slices.Equal(jsonLines(opts.kept(t, got.Results[0].Messages)), jsonLines(opts.kept(t, c.get().Messages[1:]))) {
		t.Errorf("ReadTurn after it was answered again = %+v, want run r2", got)
	}
}

// resultsOf returns the results of one agent with these messages.
func resultsOf(messages ...*host.Message) []*host.Result {
	return []*host.Result{{Agent: "kit", FinishReason: chat.FinishStop, Rounds: 1, Messages: messages}}
}
