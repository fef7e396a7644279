package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/runevent"
)

// Messages that are sent again. A message is the same as an earlier one if its client
// gave it the same id.

// acknowledgement is the first answer to a request for a background turn.
type acknowledgement struct {
	run string
	out *Output
}

// acknowledged returns the acknowledgement of a background turn whose message is sent
// again, if the turn waits, runs or has completed. It is nil for a message that is new,
// or whose turn failed or left no snapshot.
func (b *background) acknowledged(ctx context.Context, t *turn, req *Request) (*acknowledgement, error) {
	if !namesMessage(req) {
		return nil, nil
	}
	runs, _, err := b.records.order(ctx, t.tenant, t.session)
	if err != nil {
		return nil, err
	}
	return b.sentBefore(ctx, t, req, runs)
}

// namesMessage reports whether a request has a message that its client may have sent
// before: one of an id, in a session.
func namesMessage(req *Request) bool {
	return req.Input != nil && req.Input.ID != "" && (req.Session != "" || req.Snapshot != "")
}

// sentBefore is acknowledged for a session with these background turns.
func (b *background) sentBefore(ctx context.Context, t *turn, req *Request, runs []string) (*acknowledgement, error) {
	if !namesMessage(req) {
		return nil, nil
	}
	for _, run := range runs {
		p, _, err := b.records.readUndamaged(ctx, t.tenant, run)
		switch {
		case err != nil:
			return nil, err
		case p == nil || p.Input == nil || p.Input.ID != t.input.ID || p.Status != Pending || b.records.expired(ctx, p) || p.At != t.plan.snapshot:
		case !p.Input.SameContent(t.input):
			return nil, host.Errorf(host.Conflict, "session %.100q has a message %q in the background that says something else", t.session, p.Input.ID).
				WithHint("leave the id out for a fresh one")
		default:
			return t.detachedAs(p.Run, p.Parent), nil
		}
	}
	stored, err := b.history.ReadTurn(t.context(ctx), t.historyRequest())
	if err != nil || stored == nil {
		return nil, err
	}
	snap, err := b.sessions.threads.For(t.tenant).Snapshot(ctx, t.session, stored.Run)
	if err != nil {
		return nil, err
	}
	return t.detachedAs(stored.Run, snap.Parent), nil
}

// detachedAs returns the acknowledgement of a background turn that was begun for the
// same message.
func (t *turn) detachedAs(run, parent string) *acknowledgement {
	id := SnapshotID(t.session, run)
	return &acknowledgement{run: run, out: &Output{Session: t.session, Snapshot: id, Turn: id, Parent: SnapshotID(t.session, parent), FinishReason: FinishDetached, Replayed: true}}
}

// answerTo returns the messages that answer a message of a client's session, nil if
// the message is not answered there. All turns of such a session are completed; only
// the last one may have questions.
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

// answeredOr returns the events of the answer that the client's session has already,
// or those of run. The state of those events is the session's present one and the id
// of their run a new one: such a session keeps neither the earlier state nor the id.
func (t *turn) answeredOr(run iter.Seq2[host.Event, error]) iter.Seq2[host.Event, error] {
	if t.answer == nil {
		return run
	}
	return func(yield func(host.Event, error) bool) {
		custom := t.clientSession.Custom
		if unset(custom) {
			custom = json.RawMessage("{}")
		}
		result := &host.RunResult{Run: t.run, FinishReason: chat.FinishStop, State: custom, Replayed: true}
		events := []host.Event{{Data: &runevent.RunStarted{Tenant: t.tenant, Message: t.input.ID, Replayed: true}},
			{Data: &runevent.StatePatched{Ops: []host.PatchOp{{Op: "replace", Value: custom}}}}}
		for i, m := range t.answer {
			if n := len(result.Results); n == 0 || m.Agent != "" && m.Agent != result.Results[n-1].Agent {
				result.Results = append(result.Results, &host.Result{ID: fmt.Sprintf("%s/%d", t.run, n), Agent: m.Agent, FinishReason: chat.FinishStop, CreatedAt: m.CreatedAt})
				events = append(events, host.Event{Agent: m.Agent, Data: &runevent.AgentStarted{Result: result.Results[n].ID}})
			}
			r := result.Results[len(result.Results)-1]
			r.Messages = append(r.Messages, m)
			if text := m.Text(); text != "" && m.Role == host.Assistant {
				r.Rounds++
				events = append(events, host.Event{Agent: r.Agent, Data: &runevent.TextDelta{Text: text}})
			}
			for _, done := range m.ToolResults() {
				events = append(events, host.Event{Agent: r.Agent, Data: &runevent.ToolFinished{ID: done.ID, Name: done.Name, Content: done.Content, IsError: done.IsError}})
			}
			events = append(events, host.Event{Agent: r.Agent, Data: &runevent.MessageDone{Message: m}})
			if i == len(t.answer)-1 || t.answer[i+1].Agent != "" && t.answer[i+1].Agent != r.Agent {
				events = append(events, host.Event{Agent: r.Agent, Data: &runevent.AgentFinished{FinishReason: chat.FinishStop, Rounds: r.Rounds}})
			}
		}
		events = append(events, host.Event{Data: &runevent.RunFinished{FinishReason: chat.FinishStop, Result: result}})
		for i, ev := range events {
			ev.Seq, ev.Time, ev.Run, ev.Network = int64(i), time.Now().UTC(), t.run, t.served.name()
			if !yield(ev, nil) {
				return
			}
		}
	}
}
