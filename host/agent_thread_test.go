package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// keepingModel is a model whose service keeps the conversation, as long as it is told
// to. It refuses what such a service refuses: an id that it does not know, and a
// call without a result.
type keepingModel struct {
	*hosttest.Model
	fixed string // the id of a conversation that stays the same, "" for one id an answer
	off   bool   // it keeps nothing

	mu      sync.Mutex
	n       int
	waits   map[string]map[string]bool // of each conversation: calls without a result
	ordered []string                   // what each request brought, as words
}

func newKeepingModel(replies ...hosttest.Reply) *keepingModel {
	return &keepingModel{Model: hosttest.NewModel(replies...), waits: map[string]map[string]bool{}}
}

func (k *keepingModel) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := k.check(req); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		for chunk, err := range k.Model.Generate(ctx, req) {
			if err == nil && chunk.Response != nil && !k.off {
				chunk.Response.Conversation = k.keep(chunk.Response)
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

func (k *keepingModel) check(req *llm.Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ordered = append(k.ordered, req.Conversation+"< "+strings.Join(brief(req.Messages), " "))
	if req.Conversation == "" || k.off {
		return nil
	}
	waits, ok := k.waits[req.Conversation]
	if !ok {
		return host.Errorf(host.NotFound, "no conversation %q", req.Conversation)
	}
	open := len(waits)
	for _, m := range req.Messages {
		for _, r := range m.ToolResults() {
			if !waits[r.ID] {
				return host.Errorf(host.InvalidArgument, "no call %q is open", r.ID)
			}
			open--
		}
	}
	if open > 0 {
		return host.Errorf(host.InvalidArgument, "%d calls have no result", open)
	}
	return nil
}

func (k *keepingModel) keep(resp *llm.Response) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	id := fmt.Sprintf("resp_%d", k.n)
	if k.fixed != "" {
		id = k.fixed
	}
	k.waits[id] = map[string]bool{}
	for _, c := range (&host.Message{Parts: resp.Parts}).ToolCalls() {
		k.waits[id][c.ID] = true
	}
	return id
}

func (k *keepingModel) wantRequests(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, k.ordered); diff != "" {
		t.Errorf("the service was sent other things (-want +got):\n%s", diff)
	}
}

// brief is a conversation in short: u:text, a:text, c:id, t:id.
func brief(messages []*host.Message) []string {
	var out []string
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *host.Text:
				out = append(out, string(m.Role[0])+":"+p.Text)
			case *host.ToolCall:
				out = append(out, "c:"+p.ID)
			case *host.ToolResult:
				out = append(out, "t:"+p.ID)
			}
		}
	}
	return out
}

func newThread(t testing.TB, a *host.Agent, opts *host.ThreadOptions) *host.AgentThread {
	t.Helper()
	thread, err := a.NewThread(context.Background(), opts)
	if err != nil {
		t.Fatalf("NewThread: %v", err)
	}
	return thread
}

func say(t testing.TB, a *host.Agent, thread *host.AgentThread, text string) *host.RunResult {
	t.Helper()
	r, err := newHost(t, nil).Run(context.Background(), a, &host.Request{Text: text, AgentThread: thread})
	if err != nil {
		t.Fatalf("Run(%q): %v", text, err)
	}
	return r
}

func wantThread(t testing.TB, thread *host.AgentThread, want ...string) {
	t.Helper()
	messages, err := thread.Messages(context.Background())
	if err != nil {
		t.Fatalf("Messages: %v", err)
	}
	if diff := cmp.Diff(want, brief(messages), ignoreNil); diff != "" {
		t.Errorf("the thread has other messages (-want +got):\n%s", diff)
	}
}

var ignoreNil = cmp.Transformer("list", func(s []string) string { return strings.Join(s, "|") })

