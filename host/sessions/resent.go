package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// Messages that are sent again. A message is the same as one before if its client
// gave it the same id.

// ReadTurn is the store's, for a turn that goes on where that one did. A turn in the
// background is never answered with another: it was acknowledged with a snapshot of
// its own.
func (h *history) ReadTurn(ctx context.Context, req *host.HistoryRequest) (*host.StoredTurn, error) {
	p, _ := ctx.Value(planKey{}).(*plan)
	if p != nil && (p.held || p.fresh) {
		return nil, nil
	}
	stored, err := h.Store.ReadTurn(ctx, req)
	if p == nil || p.snapshot == "" {
		return stored, err
	}
	if host.CodeOf(err) == host.Conflict { // perhaps of what came after the snapshot: storing it will tell
		return nil, nil
	}
	if err != nil || stored == nil {
		return nil, err
	}
	from, err := h.service.wentOnFrom(ctx, req, stored.Run, p.snapshot)
	if err != nil || !from {
		return nil, err
	}
	return stored, nil
}

// wentOnFrom reports whether a turn that answered a message went on from a snapshot,
// itself or by the turns that it tried again.
func (s *Service) wentOnFrom(ctx context.Context, req *host.HistoryRequest, run, snapshot string) (bool, error) {
	for range maxFailures {
		snap, err := s.store.Snapshot(ctx, req.Tenant, req.Thread, run)
		if err != nil {
			return false, err
		}
		if snap.Parent == snapshot {
			return true, nil
		}
		if run = snap.Parent; run == "" {
			return false, nil
		}
		before, err := s.store.Snapshot(ctx, req.Tenant, req.Thread, run)
		if err != nil || before.Status == threads.Completed || before.Input != req.Input.ID {
			return false, err
		}
	}
	return false, nil
}

// acknowledgement is what a client was told of a turn in the background.
type acknowledgement struct {
	run string
	out *Output
}

// acknowledged returns what a turn in the background was acknowledged with whose
// message is sent again: it waits, runs or has completed. It is nil for a message
// that is new, or whose turn left nothing or failed.
func (s *Service) acknowledged(ctx context.Context, t *turn, req *Request) (*acknowledgement, error) {
	if !req.Detach && !req.Detachable || !namesMessage(req) {
		return nil, nil
	}
	runs, _, err := s.order(ctx, t.tenant, t.session)
	if err != nil {
		return nil, err
	}
	return s.sentBefore(ctx, t, req, runs)
}

// namesMessage reports whether a request has a message that its client may have sent
// before: one of an id, in a session.
func namesMessage(req *Request) bool {
	return req.Input != nil && req.Input.ID != "" && (req.Session != "" || req.Snapshot != "")
}

// sentBefore is acknowledged for a session that has these turns in the background.
func (s *Service) sentBefore(ctx context.Context, t *turn, req *Request, runs []string) (*acknowledgement, error) {
	if !namesMessage(req) {
		return nil, nil
	}
	for _, run := range runs {
		p, _, err := s.pending(ctx, t.tenant, run)
		switch {
		case err != nil:
			return nil, err
		case p == nil || p.Input == nil || p.Input.ID != t.input.ID || p.Status != Pending || s.expired(p) || p.At != t.plan.snapshot:
		case !p.Input.SameContent(t.input):
			return nil, host.Errorf(host.Conflict, "session %.100q has a message %q in the background that says something else", t.session, p.Input.ID).
				WithHint("leave the id out for a fresh one")
		default:
			return t.detachedAs(p.Run, p.Parent), nil
		}
	}
	h := &history{Store: s.store, service: s}
	stored, err := h.ReadTurn(t.context(ctx), t.historyRequest())
	if err != nil || stored == nil {
		return nil, err
	}
	snap, err := s.store.Snapshot(ctx, t.tenant, t.session, stored.Run)
	if err != nil {
		return nil, err
	}
	return t.detachedAs(stored.Run, snap.Parent), nil
}

