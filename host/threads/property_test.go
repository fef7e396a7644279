package threads_test

// Scenario: random steps change threads of a store and of a simple model; both show the
// same after each step.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// modelThread is what a thread should be.
type modelThread struct {
	modelMoment
	head    string
	runs    map[string]modelMoment // what a snapshot holds, by run
	said    map[string][]string    // ids of the messages that a run's turn brought
	lineage []modelMoment
	// inherited is what the snapshots of turns hold that came with a fork, by
	// when they ended.
	inherited map[int]modelMoment
	updated   int // the step that last updated it
}

// modelMoment is what a thread shows at a moment. Its slices and maps are not
// changed once it is one.
type modelMoment struct {
	messages []modelMessage
	turns    []modelTurn
}

// modelMessage is a message, and when it, or what it took the place of, came.
type modelMessage struct {
	id, text string
	came     int
}

type modelTurn struct {
	run    string
	ended  int
	status threads.Status
	state  string            // after the turn
	named  map[string]string // artifacts after the turn, by name
}

func (m modelMoment) ids() []string {
	out := []string{}
	for _, msg := range m.messages {
		out = append(out, msg.id)
	}
	return out
}

// last is the last turn, or one that left nothing.
func (m modelMoment) last() modelTurn {
	if len(m.turns) == 0 {
		return modelTurn{named: map[string]string{}}
	}
	return m.turns[len(m.turns)-1]
}

func (m modelMoment) has(id string) bool { return slices.Contains(m.ids(), id) }

// add returns the moment with messages that it does not have.
func (m *machine) add(moment modelMoment, messages ...*host.Message) modelMoment {
	moment.messages = slices.Clone(moment.messages)
	for _, msg := range messages {
		if !moment.has(msg.ID) {
			m.came++
			moment.messages = append(moment.messages, modelMessage{msg.ID, fmt.Sprint(threadtest.Texts([]*host.Message{msg})), m.came})
		}
	}
	return moment
}

// machine does the same to a store and to a model of it.
type machine struct {
	driver  *kv.Memory
	store   *threads.Store
	window  int
	ordered bool
	now     time.Time
	step    int
	came    int                     // messages so far
	model   map[string]*modelThread // by tenant/thread
	last    *host.HistoryRequest    // the thread of the last step
}

// Names are few, so that steps meet.
func tenant(t *rapid.T) string {
	return rapid.SampledFrom([]string{"acme", "acme", "acme", "acme", "globex"}).Draw(t, "tenant")
}
func Moment(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "ab", "../a"}).Draw(t, "thread")
}
func short(t *rapid.T, what string) string {
	return rapid.StringMatching(`[a-d][0-1]?`).Draw(t, what)
}

// id draws the id of a message or a run, one of few. Half of the machines have ids like
// this program's, which are indexed in groups where they come in their order.
func (m *machine) id(t *rapid.T, what string) string {
	id := short(t, what)
	if !m.ordered {
		return id
	}
	return fmt.Sprintf("01a22050-0a40-7000-8000-%012x", id)
}

func (m *machine) pick(t *rapid.T) (req *host.HistoryRequest, known *modelThread) {
	req = &host.HistoryRequest{Tenant: tenant(t), Thread: Moment(t)}
	m.last = req
	return req, m.model[req.Tenant+"/"+req.Thread]
}

func (m *machine) make(req *host.HistoryRequest) *modelThread {
	th := &modelThread{runs: map[string]modelMoment{}, said: map[string][]string{}}
	m.model[req.Tenant+"/"+req.Thread] = th
	return th
}

// tick gives every change a time of its own.
func (m *machine) tick(th *modelThread) {
	m.step++
	th.updated = m.step
}