// again serializes a thread and restores it with an agent.
func again(t testing.TB, a *host.Agent, thread *host.AgentThread) *host.AgentThread {
	t.Helper()
	raw, err := thread.Serialize(context.Background())
	if err != nil {
		t.Fatalf("Serialize: %v", err)
	}
	restored, err := a.RestoreThread(context.Background(), raw, nil)
	if err != nil {
		t.Fatalf("RestoreThread: %v\n%s", err, raw)
	}
	return restored
}

func lookingTool(fail *bool) *host.Tool {
	return host.NewTool("look", "looks", func(context.Context, *host.Call, struct{}) (string, error) {
		if fail != nil && *fail {
			return "", errors.New("blind")
		}
		return "seen", nil
	}, nil)
}

func TestAThreadKeepsWhatWasSaidInMemory(t *testing.T) {
	model := hosttest.NewModel(hosttest.Say("R1"), hosttest.Say("R2"))
	a := newAgent(t, &host.AgentOptions{Model: model})
	thread := newThread(t, a, nil)
	if thread.Kind() != host.ThreadUndecided {
		t.Errorf("a new thread is %s", thread.Kind())
	}
	say(t, a, thread, "hi")
	if thread.Kind() != host.ThreadStore {
		t.Errorf("after a run the thread is %s", thread.Kind())
	}
	wantThread(t, thread, "u:hi", "a:R1")
	thread = again(t, a, thread)
	say(t, a, thread, "again")
	if got := brief(model.Requests()[1].Messages); !slices.Equal(got, []string{"u:hi", "a:R1", "u:again"}) {
		t.Errorf("the model was sent %q", got)
	}
	wantThread(t, thread, "u:hi", "a:R1", "u:again", "a:R2")
}

func TestAServicesThreadSendsWhatIsNew(t *testing.T) {
	k := newKeepingModel(hosttest.Call("look", `{}`), hosttest.Say("R1"), hosttest.Say("R2"), hosttest.Say("R3"))
	a := newAgent(t, &host.AgentOptions{Instructions: "be kind", Model: k, Tools: []*host.Tool{lookingTool(nil)}})
	thread := newThread(t, a, nil)
	say(t, a, thread, "one")
	if thread.Kind() != host.ThreadService || thread.Conversation() != "resp_2" {
		t.Errorf("the thread is %s with %q", thread.Kind(), thread.Conversation())
	}
	fork := again(t, a, thread) // an id that the service keeps can be gone on with twice
	say(t, a, thread, "two")
	say(t, a, fork, "other")
	k.wantRequests(t, "< s:be kind u:one", "resp_1< s:be kind t:call_1", "resp_2< s:be kind u:two", "resp_2< s:be kind u:other")
	if _, err := thread.Messages(t.Context()); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("the messages of a service's thread: %v; want code %s", err, host.FailedPrecondition)
	}
	raw, _ := thread.Serialize(t.Context())
	if bytes.Contains(raw, []byte("one")) || bytes.Contains(raw, []byte(`"open"`)) {
		t.Errorf("a service's thread holds more than its id: %s", raw)
	}
}

// A conversation of the service's has one id, and a thread can begin with it.
func TestAThreadOfAConversationThatIsThere(t *testing.T) {
	k := newKeepingModel(hosttest.Say("R1"), hosttest.Say("R2"))
	k.fixed, k.waits["conv_7"] = "conv_7", map[string]bool{}
	a := newAgent(t, &host.AgentOptions{Model: k})
	thread := newThread(t, a, &host.ThreadOptions{Conversation: "conv_7"})
	say(t, a, thread, "one")
	say(t, a, again(t, a, thread), "two")
	k.wantRequests(t, "conv_7< u:one", "conv_7< u:two")
}

func TestAThreadWithTwoKeepersAtOnceIsRefused(t *testing.T) {
	a := newAgent(t, &host.AgentOptions{Model: says("x")})
	store, _ := memoryMessages(t, nil).OpenStore(t.Context(), &host.StoreRequest{})
	_, err := a.NewThread(t.Context(), &host.ThreadOptions{Conversation: "conv_1", Store: store})
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "conversation") || !strings.Contains(err.Error(), "store") {
		t.Errorf("%v; want code %s, naming both", err, host.InvalidArgument)
	}
}

