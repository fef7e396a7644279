package hosttest_test

// Scenario: implementations with one fault each, which the kits must find.

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
)

// A kit is worth what it finds. Each mutant breaks one rule; it runs in a process
// of its own, which must fail and name the rule.

const mutantVariable = "HOSTTEST_MUTANT"

func TestTheKitFindsMutants(t *testing.T) {
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestMutant$", "-test.v")
			cmd.Env = append(os.Environ(), mutantVariable+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the kit passes it:\n%s", out)
			}
			if !strings.Contains(string(out), m.rule) {
				t.Errorf("the kit does not say %q:\n%s", m.rule, out)
			}
		})
	}
}

// TestMutant runs the mutant that the environment names, if it names one.
func TestMutant(t *testing.T) {
	if m, ok := mutants[os.Getenv(mutantVariable)]; ok {
		m.run(t)
	}
}

type mutant struct {
	rule string // words of the failure
	run  func(*testing.T)
}

var mutants = map[string]mutant{
	"opens a thread without its message": openerMutant(func(a *hosttest.History, req *host.HistoryRequest) (id string, created bool, err error) {
		return a.CreateThread(context.Background(), req)
	}),
	"opens a thread as new each time": openerMutant(func(a *hosttest.History, req *host.HistoryRequest) (id string, created bool, err error) {
		if id, _, err = a.CreateThread(context.Background(), req); err != nil {
			return "", false, err
		}
		with := *req
		with.Thread = id
		_, err = a.AppendUserMessage(context.Background(), &with)
		return id, true, err
	}),
	"lists another order": historyMutant("--- FAIL: TestMutant/artifacts_of_a_thread_are_listed_and_read", &broken{
		listed: func(refs []host.ArtifactRef) []host.ArtifactRef { slices.Reverse(refs); return refs }}),
	"lists a digest of something else": historyMutant("--- FAIL: TestMutant/artifacts_of_a_thread_are_listed_and_read", &broken{
		listed: func(refs []host.ArtifactRef) []host.ArtifactRef {
			for i := range refs {
				refs[i].Digest = chat.ContentDigest(nil)
			}
			return refs
		}}),
	"lists the thread's own artifacts for a branch": historyMutant("--- FAIL: TestMutant/artifacts_are_listed_as_the_thread_shows_them", &broken{
		artifactsOf: func(req *host.HistoryRequest) { req.Branch = "" }}),
	"an unknown thread is an error": historyMutant("--- FAIL: TestMutant/an_unknown_thread_is_empty", &broken{
		get: func(h *hosttest.History, ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
			if len(h.Messages(req.Tenant, req.Thread)) == 0 {
				return nil, host.Errorf(host.NotFound, "no thread %q", req.Thread)
			}
			return h.Get(ctx, req)
		}}),
	"sorts by id": historyMutant("--- FAIL: TestMutant/messages_come_back_in_conversation_order", &broken{
		loaded: func(l *host.Loaded) {
			slices.SortFunc(l.Messages, func(a, b *host.Message) int { return strings.Compare(a.ID, b.ID) })
		}}),
	"reads numbers as floats": historyMutant("--- FAIL: TestMutant/messages_come_back_byte_for_byte", &broken{
		loaded: func(l *host.Loaded) {
			for i, m := range l.Messages {
				var v any
				_ = json.Unmarshal(m.AppendJSON(nil), &v)
				raw, _ := json.Marshal(v)
				c := &host.Message{}
				_ = c.UnmarshalJSON(raw)
				l.Messages[i] = c
			}
		}}),
	"keeps less than all": historyMutant("--- FAIL: TestMutant/messages_come_back_byte_for_byte", lossy()),
	"keeps less state than it should": lossyMutant("--- FAIL: TestMutant/custom_state_comes_back", lossy(),
		&hosttest.HistoryOptions{NoProviders: true, Keeps: lossyKeeps}),
	"keeps state that it says it does not": lossyMutant("after a turn with state Get returns state", &broken{}, &hosttest.HistoryOptions{NoState: true}),
	"keeps providers that it says it does not": lossyMutant("--- FAIL: TestMutant/what_context_providers_keep_comes_back", &broken{},
		&hosttest.HistoryOptions{NoProviders: true}),
	"keeps more than it says": lossyMutant("--- FAIL: TestMutant/messages_come_back_byte_for_byte", &broken{}, &hosttest.HistoryOptions{Keeps: lossyKeeps}),
	"keeps no calls": lossyMutant("every adapter keeps those", lossy(), &hosttest.HistoryOptions{NoState: true, NoProviders: true,
		Keeps: func(m *host.Message) *host.Message {
			m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p host.Part) bool { _, call := p.(*host.ToolCall); return call })
			return m
		}}),
	"forgets providers": historyMutant("--- FAIL: TestMutant/what_context_providers_keep_comes_back", &broken{
		loaded: func(l *host.Loaded) { l.Providers = nil }}),
	"takes one tenant for all": historyMutant("--- FAIL: TestMutant/tenants_do_not_see_each_other", &broken{
		request: func(req *host.HistoryRequest) { req.Tenant = "all" }}),
	"takes the beginning of a name for the name": historyMutant("--- FAIL: TestMutant/threads_do_not_see_each_other", &broken{
		request: func(req *host.HistoryRequest) { req.Thread = req.Thread[:min(len(req.Thread), 2)] }}),
	"stores a message under a new id each time": historyMutant("--- FAIL: TestMutant/a_user_message_is_stored_once_for_each_id", &broken{
		request: func(req *host.HistoryRequest) {
			if req.Input != nil {
				req.Input = req.Input.Clone()
				req.Input.ID = host.NewID()
			}
		}}),
	"stores a turn each time": historyMutant("--- FAIL: TestMutant/storing_one_turn_again_changes_nothing", &broken{
		request: func(req *host.HistoryRequest) { req.Run = host.NewID() }}),
	"takes another turn for a retry": historyMutant("--- FAIL: TestMutant/another_turn_of_a_run_is_stored_or_refused", &broken{
		refuses: func(err error) error {
			if host.CodeOf(err) == host.AlreadyExists {
				return nil
			}
			return err
		}}),
	"drops failed turns": historyMutant("--- FAIL: TestMutant/a_failed_turn_keeps_what_was_finished", &broken{
		turn: func(turn *host.Turn) {
			if turn.Status == chat.FinishFailed {
				turn.Results = nil
			}
		}}),
	"forgets the state": historyMutant("--- FAIL: TestMutant/custom_state_comes_back", &broken{
		turn: func(turn *host.Turn) { turn.State = nil }}),
	"takes no state for an empty one": historyMutant("--- FAIL: TestMutant/a_turn_without_state_leaves_the_state_alone", &broken{
		turn: func(turn *host.Turn) {
			if turn.State == nil {
				turn.State = json.RawMessage("{}")
			}
		}}),
	"stores rounds twice": historyMutant("--- FAIL: TestMutant/rounds_are_kept_in_order,_and_once_with_their_turn", &broken{
		turn: func(turn *host.Turn) {
			for _, r := range turn.Results {
				for i, m := range r.Messages {
					r.Messages[i] = m.Clone()
					r.Messages[i].ID = host.NewID()
				}
			}
		}}),
	"keeps a round each time": historyMutant("--- FAIL: TestMutant/storing_a_round_again_changes_nothing", &broken{
		round: func(round *host.Round) {
			round.Head = ""
			for i, m := range round.Messages {
				round.Messages[i] = m.Clone()
				round.Messages[i].ID = host.NewID()
			}
		}}),
	"writes a round over what came between": historyMutant("--- FAIL: TestMutant/a_round_on_a_stale_head_loses_nothing", &broken{
		get: func(h *hosttest.History, ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
			l, err := h.Get(ctx, req)
			if err == nil && req.Thread == "round-race" {
				l.Messages = l.Messages[:1]
			}
			return l, err
		}}),
	"moves the head of a message it has": historyMutant("--- FAIL: TestMutant/a_user_message_is_stored_once_for_each_id", &broken{
		head: func() string { return host.NewID() }}),
	"makes a thread each time": historyMutant("--- FAIL: TestMutant/a_given_thread_id_stays,_and_the_thread_is_made_once", &broken{created: true}),
	"one id for all threads": historyMutant("--- FAIL: TestMutant/a_thread_without_an_id_gets_one_of_its_own", &broken{
		request: func(req *host.HistoryRequest) {
			if req.Thread == "" {
				req.Thread = "thread"
			}
		}}),
	"one text is one message": historyMutant("--- FAIL: TestMutant/equal_texts_under_two_ids_are_two_messages", &broken{
		request: func(req *host.HistoryRequest) {
			if req.Input != nil {
				req.Input = req.Input.Clone()
				req.Input.ID = req.Input.Text()
			}
		}}),
	"writes whatever the head": historyMutant("--- FAIL: TestMutant/a_turn_on_a_stale_head_loses_nothing", &broken{
		turn: func(turn *host.Turn) {
			if turn.Head == "1" {
				turn.Head, turn.Results = "", nil
			}
		}}),
	"gives out what it keeps": historyMutant("--- FAIL: TestMutant/what_is_given_and_returned_is_not_shared", &broken{
		get: func(h *hosttest.History, ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
			keptMu.Lock()
			defer keptMu.Unlock()
			key := [2]any{h, req.Thread}
			if kept[key] == nil {
				l, err := h.Get(ctx, req)
				if err != nil {
					return nil, err
				}
				kept[key] = l.Messages
			}
			return &host.Loaded{Messages: kept[key]}, nil
		}}),
	"drops results of tools": historyMutant("--- FAIL: TestMutant/runs_of_a_host_are_kept", &broken{
		loaded: func(l *host.Loaded) {
			l.Messages = slices.DeleteFunc(l.Messages, func(m *host.Message) bool { return m.Role == host.ToolRole })
		}}),
	"answers with another tenant's thread": historyMutant("--- FAIL: TestMutant/runs_of_a_host_are_kept", &broken{
		loaded: func(l *host.Loaded) { l.Tenant = "globex" }}),
	"loses turns that come at once": historyMutant("--- FAIL: TestMutant/many_threads_can_be_written_at_once", &broken{
		turn: func(turn *host.Turn) {
			if m := turn.Messages(); len(m) == 1 && strings.HasPrefix(m[0].ID, "arun-") {
				turn.Results = nil
			}
		}}),
	"never locks": historyMutant("--- FAIL: TestMutant/a_locked_thread_is_waited_for", &broken{unlocked: true}),

	"separates calls from results": processorMutant("calls and results stay together", func(messages []*host.Message) []*host.Message {
		return slices.DeleteFunc(messages, func(m *host.Message) bool { return m.Role == host.ToolRole })
	}),
	"writes into the view": processorMutant("the view is not changed", func(messages []*host.Message) []*host.Message {
		for _, m := range messages {
			m.Agent = "changed"
		}
		return messages
	}),
	"drops the input": processorMutant("the current input may be edited, not dropped", func(messages []*host.Message) []*host.Message {
		return slices.DeleteFunc(messages, func(m *host.Message) bool { return m.Role == host.User })
	}),
	"throws dice": processorMutant("the result is the same each time", func(messages []*host.Message) []*host.Message {
		return append(messages, &host.Message{Role: host.System, Parts: []host.Part{&host.Text{Text: string(rune('a' + rand.IntN(26)))}, &host.Text{Text: host.NewID()}}})
	}),
	"changes the words of a case": {"result (-want +got)", func(t *testing.T) {
		view := []*host.Message{host.UserText("hello")}
		hosttest.TestProcessor(t, host.ProcessorFunc("keep", func(_ context.Context, m []*host.Message) ([]*host.Message, error) { return m, nil }),
			[]hosttest.ProcessorCase{{Name: "case", View: view, Want: []*host.Message{host.UserText("bye")}}})
	}},
}