func (m *machine) say(t *rapid.T) {
	req, th := m.pick(t)
	req.Input, req.Run = threadtest.WithID(m.id(t, "message"), short(t, "text")), m.id(t, "run")
	head, err := m.store.AppendUserMessage(t.Context(), req)
	if th != nil && th.has(req.Input.ID) && th.messages[slices.Index(th.ids(), req.Input.ID)].text != fmt.Sprint(threadtest.Texts([]*host.Message{req.Input})) {
		if host.CodeOf(err) != host.Conflict {
			t.Fatalf("AppendUserMessage with the id of another = %v", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("AppendUserMessage = %v", err)
	}
	if th == nil {
		th = m.make(req)
	}
	if th.has(req.Input.ID) {
		if head != th.head {
			t.Fatalf("a message that is known moved the head")
		}
		return
	}
	if head == th.head {
		t.Fatalf("a new message did not move the head")
	}
	th.modelMoment, th.head = m.add(th.modelMoment, req.Input), head
	m.tick(th)
}

func (m *machine) turn(t *rapid.T) {
	req, th := m.pick(t)
	req.Run = m.id(t, "run")
	turn := m.drawTurn(t, th)
	err := m.store.AppendResults(t.Context(), req, turn)
	switch {
	case th != nil && th.ran(req.Run):
		want := host.AlreadyExists
		if slices.Equal(th.said[req.Run], threadtest.IDs(turn.Messages())) {
			want = ""
		}
		if host.CodeOf(err) != want {
			t.Fatalf("AppendResults of a known run = %v, want code %q", err, want)
		}
		return
	case turn.Head != "" && (th == nil || turn.Head != th.head):
		if host.CodeOf(err) != host.Conflict {
			t.Fatalf("AppendResults at another head = %v", err)
		}
		return
	case err != nil:
		t.Fatalf("AppendResults = %v", err)
	}
	if th == nil {
		th = m.make(req)
	}
	th.turn(m, req.Run, turn)
	th.head = m.info(t, req).Head
	m.tick(th)
}

func (th *modelThread) ran(run string) bool { _, ok := th.runs[run]; return ok }

func (th *modelThread) turn(m *machine, run string, turn *host.Turn) {
	before := th.last()
	th.modelMoment = m.add(th.modelMoment, turn.Messages()...)
	m.came++
	now := modelTurn{run: run, ended: m.came, status: threads.Completed, state: before.state, named: maps.Clone(before.named)}
	if turn.State != nil {
		now.state = string(turn.State)
	}
	for _, a := range turn.Artifacts {
		now.named[a.Name] = a.Parts[0].(*host.Text).Text
	}
	if turn.Status == chat.FinishFailed {
		now.status = threads.Failed
	}
	th.turns = append(slices.Clone(th.turns), now)
	th.runs[run], th.said[run] = th.modelMoment, threadtest.IDs(turn.Messages())
}

func (m *machine) drawTurn(t *rapid.T, th *modelThread) *host.Turn {
	var messages []*host.Message
	for range rapid.IntRange(0, 4).Draw(t, "messages") {
		messages = append(messages, threadtest.WithID(m.id(t, "message"), short(t, "text")))
	}
	if pair := rapid.IntRange(0, 4).Draw(t, "pair"); pair < 2 {
		asks, answers := threadtest.Calls(fmt.Sprintf("p%d", pair), fmt.Sprint(pair)), threadtest.Result(fmt.Sprint(pair))
		answers.ID = asks.ID + "r"
		messages = append(messages, asks, answers)
	}
	if rapid.IntRange(0, 60).Draw(t, "huge") == 60 {
		for i := range threads.MaxTurnEntries + rapid.IntRange(0, 300).Draw(t, "more") {
			messages = append(messages, threadtest.WithID(fmt.Sprintf("h%d", i), "text"))
		}
	}
	turn := threadtest.TurnOf("", messages...)
	turn.Status = rapid.SampledFrom([]host.FinishReason{chat.FinishStop, chat.FinishFailed}).Draw(t, "status")
	switch rapid.IntRange(0, 3).Draw(t, "head") {
	case 0:
		turn.Head = "elsewhere"
	case 1, 2:
		if th != nil {
			turn.Head = th.head
		}
	}
	if rapid.Bool().Draw(t, "has state") {
		turn.State = fmt.Appendf(nil, `{"n":%d}`, rapid.IntRange(0, 3).Draw(t, "state"))
	}
	if rapid.Bool().Draw(t, "has artifact") {
		turn.Artifacts = []host.Artifact{{
			Name:  rapid.SampledFrom([]string{"x", "y"}).Draw(t, "artifact"),
			Parts: []host.Part{&host.Text{Text: short(t, "content")}},
		}}
	}
	return turn
}

func (m *machine) create(t *rapid.T) {
	req, th := m.pick(t)
	id, created, err := m.store.CreateThread(t.Context(), req)
	if err != nil || id != req.Thread || created != (th == nil) {
		t.Fatalf("CreateThread = %q, %v, %v", id, created, err)
	}
	if th == nil {
		th = m.make(req)
		th.head = m.info(t, req).Head
		m.tick(th)
	}
}

func (m *machine) rename(t *rapid.T) {
	req, th := m.pick(t)
	title := short(t, "title")
	_, err := m.store.For(req.Tenant).Update(t.Context(), req.Thread, threads.Change{Title: &title})
	if (host.CodeOf(err) == host.NotFound) != (th == nil) {
		t.Fatalf("Update = %v", err)
	}
}

func (m *machine) remove(t *rapid.T) {
	req, th := m.pick(t)
	err := m.store.For(req.Tenant).Delete(t.Context(), req.Thread)
	if (host.CodeOf(err) == host.NotFound) != (th == nil) {
		t.Fatalf("Delete = %v", err)
	}
	delete(m.model, req.Tenant+"/"+req.Thread)
}

func (m *machine) reload(*rapid.T) {
	m.store = threads.New(m.driver, &threads.Options{Window: m.window})
	m.store.SetNow(func() time.Time { return m.now.Add(time.Duration(m.step) * time.Second) })
}

func (m *machine) info(t *rapid.T, req *host.HistoryRequest) *threads.Thread {
	info, err := m.store.For(req.Tenant).Thread(t.Context(), req.Thread)
	if err != nil {
		t.Fatalf("Thread = %v", err)
	}
	return info
}

// check compares the thread of the last step with its model.
func (m *machine) check(t *rapid.T) {
	if m.last != nil {
		m.checkThread(t, m.last, m.model[m.last.Tenant+"/"+m.last.Thread])
	}
}

// checkAll compares every thread and both lists with the model.
func (m *machine) checkAll(t *rapid.T) {
	for _, tenant := range []string{"acme", "globex"} {
		var want []string
		for _, id := range []string{"a", "ab", "../a"} {
			th := m.model[tenant+"/"+id]
			req := &host.HistoryRequest{Tenant: tenant, Thread: id}
			m.checkThread(t, req, th)
			if th != nil {
				m.checkExport(t, req, th)
				m.checkSearch(t, req, th)
				want = append(want, id)
			}
		}
		slices.SortFunc(want, func(a, b string) int { return m.model[tenant+"/"+b].updated - m.model[tenant+"/"+a].updated })
		page, err := m.store.For(tenant).List(t.Context(), nil)
		if err != nil {
			t.Fatalf("List = %v", err)
		}
		var got []string
		for _, info := range page.Threads {
			got = append(got, info.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("List of %s = %q, want %q", tenant, got, want)
		}
	}
}

func (m *machine) checkThread(t *rapid.T, req *host.HistoryRequest, th *modelThread) {
	loaded, err := m.store.Get(t.Context(), req)
	if err != nil {
		t.Fatalf("Get = %v", err)
	}
	if th == nil {
		if len(loaded.Messages) > 0 || loaded.Head != "" {
			t.Fatalf("unknown thread has %+v", loaded)
		}
		return
	}
	want := wantWindow(th.messages, m.window)
	if got := shown(loaded.Messages); !slices.Equal(got, want) {
		t.Fatalf("thread %q: messages %q, want %q", req.Thread, got, want)
	}
	last := th.last()
	if loaded.Head != th.head || string(loaded.State) != last.state {
		t.Fatalf("thread %q: head %q and state %s, want %q and %s", req.Thread, loaded.Head, loaded.State, th.head, last.state)
	}
	info := m.info(t, req)
	if info.Messages != len(th.messages) || info.Turns != len(th.turns) || info.Status != last.status {
		t.Fatalf("thread %q: %+v, want %d messages, %d turns, %s", req.Thread, info, len(th.messages), len(th.turns), last.status)
	}
}

func (m *machine) checkExport(t *rapid.T, req *host.HistoryRequest, th *modelThread) {
	var b bytes.Buffer
	if err := transfer.Export(t.Context(), m.store.For(req.Tenant), req.Thread, transfer.FormatThread, &b); err != nil {
		t.Fatalf("Export = %v", err)
	}
	var got struct {
		Messages  []*host.Message
		Snapshots []threads.Snapshot
		State     json.RawMessage
		Artifacts []*host.Artifact
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("Export is not JSON: %v\n%s", err, b.Bytes())
	}
	if !slices.Equal(threadtest.IDs(got.Messages), th.ids()) || string(got.State) != th.last().state {
		t.Fatalf("thread %q: exported %q, state %s", req.Thread, threadtest.IDs(got.Messages), got.State)
	}
	m.checkSnapshots(t, th.modelMoment, got.Snapshots)
	named := map[string]string{}
	for _, a := range got.Artifacts {
		named[a.Name] = a.Parts[0].(*host.Text).Text
	}
	if diff := cmp.Diff(th.last().named, named); diff != "" {
		t.Fatalf("thread %q: artifacts (-want +got):\n%s", req.Thread, diff)
	}
}

func TestRandomStepsMatchAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{driver: kv.NewMemory(), model: map[string]*modelThread{}, now: time.Now(),
			window: rapid.SampledFrom([]int{1, 3, 2000}).Draw(t, "window"), ordered: rapid.Bool().Draw(t, "ordered")}
		m.reload(t)
		t.Repeat(map[string]func(*rapid.T){
			"say": m.say, "say again": m.say, "turn": m.turn, "turn again": m.turn,
			"create": m.create, "rename": m.rename, "delete": m.remove, "reload": m.reload,
			"edit": m.edit, "delete message": m.deleteMessage, "rewind": m.rewind, "fork": m.fork, "read": m.read, "prune": m.prune,
			"check all": m.checkAll, "": m.check,
		})
		m.checkAll(t)
		m.checkNothingIsLeft(t)
	})
}