func TestIDsThatNoThreadCanHave(t *testing.T) {
	a := newAgent(t, &host.AgentOptions{Model: says("x")})
	for _, id := range []string{" ", "\t\n", "a\x00b", "\xff", strings.Repeat("x", 1000)} {
		if _, err := a.NewThread(t.Context(), &host.ThreadOptions{ID: id}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%.10q: %v; want code %s", id, err, host.InvalidArgument)
		}
	}
	for _, id := range []string{"../t", "a/b", ".t", "тред", "a b"} {
		if thread := newThread(t, a, &host.ThreadOptions{ID: id}); thread.ID() != id {
			t.Errorf("%q is %q", id, thread.ID())
		}
	}
}

func TestAServiceThatForgetsIsAnError(t *testing.T) {
	k := newKeepingModel(hosttest.Say("R1"), hosttest.Say("R2"), hosttest.Say("R3"))
	a := newAgent(t, &host.AgentOptions{Model: k})
	thread := newThread(t, a, nil)
	say(t, a, thread, "one")
	k.off = true
	_, err := newHost(t, nil).Run(t.Context(), a, &host.Request{Text: "two", AgentThread: thread})
	if host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "does not keep") {
		t.Errorf("%v; want code %s", err, host.FailedPrecondition)
	}
	k.off = false
	say(t, a, thread, "three")
	k.wantRequests(t, "< u:one", "resp_1< u:two", "resp_1< u:two u:three") // nothing that was said is lost
}