func processorMutant(rule string, fn func([]*host.Message) []*host.Message) mutant {
	return mutant{rule, func(t *testing.T) {
		hosttest.TestProcessor(t, host.ProcessorFunc("mutant", func(_ context.Context, m []*host.Message) ([]*host.Message, error) {
			return fn(m), nil
		}), nil)
	}}
}

func historyMutant(rule string, b *broken) mutant { return lossyMutant(rule, b, nil) }

// lossyMutant is historyMutant with options.
func lossyMutant(rule string, b *broken, opts *hosttest.HistoryOptions) mutant {
	return mutant{rule, func(t *testing.T) {
		hosttest.TestHistory(t, func(*testing.T) any { return b.fresh() }, opts)
	}}
}

// opener is a history that opens threads by open.
type opener struct {
	*hosttest.History
	open func(*hosttest.History, *host.HistoryRequest) (id string, created bool, err error)
}

func (o *opener) OpenThread(_ context.Context, req *host.HistoryRequest) (host.OpenedThread, error) {
	id, created, err := o.open(o.History, req)
	return host.OpenedThread{Thread: id, Created: created}, err
}

func openerMutant(open func(*hosttest.History, *host.HistoryRequest) (id string, created bool, err error)) mutant {
	return mutant{"--- FAIL: TestMutant/a_thread_opens_with_its_first_message", func(t *testing.T) {
		hosttest.TestHistory(t, func(*testing.T) any { return &opener{hosttest.NewHistory(), open} }, nil)
	}}
}

