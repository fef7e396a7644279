package hosttest

import (
	"cmp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// HistoryOptions describe the properties of an adapter that [TestHistory] cannot see
// through its methods.
type HistoryOptions struct {
	// Status returns the stored finish reason of a thread's last turn. With it the kit
	// checks that a failed turn is marked.
	Status func(t *testing.T, adapter any, tenant, thread string) host.FinishReason

	// NoState and NoProviders are for an adapter that does not store the custom state of
	// threads, or the state of context providers. The kit then expects none back.
	NoState     bool
	NoProviders bool

	// Keeps returns the stored form of a message. Its argument is a copy that it may
	// change; it must replace parts, not write to them. By default the whole message is
	// stored. An example for an adapter with columns:
	//
	//	func(m *host.Message) *host.Message {
	//		m.CreatedAt = m.CreatedAt.Truncate(time.Microsecond)
	//		m.Metadata = nil
	//		return m
	//	}
	//
	// Every adapter must keep ids, roles, and calls with their results: a conversation
	// cannot continue without them.
	Keeps func(m *host.Message) *host.Message
}

// kept returns the stored form of messages.
func (o *HistoryOptions) kept(t *testing.T, messages []*host.Message) []*host.Message {
	t.Helper()
	if o.Keeps == nil {
		return messages
	}
	out := make([]*host.Message, len(messages))
	for i, m := range messages {
		if out[i] = o.Keeps(m.Clone()); out[i] == nil || out[i].ID != m.ID || out[i].Role != m.Role || toolIDs(out[i]) != toolIDs(m) {
			t.Fatalf("HistoryOptions.Keeps makes of message %s one with another id, role, call or result; every adapter keeps those", m.AppendJSON(nil))
		}
	}
	return out
}

// toolIDs returns the ids and names of a message's calls and results.
func toolIDs(m *host.Message) string {
	var ids []string
	for _, c := range m.ToolCalls() {
		ids = append(ids, "call", c.ID, c.Name)
	}
	for _, r := range m.ToolResults() {
		ids = append(ids, "result", r.ID, r.Name)
	}
	return strings.Join(ids, "\n")
}

// TestHistory checks a history adapter against the rules of host's history interfaces,
// each a subtest of its name:
//
//	func TestMyHistory(t *testing.T) {
//		hosttest.TestHistory(t, func(t *testing.T) any { return newMyHistory(t) }, nil)
//	}
//
// newAdapter returns an empty adapter; it is called once for each rule, and once
// before to see which methods it has, and cleans up through t. A rule about a
// method that the adapter does not have is left out. opts may be nil.
func TestHistory(t *testing.T, newAdapter func(t *testing.T) any, opts *HistoryOptions) {
	t.Helper()
	if opts == nil {
		opts = &HistoryOptions{}
	}
	able := abilitiesOf(newAdapter(t))
	for _, rule := range historyRules {
		if able.missing(rule.needs) != "" {
			continue
		}
		t.Run(rule.name, func(t *testing.T) {
			a := abilitiesOf(newAdapter(t))
			a.opts = opts
			rule.check(t, a, opts)
		})
	}
}

// abilities are the methods that an adapter has.
type abilities struct {
	adapter any
	opts    *HistoryOptions
	create  host.ThreadCreator
	user    host.UserMessageAppender
	opener  host.ThreadOpener
	load    host.HistoryLoader
	results host.ResultAppender
	round   host.RoundAppender
	head    host.HeadReader
	lock    host.ThreadLocker
	again   host.Regenerator
	branch  host.Brancher
	lister  host.ArtifactLister
	turn    host.TurnReader
}

func abilitiesOf(adapter any) *abilities {
	a := &abilities{adapter: adapter}
	a.create, _ = adapter.(host.ThreadCreator)
	a.user, _ = adapter.(host.UserMessageAppender)
	a.opener, _ = adapter.(host.ThreadOpener)
	a.load, _ = adapter.(host.HistoryLoader)
	a.results, _ = adapter.(host.ResultAppender)
	a.round, _ = adapter.(host.RoundAppender)
	a.head, _ = adapter.(host.HeadReader)
	a.lock, _ = adapter.(host.ThreadLocker)
	a.again, _ = adapter.(host.Regenerator)
	a.branch, _ = adapter.(host.Brancher)
	a.lister, _ = adapter.(host.ArtifactLister)
	a.turn, _ = adapter.(host.TurnReader)
	return a
}

// missing returns the first method of needs (letters c, u, o, g, r, a, h, l, e, b, t, s) that the
// adapter does not have.
func (a *abilities) missing(needs string) string {
	for _, n := range needs {
		switch {
		case n == 'c' && a.create == nil:
			return "CreateThread"
		case n == 'u' && a.user == nil:
			return "AppendUserMessage"
		case n == 'o' && a.opener == nil:
			return "OpenThread"
		case n == 'g' && a.load == nil:
			return "Get"
		case n == 'r' && a.results == nil:
			return "AppendResults"
		case n == 'a' && a.round == nil:
			return "AppendRound"
		case n == 'h' && a.head == nil:
			return "ThreadHead"
		case n == 'l' && a.lock == nil:
			return "LockThread"
		case n == 'e' && a.again == nil:
			return "Regenerate"
		case n == 'b' && a.branch == nil:
			return "Branch"
		case n == 't' && a.lister == nil:
			return "ThreadArtifacts"
		case n == 's' && a.turn == nil:
			return "ReadTurn"
		}
	}
	return ""
}

// historyRules are the rules; needs has the methods that each rule is about.
var historyRules = []struct {
	name, needs string
	check       func(t *testing.T, a *abilities, opts *HistoryOptions)
}{
	{"an unknown thread is empty", "g", unknownThreadIsEmpty},
	{"a given thread id stays, and the thread is made once", "c", givenIDStays},
	{"a thread without an id gets one of its own", "c", freshThreadIDs},
	{"a thread opens with its first message", "cuog", threadsOpenWithAMessage},
	{"messages come back in conversation order", "ugr", messagesKeepOrder},
	{"messages come back byte for byte", "ugr", messagesKeepBytes},
	{"a user message is stored once for each id", "ug", userMessageOnce},
	{"equal texts under two ids are two messages", "ug", equalTextsAreTwo},
	{"storing one turn again changes nothing", "ugr", turnOnce},
	{"another turn of a run is stored or refused", "ugr", anotherTurnIsNotLost},
	{"custom state comes back", "ugr", stateComesBack},
	{"a turn without state leaves the state alone", "ugr", noStateKeepsState},
	{"what context providers keep comes back", "ugr", providersComeBack},
	{"a failed turn keeps what was finished", "ugr", failedTurnIsKept},
	{"a turn on a stale head loses nothing", "ugr", staleHeadLosesNothing},
	{"tenants do not see each other", "ug", tenantsAreApart},
	{"threads do not see each other", "ug", threadsAreApart},
	{"what is given and returned is not shared", "ugr", nothingIsShared},
	{"many threads can be written at once", "ugr", threadsAtOnce},
	{"rounds are kept in order, and once with their turn", "ugra", roundsAreKept},
	{"storing a round again changes nothing", "uga", roundOnce},
	{"a round on a stale head loses nothing", "ugra", staleRoundLosesNothing},
	{"the head is told without the messages", "ugrh", headIsTold},
	{"artifacts of a thread are listed and read", "urt", artifactsAreListed},
	{"artifacts are listed as the thread shows them", "uretb", artifactsFollowTheThread},
	{"a locked thread is waited for", "l", lockedThreadWaits},
	{"a thread that does not wait is refused", "l", busyThreadRefuses},
	{"an answer is taken back, once", "ugre", answerIsTakenBack},
	{"only what can be answered is answered again", "ugre", regenerateRefuses},
	{"what was taken back can be said again", "ugre", takenBackIsSaidAgain},
	{"a branch goes on beside the thread", "ugrb", branchesAreApart},
	{"a branch begins before the turn that runs", "ugrbl", branchBeginsBeforeTheTurn},
	{"runs of a host are kept", "ugr", runsAreKept},
	{"a message that was answered is answered from its turn", "ugrs", answersAreRead},
	{"a message without an answer has no turn", "ugrs", openMessagesHaveNoTurn},
	{"an answer that was taken back is none", "ugres", answersTakenBackAreNone},
}

// conversation is one thread of one tenant in an adapter.
type conversation struct {
	*abilities
	t              *testing.T
	tenant, thread string
	line           string // the branch; empty for the thread's main line
}

// open makes a thread, if the adapter can, and returns it.
func (a *abilities) open(t *testing.T, tenant, thread string) *conversation {
	t.Helper()
	c := &conversation{abilities: a, t: t, tenant: tenant, thread: thread, line: ""}
	if a.create != nil {
		got, _, err := a.create.CreateThread(t.Context(), c.request("setup", nil))
		if err != nil {
			t.Fatalf("CreateThread(%q, %q): %v", tenant, thread, err)
		}
		if thread == "" {
			c.thread = got
		}
	}
	return c
}

func (c *conversation) request(run string, input *host.Message) *host.HistoryRequest {
	return &host.HistoryRequest{Tenant: c.tenant, Thread: c.thread, Branch: c.line, Run: run, Network: "kit", Input: input}
}

// say stores a user's message and returns the head.
func (c *conversation) say(run string, m *host.Message) string {
	c.t.Helper()
	head, err := c.user.AppendUserMessage(c.t.Context(), c.request(run, m))
	if err != nil {
		c.t.Fatalf("AppendUserMessage %q: %v", m.ID, err)
	}
	return head
}

// store stores a turn.
func (c *conversation) store(run string, input *host.Message, turn *host.Turn) error {
	c.t.Helper()
	return c.results.AppendResults(c.t.Context(), c.request(run, input), turn)
}

func (c *conversation) mustStore(run string, input *host.Message, turn *host.Turn) {
	c.t.Helper()
	if err := c.store(run, input, turn); err != nil {
		c.t.Fatalf("AppendResults of run %q: %v", run, err)
	}
}

func (c *conversation) get() *host.Loaded {
	c.t.Helper()
	loaded, err := c.load.Get(c.t.Context(), c.request("read", nil))
	if err != nil {
		c.t.Fatalf("Get thread %q of tenant %q: %v", c.thread, c.tenant, err)
	}
	if loaded == nil {
		return &host.Loaded{}
	}
	return loaded
}

// wantState compares the thread's state, unless the adapter keeps none.
func (c *conversation) wantState(when, want string) {
	c.t.Helper()
	if c.opts.NoState {
		want = ""
	}
	if got := string(c.get().State); got != want {
		c.t.Errorf("%s Get returns state %s, want %s", when, cmp.Or(got, "none"), cmp.Or(want, "none"))
	}
}

// want compares the thread with the stored form of messages, by their JSON.
func (c *conversation) want(messages ...*host.Message) {
	c.t.Helper()
	messages = c.opts.kept(c.t, messages)
	if diff := gocmp.Diff(jsonLines(messages), jsonLines(c.get().Messages)); diff != "" {
		c.t.Errorf("Get thread %q of tenant %q (-want +got):\n%s", c.thread, c.tenant, diff)
	}
}

func jsonLines(messages []*host.Message) []string {
	lines := []string{}
	for _, m := range messages {
		lines = append(lines, string(m.AppendJSON(nil)))
	}
	return lines
}

// instant is the creation time of the kit's messages, in nanoseconds, so that a store
// that rounds times is found.
var instant = time.Date(2025, time.March, 4, 5, 6, 7, 123456789, time.UTC)

func message(id string, role host.Role, parts ...host.Part) *host.Message {
	return &host.Message{ID: id, Role: role, Parts: parts, CreatedAt: instant}
}

func userSays(id, text string) *host.Message {
	return message(id, host.User, &host.Text{Text: text})
}

func turnOf(head string, messages ...*host.Message) *host.Turn {
	return &host.Turn{
		Head: head, Status: chat.FinishStop,
		Results: []*host.Result{{Agent: "clerk", Messages: messages, FinishReason: chat.FinishStop, Rounds: 1, CreatedAt: instant}},
	}
}

func answer(id, text string) *host.Message {
	m := message(id, host.Assistant, &host.Text{Text: text})
	m.Agent = "clerk"
	return m
}