func TestTheServiceWinsOverAStore(t *testing.T) {
	events := func(a *host.Agent, thread *host.AgentThread, log *bytes.Buffer) (decided []string, err error) {
		h := newHost(t, &host.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		for ev, e := range h.Stream(t.Context(), a, &host.Request{Text: "hi", AgentThread: thread}) {
			if err = e; e == nil {
				if d, ok := ev.Data.(*runevent.ThreadDecided); ok {
					decided = append(decided, string(d.Kind)+" over "+d.Store)
				}
			}
		}
		return decided, err
	}
	k := newKeepingModel(hosttest.Say("R1"), hosttest.Say("R2"), hosttest.Say("R3"))
	stores := &countingStores{MessageStores: memoryMessages(t, nil)}
	a := newAgent(t, &host.AgentOptions{Model: k, Messages: stores})
	thread := newThread(t, a, nil)
	var log bytes.Buffer
	for run, want := range [][]string{{"service over memory"}, nil} {
		got, err := events(a, thread, &log)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("run %d decides %q, %v; want %q", run, got, err, want)
		}
	}
	if n := strings.Count(log.String(), "two keep one conversation"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
	if thread.Kind() != host.ThreadService || stores.added != 0 {
		t.Errorf("the thread is %s, and its store was given %d messages", thread.Kind(), stores.added)
	}

	strict := newThread(t, a, &host.ThreadOptions{StrictStore: true})
	_, err := events(a, strict, &log)
	if host.CodeOf(err) != host.FailedPrecondition || stores.added != 0 || strict.Kind() != host.ThreadUndecided {
		t.Errorf("strict: %v, kind %s, %d added; want code %s and nothing stored", err, strict.Kind(), stores.added, host.FailedPrecondition)
	}
}

// countingStores count what is added.
type countingStores struct {
	host.MessageStores
	added int
}

func (c *countingStores) OpenStore(ctx context.Context, req *host.StoreRequest) (host.MessageStore, error) {
	s, err := c.MessageStores.OpenStore(ctx, req)
	return &countingStore{s, c}, err
}

type countingStore struct {
	host.MessageStore
	stores *countingStores
}

func (c *countingStore) AddMessages(ctx context.Context, messages []*host.Message) error {
	c.stores.added += len(messages)
	return c.MessageStore.AddMessages(ctx, messages)
}

// A conversation that is in a store stays there, whatever the model that is asked
// later says.
func TestADecidedThreadStaysWithItsStore(t *testing.T) {
	k := newKeepingModel(hosttest.Say("R1"), hosttest.Say("R2"), hosttest.Say("R3"))
	k.off = true
	a := newAgent(t, &host.AgentOptions{Model: k})
	thread := newThread(t, a, nil)
	say(t, a, thread, "one")
	k.off = false
	say(t, a, thread, "two")
	say(t, a, thread, "three")
	wantThread(t, thread, "u:one", "a:R1", "u:two", "a:R2", "u:three", "a:R3")
	k.wantRequests(t, "< u:one", "< u:one a:R1 u:two", "< u:one a:R1 u:two a:R2 u:three")
}

// An undecided thread that was serialized becomes what the first answer makes it.
func TestAnUnusedThreadIsDecidedAfterItsRoundTrip(t *testing.T) {
	for _, off := range []bool{false, true} {
		k := newKeepingModel(hosttest.Say("R1"))
		k.off = off
		a := newAgent(t, &host.AgentOptions{Model: k})
		thread := again(t, a, newThread(t, a, nil))
		say(t, a, thread, "hi")
		want := host.ThreadService
		if off {
			want = host.ThreadStore
		}
		if thread.Kind() != want {
			t.Errorf("the thread is %s, want %s", thread.Kind(), want)
		}
	}
}

func TestThreadsOfOthersAreRefusedBeforeTheModelIsAsked(t *testing.T) {
	model := hosttest.NewModel()
	mine := newAgent(t, &host.AgentOptions{Model: model, Description: "mine"})
	other, err := host.NewAgent("other", &host.AgentOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	thread := newThread(t, mine, &host.ThreadOptions{Tenant: "acme"})
	net, err := host.NewNetwork("desk", []*host.Agent{mine}, &host.NetworkOptions{Router: host.InOrder("order", mine.Name())})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		target host.Target
		req    host.Request
		code   host.Code
	}{
		"another agent":          {other, host.Request{Tenant: "acme"}, host.FailedPrecondition},
		"a network":              {net, host.Request{Tenant: "acme"}, host.InvalidArgument},
		"another tenant":         {mine, host.Request{Tenant: "globex"}, host.PermissionDenied},
		"no tenant":              {mine, host.Request{}, host.PermissionDenied},
		"another thread":         {mine, host.Request{Tenant: "acme", Thread: "t7"}, host.InvalidArgument},
		"a client's messages":    {mine, host.Request{Tenant: "acme", Messages: []*host.Message{host.UserText("x")}}, host.InvalidArgument},
		"with answers to no run": {mine, host.Request{Tenant: "acme", Answers: []host.Answer{{}}}, host.InvalidArgument},
	} {
		c.req.Text, c.req.AgentThread = "hi", thread
		if _, err := newHost(t, nil).Run(t.Context(), c.target, &c.req); host.CodeOf(err) != c.code {
			t.Errorf("%s: %v; want code %s", name, err, c.code)
		}
	}
	if n := len(model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestAFailedRunOfAThread(t *testing.T) {
	broken := host.Errorf(host.Unavailable, "down")
	run := func(a *host.Agent, thread *host.AgentThread, text string) {
		_, err := newHost(t, nil).Run(t.Context(), a, &host.Request{Text: text, AgentThread: thread})
		if host.CodeOf(err) != host.Unavailable {
			t.Errorf("Run(%q): %v; want code %s", text, err, host.Unavailable)
		}
	}
	for _, service := range []bool{false, true} {
		t.Run(fmt.Sprintf("service %t", service), func(t *testing.T) {
			k := newKeepingModel(hosttest.Fail(broken), hosttest.Call("look", `{}`), hosttest.Fail(broken), hosttest.Say("R"))
			k.off = !service
			a := newAgent(t, &host.AgentOptions{Model: k, Tools: []*host.Tool{lookingTool(nil)}})
			thread := newThread(t, a, nil)
			run(a, thread, "one")
			thread = again(t, a, thread)
			wantThread(t, thread, "u:one")
			run(a, thread, "two")
			thread = again(t, a, thread)
			say(t, a, thread, "three")
			if service {
				k.wantRequests(t, "< u:one", "< u:one u:two", "resp_1< t:call_1", "resp_1< t:call_1 u:three")
				return
			}
			k.wantRequests(t, "< u:one", "< u:one u:two", "< u:one u:two c:call_1 t:call_1", "< u:one u:two c:call_1 t:call_1 u:three")
			wantThread(t, thread, "u:one", "u:two", "c:call_1", "t:call_1", "u:three", "a:R")
		})
	}
	k := newKeepingModel(hosttest.Call("look", `{}`), hosttest.Fail(broken), hosttest.Say("R"))
	a := newAgent(t, &host.AgentOptions{Model: k, Tools: []*host.Tool{lookingTool(nil)}})
	thread := newThread(t, a, &host.ThreadOptions{DiscardOnFailure: true})
	run(a, thread, "one")
	if thread.Kind() != host.ThreadUndecided {
		t.Errorf("a discarded run decided that the thread is %s", thread.Kind())
	}
	say(t, a, thread, "two")
	k.wantRequests(t, "< u:one", "resp_1< t:call_1", "< u:two")
}

// A question survives the process with its thread, whoever keeps the
// conversation; and without an answer the service is told that there is none.
func TestAQuestionInAThread(t *testing.T) {
	for _, service := range []bool{false, true} {
		for _, answered := range []bool{true, false} {
			t.Run(fmt.Sprintf("service %t, answered %t", service, answered), func(t *testing.T) {
				k := newKeepingModel(hosttest.Call("look", `{}`), hosttest.Say("R1"), hosttest.Say("R2"))
				k.off = !service
				tool, _ := lookingTool(nil).With(&host.ToolOptions{Approve: host.ApproveAlways("look first")})
				a := newAgent(t, &host.AgentOptions{Model: k, Tools: []*host.Tool{tool}})
				h := newHost(t, &host.Options{Journal: hosttest.NewJournal()})
				thread := newThread(t, a, nil)
				r, err := h.Run(t.Context(), a, &host.Request{Text: "one", AgentThread: thread})
				if err != nil || r.FinishReason != chat.FinishInterrupted {
					t.Fatalf("%v, %v", r, err)
				}
				thread = again(t, a, thread)
				before, _ := thread.Serialize(t.Context())
				if _, err := h.Run(t.Context(), a, &host.Request{Resume: r.Run, AgentThread: newThread(t, a, nil),
					Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Approve}}}); host.CodeOf(err) != host.FailedPrecondition {
					t.Errorf("answered in another thread: %v; want code %s", err, host.FailedPrecondition)
				}
				if answered {
					if _, err := h.Run(t.Context(), a, &host.Request{Resume: r.Run, AgentThread: thread,
						Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Approve}}}); err != nil {
						t.Fatal(err)
					}
				}
				thread = again(t, a, thread)
				say(t, a, thread, "two")
				switch {
				case service && answered:
					k.wantRequests(t, "< u:one", "resp_1< t:call_1", "resp_2< u:two")
				case service:
					k.wantRequests(t, "< u:one", "resp_1< t:call_1 u:two")
				case answered:
					wantThread(t, thread, "u:one", "c:call_1", "t:call_1", "a:R1", "u:two", "a:R2")
				default:
					k.wantRequests(t, "< u:one", "< u:one c:call_1 t:call_1 u:two")
				}
				if answered {
					stale, err := a.RestoreThread(t.Context(), before, nil)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := h.Run(t.Context(), a, &host.Request{Resume: r.Run, AgentThread: stale,
						Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Approve}}}); host.CodeOf(err) != host.Conflict {
						t.Errorf("answered twice: %v; want code %s", err, host.Conflict)
					}
				}
			})
		}
	}
}

