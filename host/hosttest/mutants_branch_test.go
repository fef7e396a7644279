package hosttest_test

// Scenario: adapters with a fault in branches, which the kit must find.

import (
	"context"
	"maps"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// Mutants of what a history may do beside keeping a conversation.

func init() { maps.Copy(mutants, branchMutants) }

var branchMutants = map[string]mutant{
	"lets those who do not wait in": forgetful("--- FAIL: TestMutant/a_thread_that_does_not_wait_is_refused",
		&forgetfulHistory{lock: func(_ *hosttest.History, _ context.Context, _ *host.HistoryRequest) (func(), error) {
			return func() {}, nil
		}}),
	"keeps the answer": forgetful("--- FAIL: TestMutant/an_answer_is_taken_back,_once",
		&forgetfulHistory{regenerate: func(*hosttest.History, context.Context, *host.HistoryRequest, string) (string, error) {
			return "1", nil
		}}),
	"moves the head of what is taken back already": forgetful("--- FAIL: TestMutant/an_answer_is_taken_back,_once",
		&forgetfulHistory{regenerate: func(h *hosttest.History, ctx context.Context, req *host.HistoryRequest, message string) (string, error) {
			if _, err := h.Regenerate(ctx, req, message); err != nil {
				return "", err
			}
			return host.NewID(), nil
		}}),
	"answers what nobody asked": forgetful("--- FAIL: TestMutant/only_what_can_be_answered_is_answered_again",
		&forgetfulHistory{regenerate: func(h *hosttest.History, ctx context.Context, req *host.HistoryRequest, message string) (string, error) {
			head, err := h.Regenerate(ctx, req, message)
			if host.CodeOf(err) == host.InvalidArgument {
				err = nil
			}
			return head, err
		}}),
	"branches into the thread": forgetful("--- FAIL: TestMutant/a_branch_goes_on_beside_the_thread",
		&forgetfulHistory{get: func(h *hosttest.History, ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
			c := *req
			c.Branch = ""
			return h.Get(ctx, &c)
		}}),
	"branches off the turn that runs": forgetful("--- FAIL: TestMutant/a_branch_begins_before_the_turn_that_runs",
		&forgetfulHistory{branch: func(h *hosttest.History, ctx context.Context, req *host.HistoryRequest, message string) (string, error) {
			if message == "" {
				message = "u3"
			}
			return h.Branch(ctx, req, message)
		}}),
}

func forgetful(rule string, b *forgetfulHistory) mutant {
	return mutant{rule, func(t *testing.T) {
		hosttest.TestHistory(t, func(*testing.T) any {
			c := *b
			c.History = hosttest.NewHistory()
			return &c
		}, nil)
	}}
}

// forgetfulHistory is a history in memory that does something else in one method.
type forgetfulHistory struct {
	*hosttest.History
	lock       func(*hosttest.History, context.Context, *host.HistoryRequest) (func(), error)
	get        func(*hosttest.History, context.Context, *host.HistoryRequest) (*host.Loaded, error)
	regenerate func(*hosttest.History, context.Context, *host.HistoryRequest, string) (string, error)
	branch     func(*hosttest.History, context.Context, *host.HistoryRequest, string) (string, error)
}

func (h *forgetfulHistory) LockThread(ctx context.Context, req *host.HistoryRequest) (func(), error) {
	if h.lock != nil && req.Racing != "" {
		return h.lock(h.History, ctx, req)
	}
	return h.History.LockThread(ctx, req)
}

func (h *forgetfulHistory) Get(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	if h.get != nil {
		return h.get(h.History, ctx, req)
	}
	return h.History.Get(ctx, req)
}

func (h *forgetfulHistory) Regenerate(ctx context.Context, req *host.HistoryRequest, message string) (string, error) {
	if h.regenerate != nil {
		return h.regenerate(h.History, ctx, req, message)
	}
	return h.History.Regenerate(ctx, req, message)
}

func (h *forgetfulHistory) Branch(ctx context.Context, req *host.HistoryRequest, message string) (string, error) {
	if h.branch != nil {
		return h.branch(h.History, ctx, req, message)
	}
	return h.History.Branch(ctx, req, message)
}