// fresh returns one of its own, over an empty history.
func (b *broken) fresh() *broken {
	return &broken{
		History: hosttest.NewHistory(), request: b.request, loaded: b.loaded, turn: b.turn, get: b.get,
		round: b.round, head: b.head, created: b.created, unlocked: b.unlocked, refuses: b.refuses, listed: b.listed, artifactsOf: b.artifactsOf}
}

// broken is a history in memory with something wrong.
type broken struct {
	*hosttest.History
	request     func(*host.HistoryRequest)
	loaded      func(*host.Loaded)
	turn        func(*host.Turn)
	get         func(*hosttest.History, context.Context, *host.HistoryRequest) (*host.Loaded, error)
	round       func(*host.Round)
	head        func() string
	created     bool
	unlocked    bool
	refuses     func(error) error // given what AppendResults returns
	listed      func([]host.ArtifactRef) []host.ArtifactRef
	artifactsOf func(*host.HistoryRequest)
}

func (b *broken) ThreadArtifacts(ctx context.Context, req *host.HistoryRequest) ([]host.ArtifactRef, error) {
	req = b.changed(req)
	if b.artifactsOf != nil {
		b.artifactsOf(req)
	}
	refs, err := b.History.ThreadArtifacts(ctx, req)
	if b.listed != nil {
		refs = b.listed(refs)
	}
	return refs, err
}