// A durable run in a thread goes on after its process has ended, with what the
// thread was before and what the journal has.
func TestADurableRunOfAServicesThread(t *testing.T) {
	for lives := 1; lives < 9; lives++ {
		k := newKeepingModel(hosttest.Say("R0"))
		a := newAgent(t, &host.AgentOptions{Model: k, Tools: []*host.Tool{host.NewTool("look", "looks",
			func(context.Context, *host.Call, struct{}) (string, error) { return "seen", nil }, &host.ToolOptions{Idempotent: true})}})
		thread := newThread(t, a, nil)
		say(t, a, thread, "zero")
		raw, _ := thread.Serialize(t.Context())
		k.Queue(hosttest.Call("look", `{}`), hosttest.Say("R1"), hosttest.Say("R2"))

		journal := hosttest.NewJournal()
		r, err := newHost(t, &host.Options{Journal: &mortal{journal, lives}}).Run(t.Context(), a, &host.Request{Text: "one", AgentThread: thread, Durable: true})
		if err == nil {
			break // the process lived
		}
		k.mu.Lock()
		asked := len(k.ordered)
		k.mu.Unlock()
		restored, err := a.RestoreThread(t.Context(), raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := newHost(t, &host.Options{Journal: journal}).Run(t.Context(), a, &host.Request{Resume: r.Run, AgentThread: restored})
		if err != nil {
			t.Fatalf("lives %d: %v (asked before: %q)", lives, err, k.ordered[:asked])
		}
		if got.Text() != "R1" && got.Text() != "R2" {
			t.Errorf("lives %d: the run says %q", lives, got.Text())
		}
		k.Queue(hosttest.Say("R3"))
		say(t, a, restored, "next")
		if last := k.ordered[len(k.ordered)-1]; last != fmt.Sprintf("%s< u:next", k.last()) {
			t.Errorf("lives %d: after it the service is sent %q", lives, last)
		}
	}
}

// last is the id of the last answer but one.
func (k *keepingModel) last() string { return fmt.Sprintf("resp_%d", k.n-1) }

func TestRunsOfOneThreadWaitForEachOther(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if len(req.Messages) == 1 {
			close(entered)
			<-leave
		}
		return hosttest.Say(fmt.Sprintf("R%d", len(req.Messages)))
	})
	a := newAgent(t, &host.AgentOptions{Model: model})
	thread := newThread(t, a, nil)
	var wg sync.WaitGroup
	wg.Go(func() { say(t, a, thread, "one") })
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newHost(t, nil).Run(ctx, a, &host.Request{Text: "hurried", AgentThread: thread}); host.CodeOf(err) != host.Canceled {
		t.Errorf("a run that does not wait: %v; want code %s", err, host.Canceled)
	}
	wg.Go(func() { say(t, a, thread, "two") })
	close(leave)
	wg.Wait()
	wantThread(t, thread, "u:one", "a:R1", "u:two", "a:R3")
}

