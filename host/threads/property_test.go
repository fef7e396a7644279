package threads_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

// modelThread is what a thread should be.
type modelThread struct {
	ids     []string
	head    string
	state   string
	status  threads.Status
	runs    map[string]bool
	named   map[string]string // artifacts by name
	updated int               // the step that last updated it
}

// machine does the same to a store and to a model of it.
type machine struct {
	driver *kv.Memory
	store  *threads.Store
	window int
	now    time.Time
	step   int
	model  map[string]*modelThread // by tenant/thread
	last   *host.HistoryRequest    // the thread of the last step
}

// Names are few, so that steps meet.
func tenant(t *rapid.T) string {
	return rapid.SampledFrom([]string{"acme", "globex"}).Draw(t, "tenant")
}
func thread(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "ab", "../a"}).Draw(t, "thread")
}
func short(t *rapid.T, what string) string {
	return rapid.StringMatching(`[a-f][0-9]?`).Draw(t, what)
}

func (m *machine) pick(t *rapid.T) (req *host.HistoryRequest, known *modelThread) {
	req = &host.HistoryRequest{Tenant: tenant(t), Thread: thread(t)}
	m.last = req
	return req, m.model[req.Tenant+"/"+req.Thread]
}

func (m *machine) make(req *host.HistoryRequest) *modelThread {
	th := &modelThread{runs: map[string]bool{}, named: map[string]string{}}
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
	req.Input = withID(short(t, "message"), "text")
	head, err := m.store.AppendUserMessage(t.Context(), req)
	if err != nil {
		t.Fatalf("AppendUserMessage = %v", err)
	}
	if th == nil {
		th = m.make(req)
	}
	if slices.Contains(th.ids, req.Input.ID) {
		if head != th.head {
			t.Fatalf("a message that is known moved the head")
		}
		return
	}
	if head == th.head {
		t.Fatalf("a new message did not move the head")
	}
	th.ids, th.head = append(th.ids, req.Input.ID), head
	m.tick(th)
}

func (m *machine) turn(t *rapid.T) {
	req, th := m.pick(t)
	req.Run = short(t, "run")
	turn := m.drawTurn(t, th)
	err := m.store.AppendResults(t.Context(), req, turn)
	switch {
	case th != nil && th.runs[req.Run]:
		if err != nil {
			t.Fatalf("AppendResults of a known run = %v", err)
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
	for _, msg := range turn.Messages() {
		if !slices.Contains(th.ids, msg.ID) {
			th.ids = append(th.ids, msg.ID)
		}
	}
	if turn.State != nil {
		th.state = string(turn.State)
	}
	for _, a := range turn.Artifacts {
		th.named[a.Name] = a.Parts[0].(*host.Text).Text
	}
	th.runs[req.Run] = true
	th.status = threads.Completed
	if turn.Status == host.FinishFailed {
		th.status = threads.Failed
	}
	th.head = m.info(t, req).Head
	m.tick(th)
}

func (m *machine) drawTurn(t *rapid.T, th *modelThread) *host.Turn {
	var messages []*host.Message
	for range rapid.IntRange(0, 4).Draw(t, "messages") {
		messages = append(messages, withID(short(t, "message"), "text"))
	}
	if rapid.IntRange(0, 60).Draw(t, "huge") == 60 {
		for i := range threads.MaxTurnEntries + rapid.IntRange(0, 300).Draw(t, "more") {
			messages = append(messages, withID(fmt.Sprintf("h%d", i), "text"))
		}
	}
	turn := turnOf("", messages...)
	turn.Status = rapid.SampledFrom([]host.FinishReason{host.FinishStop, host.FinishFailed}).Draw(t, "status")
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
	_, err := m.store.Update(t.Context(), req.Tenant, req.Thread, threads.Change{Title: &title})
	if (host.CodeOf(err) == host.NotFound) != (th == nil) {
		t.Fatalf("Update = %v", err)
	}
}

func (m *machine) remove(t *rapid.T) {
	req, th := m.pick(t)
	err := m.store.Delete(t.Context(), req.Tenant, req.Thread)
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
	info, err := m.store.Thread(t.Context(), req.Tenant, req.Thread)
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
				want = append(want, id)
			}
		}
		slices.SortFunc(want, func(a, b string) int { return m.model[tenant+"/"+b].updated - m.model[tenant+"/"+a].updated })
		page, err := m.store.List(t.Context(), tenant, nil)
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
	want := th.ids[max(len(th.ids)-m.window, 0):]
	if got := ids(loaded.Messages); !slices.Equal(got, want) {
		t.Fatalf("thread %q: messages %q, want %q", req.Thread, got, want)
	}
	if loaded.Head != th.head || string(loaded.State) != th.state {
		t.Fatalf("thread %q: head %q and state %s, want %q and %s", req.Thread, loaded.Head, loaded.State, th.head, th.state)
	}
	info := m.info(t, req)
	if info.Messages != len(th.ids) || info.Turns != len(th.runs) || info.Status != th.status {
		t.Fatalf("thread %q: %+v, want %d messages, %d turns, %s", req.Thread, info, len(th.ids), len(th.runs), th.status)
	}
}

func (m *machine) checkExport(t *rapid.T, req *host.HistoryRequest, th *modelThread) {
	var b bytes.Buffer
	if err := m.store.Export(t.Context(), req.Tenant, req.Thread, threads.FormatThread, &b); err != nil {
		t.Fatalf("Export = %v", err)
	}
	var got exported
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("Export is not JSON: %v\n%s", err, b.Bytes())
	}
	if !slices.Equal(ids(got.Messages), append([]string{}, th.ids...)) || len(got.Snapshots) != len(th.runs) || string(got.State) != th.state {
		t.Fatalf("thread %q: exported %q, %d snapshots, state %s", req.Thread, ids(got.Messages), len(got.Snapshots), got.State)
	}
	named := map[string]string{}
	for _, a := range got.Artifacts {
		named[a.Name] = a.Parts[0].(*host.Text).Text
	}
	if diff := cmp.Diff(th.named, named); diff != "" {
		t.Fatalf("thread %q: artifacts (-want +got):\n%s", req.Thread, diff)
	}
}

func TestRandomStepsMatchAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{driver: kv.NewMemory(), model: map[string]*modelThread{}, now: time.Now(),
			window: rapid.SampledFrom([]int{1, 3, 2000}).Draw(t, "window")}
		m.reload(t)
		t.Repeat(map[string]func(*rapid.T){
			"say": m.say, "say again": m.say, "turn": m.turn, "turn again": m.turn,
			"create": m.create, "rename": m.rename, "delete": m.remove, "reload": m.reload,
			"check all": m.checkAll, "": m.check,
		})
		m.checkAll(t)
	})
}
