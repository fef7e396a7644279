package threads_test

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/search"
)

// What the machine of the property test does to heads.

// shown is what is compared of messages: id and text.
func shown(messages []*host.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.ID+fmt.Sprint(threadtest.Texts([]*host.Message{m})))
	}
	return out
}

func shownBy(messages []modelMessage) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.id+m.text)
	}
	return out
}

// wantWindow is the end of a conversation, at most n of it, that does not begin
// with a result whose call was cut off; if that leaves nothing, all n.
func wantWindow(messages []modelMessage, n int) []string {
	least := max(len(messages)-n, 0)
	from := least
	for from > 0 && from < len(messages) && strings.HasSuffix(messages[from].id, "r") && messages[from-1].id+"r" == messages[from].id {
		from++
	}
	if from == len(messages) {
		from = least
	}
	return shownBy(messages[from:])
}

// together is a message's numbers and those of what goes with it.
func (m modelMoment) together(id string) []int {
	i := slices.Index(m.ids(), id)
	if i < 0 {
		return nil
	}
	out := []int{i}
	for j, msg := range m.messages {
		if msg.id == id+"r" && strings.HasPrefix(id, "p") || msg.id+"r" == id {
			out = append(out, j)
		}
	}
	slices.Sort(out)
	return out
}

// upTo is the first n messages with the turns that ended by then.
func (m modelMoment) upTo(n int) modelMoment {
	if n >= len(m.messages) {
		return m
	}
	dropped := m.messages[n].came
	out := modelMoment{messages: m.messages[:n:n]}
	for _, turn := range m.turns {
		if turn.ended >= dropped {
			break
		}
		out.turns = append(out.turns, turn)
	}
	return out
}

// at draws a moment of a thread, and says what it should be; false if there is no
// such moment.
func (m *machine) at(t *rapid.T, th *modelThread) (threads.At, modelMoment, bool) {
	at := threads.At{}
	moment, ok := modelMoment{}, th != nil
	if ok {
		moment = th.modelMoment
	}
	switch rapid.IntRange(0, 3).Draw(t, "at") {
	case 1:
		at.Snapshot = m.id(t, "snapshot")
		if ok && len(th.turns) > 0 && rapid.Bool().Draw(t, "one that shows") {
			at.Snapshot = rapid.SampledFrom(th.turns).Draw(t, "turn").run
		}
		if ok {
			moment, ok = th.snapshot(at.Snapshot)
		}
	case 2:
		n := rapid.IntRange(1, 5).Draw(t, "branch")
		at.Branch = fmt.Sprintf("b%d", n)
		if ok = ok && n <= len(th.lineage); ok {
			moment = th.lineage[n-1]
		}
	}
	if rapid.Bool().Draw(t, "of the present") && (at == threads.At{}) {
		return at, moment, ok
	}
	if at == (threads.At{}) || rapid.Bool().Draw(t, "message of a moment") {
		at.Message, at.Before = m.anID(t), rapid.Bool().Draw(t, "before")
		with := moment.together(at.Message)
		if ok = ok && with != nil; ok {
			end := with[len(with)-1] + 1
			if at.Before {
				end = with[0]
			}
			moment = moment.upTo(end)
		}
	}
	return at, moment, ok
}

// snapshot is what a snapshot holds, of a run of the thread or one inherited.
func (th *modelThread) snapshot(run string) (modelMoment, bool) {
	if moment, ok := th.runs[run]; ok {
		return moment, true
	}
	for _, turn := range slices.Backward(th.turns) {
		if turn.run == run {
			return th.inherited[turn.ended], true
		}
	}
	return modelMoment{}, false
}

func (m *machine) anID(t *rapid.T) string {
	if rapid.IntRange(0, 4).Draw(t, "of a pair") == 0 {
		return rapid.SampledFrom([]string{"p0", "p0r", "p1", "p1r"}).Draw(t, "pair")
	}
	return m.id(t, "message")
}

// change brings a thread to a moment.
func (m *machine) change(t *rapid.T, req *host.HistoryRequest, th *modelThread, to modelMoment) {
	th.lineage = append(th.lineage, th.modelMoment)
	th.modelMoment = to
	head := m.info(t, req).Head
	if head == th.head {
		t.Fatalf("a change did not move the head")
	}
	th.head = head
	m.tick(th)
}