func TestStateGoesWithItsThread(t *testing.T) {
	model := hosttest.NewModel(hosttest.Call("count", `{}`), hosttest.Say("R1"), hosttest.Call("count", `{}`), hosttest.Say("R2"))
	count := host.NewTool("count", "counts", func(_ context.Context, call *host.Call, _ struct{}) (string, error) {
		var n int
		_, _ = call.State.Get("/n", &n)
		return "ok", call.State.Set("/n", n+1)
	}, nil)
	a := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{count}})
	thread := newThread(t, a, nil)
	say(t, a, thread, "one")
	thread = again(t, a, thread)
	say(t, a, thread, "two")
	var state struct{ N int }
	if err := json.Unmarshal(thread.State(), &state); err != nil || state.N != 2 {
		t.Errorf("the state is %s, %v", thread.State(), err)
	}
}

// Processors see what is new of a conversation that the service keeps, and no
// results of tools, which the service waits for.
func TestProcessorsOfAServicesThreadSeeWhatIsNew(t *testing.T) {
	var seen []string
	redact := host.ProcessorFunc("redact", func(_ context.Context, messages []*host.Message) ([]*host.Message, error) {
		seen = append(seen, strings.Join(brief(messages), " "))
		for i, m := range messages {
			messages[i] = m.Clone()
			messages[i].Parts = []host.Part{&host.Text{Text: strings.ReplaceAll(m.Text(), "secret", "***")}}
		}
		return messages, nil
	})
	k := newKeepingModel(hosttest.Call("look", `{}`), hosttest.Say("R1"), hosttest.Say("R2"))
	a := newAgent(t, &host.AgentOptions{Model: k, Tools: []*host.Tool{lookingTool(nil)}, Processors: []host.Processor{redact}})
	thread := newThread(t, a, nil)
	say(t, a, thread, "the secret")
	say(t, a, thread, "the secret again")
	k.wantRequests(t, "< u:the ***", "resp_1< t:call_1", "resp_2< u:the *** again")
	if want := []string{"u:the secret", "u:the secret again"}; !slices.Equal(seen, want) {
		t.Errorf("the processor saw %q, want %q", seen, want)
	}
}