// kept is what the mutant that shares has given out, by history and thread.
var (
	keptMu sync.Mutex
	kept   = map[[2]any][]*host.Message{}
)

func (b *broken) changed(req *host.HistoryRequest) *host.HistoryRequest {
	c := *req
	if b.request != nil {
		b.request(&c)
	}
	return &c
}

func (b *broken) CreateThread(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
	id, created, err := b.History.CreateThread(ctx, b.changed(req))
	if req.Thread != "" {
		id = req.Thread
	}
	return id, created || b.created, err
}

func (b *broken) AppendUserMessage(ctx context.Context, req *host.HistoryRequest) (string, error) {
	head, err := b.History.AppendUserMessage(ctx, b.changed(req))
	if b.head != nil {
		head = b.head()
	}
	return head, err
}

func (b *broken) AppendRound(ctx context.Context, req *host.HistoryRequest, round *host.Round) (string, error) {
	c := *round
	c.Messages = slices.Clone(c.Messages)
	if b.round != nil {
		b.round(&c)
	}
	return b.History.AppendRound(ctx, b.changed(req), &c)
}

func (b *broken) Get(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	get := b.get
	if get == nil {
		get = (*hosttest.History).Get
	}
	l, err := get(b.History, ctx, b.changed(req))
	if err == nil && b.loaded != nil {
		b.loaded(l)
	}
	return l, err
}

func (b *broken) AppendResults(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	c := *turn
	if b.turn != nil {
		b.turn(&c)
	}
	err := b.History.AppendResults(ctx, b.changed(req), &c)
	if b.refuses != nil {
		err = b.refuses(err)
	}
	return err
}

func (b *broken) LockThread(ctx context.Context, req *host.HistoryRequest) (func(), error) {
	if b.unlocked {
		return func() {}, nil
	}
	return b.History.LockThread(ctx, req)
}