func (m *machine) edit(t *rapid.T) {
	req, th := m.pick(t)
	old, msg := m.id(t, "old"), threadtest.WithID(m.id(t, "new"), short(t, "text"))
	if old == msg.ID {
		return // it gets a fresh id, which the model could not know
	}
	_, err := m.store.For(req.Tenant).EditMessage(t.Context(), req.Thread, old, msg, nil)
	switch {
	case th == nil || !th.has(old) && !th.has(msg.ID):
		if host.CodeOf(err) != host.NotFound {
			t.Fatalf("EditMessage of what there is not = %v", err)
		}
		return
	case th.has(old) && th.has(msg.ID):
		if host.CodeOf(err) != host.AlreadyExists {
			t.Fatalf("EditMessage to a known id = %v", err)
		}
		return
	case err != nil:
		t.Fatalf("EditMessage = %v", err)
	case !th.has(old):
		return
	}
	to := th.modelMoment
	to.messages = slices.Clone(to.messages)
	i := slices.Index(th.ids(), old)
	m.came++
	to.messages[i] = modelMessage{msg.ID, fmt.Sprint(threadtest.Texts([]*host.Message{msg})), to.messages[i].came}
	m.change(t, req, th, to)
}

func (m *machine) deleteMessage(t *rapid.T) {
	req, th := m.pick(t)
	id := m.anID(t)
	_, err := m.store.For(req.Tenant).DeleteMessage(t.Context(), req.Thread, id, nil)
	if th == nil || !th.has(id) {
		if host.CodeOf(err) != host.NotFound {
			t.Fatalf("DeleteMessage of what there is not = %v", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("DeleteMessage = %v", err)
	}
	to := th.modelMoment
	to.messages = nil
	gone := th.together(id)
	for i, msg := range th.messages {
		if !slices.Contains(gone, i) {
			to.messages = append(to.messages, msg)
		}
	}
	m.change(t, req, th, to)
}

func (m *machine) rewind(t *rapid.T) {
	req, th := m.pick(t)
	at, to, ok := m.at(t, th)
	if (at == threads.At{}) {
		return
	}
	_, err := m.store.For(req.Tenant).Rewind(t.Context(), req.Thread, at, nil)
	if !ok {
		if host.CodeOf(err) != host.NotFound {
			t.Fatalf("Rewind to %+v, which there is not, = %v", at, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("Rewind to %+v = %v", at, err)
	}
	if m.info(t, req).Head == th.head { // it was the present already
		if !slices.Equal(to.messages, th.messages) || len(to.turns) != len(th.turns) {
			t.Fatalf("Rewind to %+v did nothing", at)
		}
		return
	}
	m.change(t, req, th, to)
}

func (m *machine) fork(t *rapid.T) {
	req, th := m.pick(t)
	at, moment, ok := m.at(t, th)
	to := &host.HistoryRequest{Tenant: req.Tenant, Thread: Moment(t)}
	_, err := m.store.For(req.Tenant).Fork(t.Context(), req.Thread, &threads.ForkOptions{ID: to.Thread, At: at})
	want := host.Code("")
	switch {
	case m.model[to.Tenant+"/"+to.Thread] != nil:
		want = host.AlreadyExists
	case !ok:
		want = host.NotFound
	}
	if host.CodeOf(err) != want {
		t.Fatalf("Fork of %q at %+v into %q = %v, want code %q", req.Thread, at, to.Thread, err, want)
	}
	if want != "" {
		return
	}
	forked := m.make(to)
	forked.modelMoment = moment
	forked.inherited = map[int]modelMoment{}
	for _, from := range []map[int]modelMoment{th.inherited, th.byEnd()} {
		for end, moment := range from {
			forked.inherited[end] = moment
		}
	}
	forked.head = m.info(t, to).Head
	m.tick(forked)
	m.last = to
}

// prune keeps the threads of a tenant that were updated last.
func (m *machine) prune(t *rapid.T) {
	tenant := tenant(t)
	keep := rapid.IntRange(1, 3).Draw(t, "keep")
	var names []string
	for name := range m.model {
		if strings.HasPrefix(name, tenant+"/") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return m.model[b].updated - m.model[a].updated })
	going := names[min(keep, len(names)):]
	pruned, err := m.store.For(tenant).Prune(t.Context(), threads.PruneOptions{Keep: keep})
	if err != nil || len(pruned.Threads) != len(going) {
		t.Fatalf("Prune = %+v, %v, want %q to go", pruned, err, going)
	}
	for i, name := range going {
		if pruned.Threads[i].ID != strings.TrimPrefix(name, tenant+"/") {
			t.Fatalf("Prune removed %q, want %q", pruned.Threads[i].ID, name)
		}
		delete(m.model, name)
	}
}

// byEnd is what the thread's own snapshots hold, by when their turns ended.
func (th *modelThread) byEnd() map[int]modelMoment {
	out := map[int]modelMoment{}
	for _, moment := range th.runs {
		out[moment.last().ended] = moment
	}
	return out
}

// read compares a moment of a thread with the model.
func (m *machine) read(t *rapid.T) {
	req, th := m.pick(t)
	at, want, ok := m.at(t, th)
	var got []*host.Message
	for msg, err := range m.store.For(req.Tenant).Messages(t.Context(), req.Thread, at) {
		if err != nil {
			if ok || host.CodeOf(err) != host.NotFound {
				t.Fatalf("Messages at %+v = %v", at, err)
			}
			return
		}
		got = append(got, msg)
	}
	if !ok || !slices.Equal(shown(got), shownBy(want.messages)) {
		t.Fatalf("Messages at %+v = %q, want %q", at, shown(got), shownBy(want.messages))
	}
	show, err := m.store.For(req.Tenant).ShowAt(t.Context(), req.Thread, at, 0)
	if err != nil || string(show.State) != want.last().state || show.Thread.Turns != len(want.turns) || show.Thread.Messages != len(want.messages) {
		t.Fatalf("ShowAt %+v = %+v, %v; want state %q and %d turns", at, show, err, want.last().state, len(want.turns))
	}
}

// checkSearch looks for a word in what a thread shows.
func (m *machine) checkSearch(t *rapid.T, req *host.HistoryRequest, th *modelThread) {
	word := short(t, "word")
	hits, err := search.New(m.store).Messages(t.Context(), req.Tenant, word, &search.Options{Thread: req.Thread, Limit: search.MaxHits})
	if err != nil {
		t.Fatalf("Search = %v", err)
	}
	var got, want []string
	for _, h := range hits {
		got = append(got, h.Message)
	}
	for _, msg := range th.messages {
		if msg.text == "["+word+"]" {
			want = append(want, msg.id)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("Search for %q in %q = %q, want %q", word, req.Thread, got, want)
	}
}

func (m *machine) checkSnapshots(t *rapid.T, want modelMoment, got []threads.Snapshot) {
	if len(got) != len(want.turns) {
		t.Fatalf("%d snapshots, want %d", len(got), len(want.turns))
	}
	for i, snap := range got {
		turn := want.turns[i]
		to := 0
		for _, msg := range want.messages {
			if msg.came <= turn.ended {
				to++
			}
		}
		if snap.ID != turn.run || snap.Turn != i+1 || snap.Status != turn.status || snap.To != to || snap.From > snap.To {
			t.Fatalf("snapshot %d is %+v, want that of %+v, up to %d", i, snap, turn, to)
		}
	}
}

// checkNothingIsLeft deletes every thread: no key stays, whatever referred to
// what.
func (m *machine) checkNothingIsLeft(t *rapid.T) {
	for name := range m.model {
		tenant, id, _ := strings.Cut(name, "/")
		if err := m.store.For(tenant).Delete(t.Context(), id); err != nil {
			t.Fatalf("Delete(%q) = %v", name, err)
		}
	}
	for _, tenant := range []string{"acme", "globex"} {
		if left := threadtest.KeysOf(t, m.driver, tenant); len(left) > 0 {
			t.Fatalf("%d keys of %s are left, among them %s", len(left), tenant, left[0])
		}
	}
}