// An answer that is not the output that was asked for is told to the service
// without what it has.
func TestOutputIsRepairedInAServicesThread(t *testing.T) {
	schema, err := host.SchemaOf[struct {
		N int `json:"n"`
	}]()
	if err != nil {
		t.Fatal(err)
	}
	k := newKeepingModel(hosttest.Say("seven"), hosttest.Say(`{"n":7}`), hosttest.Say(`{"n":8}`))
	a := newAgent(t, &host.AgentOptions{Model: k, Output: schema})
	thread := newThread(t, a, nil)
	if r := say(t, a, thread, "how many?"); string(r.Results[0].Output) != `{"n":7}` {
		t.Errorf("the output is %s", r.Results[0].Output)
	}
	say(t, a, thread, "and now?")
	if len(k.ordered) != 3 || !strings.HasPrefix(k.ordered[1], "resp_1< u:That is not the JSON") || k.ordered[2] != "resp_2< u:and now?" {
		t.Errorf("the service was sent %q", k.ordered)
	}
}

// A history is sent whole, though the service says that it keeps the conversation:
// what the history shows may change, and here does.
func TestAHistoryIsSentWholeToAServiceThatKeepsIt(t *testing.T) {
	m := newKeepingModel(hosttest.Call("look", `{}`), hosttest.Say("one"), hosttest.Say("two"), hosttest.Say("another"))
	look := host.NewTool("look", "looks", func(context.Context, *host.Call, struct{}) (string, error) { return "seen", nil }, nil)
	agent := newAgent(t, &host.AgentOptions{Model: m, Tools: []*host.Tool{look}, History: newHistory(t, hosttest.NewHistory())})
	h := newHost(t, nil)
	again := host.UserText("and?")
	for _, req := range []*host.Request{{Thread: "T", Text: "hi"}, {Thread: "T", Input: again}, {Thread: "T", Regenerate: again.ID}} {
		if _, err := h.Run(t.Context(), agent, req); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"< u:hi", "< u:hi c:call_1 t:call_1", "< u:hi c:call_1 t:call_1 a:one u:and?", "< u:hi c:call_1 t:call_1 a:one u:and?"}
	if diff := cmp.Diff(want, m.ordered); diff != "" {
		t.Errorf("what the service is sent (-want +got):\n%s", diff)
	}
}
