package sessions

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// plan says where in its thread a turn begins. [history] carries it out when the
// turn holds the thread; it travels in the run's context.
type plan struct {
	session       string
	snapshot      string // the run to continue from; empty: the session's last completed one
	retry         bool   // the request brings nothing: the last turn is tried again, failed or not
	lastCompleted string // the last completed turn before this one
	held          bool   // a background turn, which holds the thread already
	fresh         bool   // the id of the message is new, so no earlier turn can have answered it
}

type planKey struct{}

// withPlan returns the context of a run whose history follows p.
func withPlan(ctx context.Context, p *plan) context.Context {
	return context.WithValue(ctx, planKey{}, p)
}

// planOf returns the plan of a run, nil if it has none.
func planOf(ctx context.Context) *plan {
	p, _ := ctx.Value(planKey{}).(*plan)
	return p
}

// history is the history adapter of a service's runs: the abilities of the thread
// store, of which it changes five. A turn begins where its plan says, waits for the
// background turns ahead of it, is answered with the stored turn if its message was
// sent before, and stops writing steps when the service is closed.
type history struct {
	host.UserMessageAppender
	host.HistoryLoader
	host.ResultAppender
	host.RoundAppender
	host.HeadReader
	host.ArtifactLister
	host.Regenerator
	host.Brancher
	host.Journal
	host.QuestionKeeper

	threads  *threads.Store
	sessions *storeManaged
	order    *turnOrder
	running  *runningTurns
}

var (
	_ host.ThreadCreator = (*history)(nil)
	_ host.ThreadOpener  = (*history)(nil)
	_ host.ThreadLocker  = (*history)(nil)
	_ host.TurnReader    = (*history)(nil)

	_ host.QuestionKeeper = (*history)(nil) // of the journal
)

func newHistory(store *threads.Store, sessions *storeManaged, order *turnOrder, running *runningTurns) *history {
	return &history{
		UserMessageAppender: store, HistoryLoader: store, ResultAppender: store, RoundAppender: store, HeadReader: store,
		ArtifactLister: store, Regenerator: store, Brancher: store, Journal: store, QuestionKeeper: store,
		threads: store, sessions: sessions, order: order, running: running,
	}
}

// CreateThread moves the thread to where the turn begins, then makes sure that it
// exists. The turn holds the thread, and nothing is stored or loaded yet.
func (h *history) CreateThread(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
	if err := h.followPlan(ctx, req); err != nil {
		return "", false, err
	}
	return h.threads.CreateThread(ctx, req)
}

// OpenThread is CreateThread with the user's message.
func (h *history) OpenThread(ctx context.Context, req *host.HistoryRequest) (host.OpenedThread, error) {
	if err := h.followPlan(ctx, req); err != nil {
		return host.OpenedThread{}, err
	}
	return h.threads.OpenThread(ctx, req)
}

// followPlan moves the thread to where the turn begins, if its plan says so.
func (h *history) followPlan(ctx context.Context, req *host.HistoryRequest) error {
	if p := planOf(ctx); p != nil {
		return h.sessions.moveThread(ctx, req, p)
	}
	return nil
}

// AppendSteps refuses the steps of a background turn once the service is closed: its
// run stays open in the journal, for the next service to continue.
func (h *history) AppendSteps(ctx context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	if h.running.released(ref.Tenant, ref.Run) {
		return host.Errorf(host.Unavailable, "the host is being stopped")
	}
	return h.threads.AppendSteps(ctx, ref, at, steps)
}

// LockThread locks the thread of a session in the order of its turns: see
// [turnOrder]. Code conflict for a turn that does not wait for background turns.
func (h *history) LockThread(ctx context.Context, req *host.HistoryRequest) (unlock func(), err error) {
	p := planOf(ctx)
	switch {
	case req.Branch != "":
		return h.threads.LockThread(ctx, req)
	case p != nil && p.held:
		return func() {}, nil // the goroutine of the background turn unlocks it
	}
	return h.order.lock(ctx, req)
}

// ReadTurn returns the stored turn that answered req.Input, for a turn that
// continues from the same snapshot. A background turn gets none: it was acknowledged
// with a snapshot of its own.
func (h *history) ReadTurn(ctx context.Context, req *host.HistoryRequest) (*host.StoredTurn, error) {
	p := planOf(ctx)
	if p != nil && (p.held || p.fresh) {
		return nil, nil
	}
	stored, err := h.threads.ReadTurn(ctx, req)
	if p == nil || p.snapshot == "" {
		return stored, err
	}
	if host.CodeOf(err) == host.Conflict { // maybe with a message after the snapshot: the append decides
		return nil, nil
	}
	if err != nil || stored == nil {
		return nil, err
	}
	from, err := h.sessions.continuedFrom(ctx, req, stored.Run, p.snapshot)
	if err != nil || !from {
		return nil, err
	}
	return stored, nil
}