// detachedAs returns what a turn in the background is acknowledged with that is
// another one, sent again.
func (t *turn) detachedAs(run, parent string) *acknowledgement {
	id := snapshotID(t.session, run)
	return &acknowledgement{run, &Output{Session: t.session, Snapshot: id, Turn: id, Parent: snapshotID(t.session, parent), FinishReason: FinishDetached, Replayed: true}}
}

// answerTo returns what a session that its client keeps has as the answer to a
// message, nil if it has none. Such a session has completed turns alone, and one that
// asks something as its last.
func (s *Session) answerTo(input *host.Message) []*host.Message {
	if input == nil || input.ID == "" {
		return nil
	}
	asked := slices.IndexFunc(s.Messages, func(m *host.Message) bool { return m.ID == input.ID })
	if asked < 0 || !s.Messages[asked].SameContent(input) { // the host refuses other content
		return nil
	}
	answer := s.Messages[asked+1:]
	last := true
	if next := slices.IndexFunc(answer, func(m *host.Message) bool { return m.Role == host.User }); next >= 0 {
		answer, last = answer[:next], false
	}
	if len(answer) == 0 || last && s.Waiting != "" || answer[len(answer)-1].Role != host.Assistant || len(answer[len(answer)-1].ToolCalls()) > 0 {
		return nil
	}
	return answer
}

// answeredOr returns the events of an answer that the client's session has, or those
// of a run. The state is the session's present one, and the run's id a fresh one:
// such a session says neither what it was then nor which run it was.
func (t *turn) answeredOr(run iter.Seq2[host.Event, error]) iter.Seq2[host.Event, error] {
	if t.answer == nil {
		return run
	}
	return func(yield func(host.Event, error) bool) {
		custom := t.state.Custom
		if unset(custom) {
			custom = json.RawMessage("{}")
		}
		result := &host.RunResult{Run: t.run, FinishReason: host.FinishStop, State: custom, Replayed: true}
		events := []host.Event{{Data: &host.RunStarted{Tenant: t.tenant, Message: t.input.ID, Replayed: true}},
			{Data: &host.StatePatched{Ops: []host.PatchOp{{Op: "replace", Value: custom}}}}}
		for i, m := range t.answer {
			if n := len(result.Results); n == 0 || m.Agent != "" && m.Agent != result.Results[n-1].Agent {
				result.Results = append(result.Results, &host.Result{ID: fmt.Sprintf("%s/%d", t.run, n), Agent: m.Agent, FinishReason: host.FinishStop, CreatedAt: m.CreatedAt})
				events = append(events, host.Event{Agent: m.Agent, Data: &host.AgentStarted{Result: result.Results[n].ID}})
			}
			r := result.Results[len(result.Results)-1]
			r.Messages = append(r.Messages, m)
			if text := m.Text(); text != "" && m.Role == host.Assistant {
				r.Rounds++
				events = append(events, host.Event{Agent: r.Agent, Data: &host.TextDelta{Text: text}})
			}
			for _, done := range m.ToolResults() {
				events = append(events, host.Event{Agent: r.Agent, Data: &host.ToolFinished{ID: done.ID, Name: done.Name, Content: done.Content, IsError: done.IsError}})
			}
			events = append(events, host.Event{Agent: r.Agent, Data: &host.MessageDone{Message: m}})
			if i == len(t.answer)-1 || t.answer[i+1].Agent != "" && t.answer[i+1].Agent != r.Agent {
				events = append(events, host.Event{Agent: r.Agent, Data: &host.AgentFinished{FinishReason: host.FinishStop, Rounds: r.Rounds}})
			}
		}
		events = append(events, host.Event{Data: &host.RunFinished{FinishReason: host.FinishStop, Result: result}})
		for i, ev := range events {
			ev.Seq, ev.Time, ev.Run, ev.Network = int64(i), time.Now().UTC(), t.run, t.service.Name()
			if !yield(ev, nil) {
				return
			}
		}
	}
}
