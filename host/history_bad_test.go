package host_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// oddHistory is a history in memory whose methods may be replaced.
type oddHistory struct {
	*hosttest.History
	create func(ctx context.Context, req *host.HistoryRequest) (string, bool, error)
	user   func(ctx context.Context, req *host.HistoryRequest) (string, error)
	get    func(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error)
	store  func(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error
	lock   func(ctx context.Context, req *host.HistoryRequest) (func(), error)
}

func (h *oddHistory) CreateThread(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
	if h.create != nil {
		return h.create(ctx, req)
	}
	return h.History.CreateThread(ctx, req)
}

func (h *oddHistory) AppendUserMessage(ctx context.Context, req *host.HistoryRequest) (string, error) {
	if h.user != nil {
		return h.user(ctx, req)
	}
	return h.History.AppendUserMessage(ctx, req)
}

func (h *oddHistory) Get(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	if h.get != nil {
		return h.get(ctx, req)
	}
	return h.History.Get(ctx, req)
}

func (h *oddHistory) AppendResults(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	if h.store != nil {
		return h.store(ctx, req, turn)
	}
	return h.History.AppendResults(ctx, req, turn)
}

func (h *oddHistory) LockThread(ctx context.Context, req *host.HistoryRequest) (func(), error) {
	if h.lock != nil {
		return h.lock(ctx, req)
	}
	return h.History.LockThread(ctx, req)
}

// inEach returns an adapter for each method, which does do there before it
// returns what is empty.
func inEach(do func(ctx context.Context) error) map[string]*oddHistory {
	return map[string]*oddHistory{
		"LockThread": {lock: func(ctx context.Context, _ *host.HistoryRequest) (func(), error) { return nil, do(ctx) }},
		"CreateThread": {create: func(ctx context.Context, _ *host.HistoryRequest) (string, bool, error) {
			return "", false, do(ctx)
		}},
		"AppendUserMessage": {user: func(ctx context.Context, _ *host.HistoryRequest) (string, error) { return "", do(ctx) }},
		"Get":               {get: func(ctx context.Context, _ *host.HistoryRequest) (*host.Loaded, error) { return nil, do(ctx) }},
		"AppendResults":     {store: func(ctx context.Context, _ *host.HistoryRequest, _ *host.Turn) error { return do(ctx) }},
	}
}

// runOdd runs an agent over the adapter on a thread of two messages and returns
// how often the model was asked.
func runOdd(t *testing.T, history *oddHistory, limits host.Limits) (*host.RunResult, int, error) {
	t.Helper()
	history.History = hosttest.NewHistory()
	history.Seed("", "T", host.UserText("before"), host.AssistantText("I remember"))
	model := says("done")
	agent := newAgent(t, &host.AgentOptions{Model: model, History: newHistory(t, history)})
	result, err := newHost(t, &host.Options{Limits: limits}).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"})
	return result, len(model.Requests()), err
}

// wantAsked holds a run whose history failed in a method to when the model is
// asked, and to keeping what it answered.
func wantAsked(t *testing.T, method string, result *host.RunResult, asked int) {
	t.Helper()
	want := 0
	if method == "AppendResults" {
		if want = 1; result == nil || result.Text() != "done" {
			t.Errorf("the result is %+v; what was paid for must not be lost", result)
		}
	}
	if asked != want {
		t.Errorf("the model was asked %d times, want %d", asked, want)
	}
}

func TestAHistoryThatReturnsNothing(t *testing.T) {
	for method, history := range inEach(func(context.Context) error { return nil }) {
		t.Run(method, func(t *testing.T) {
			result, _, err := runOdd(t, history, host.Limits{})
			if err != nil || result.Thread != "T" || result.Text() != "done" {
				t.Errorf("Run: %+v, %v; want the answer: nothing is an empty thread, no head and no lock", result, err)
			}
		})
	}
}

func TestAHistoryThatMakesAThreadWithoutAnID(t *testing.T) {
	history := &oddHistory{History: hosttest.NewHistory(), create: func(context.Context, *host.HistoryRequest) (string, bool, error) {
		return "", true, nil
	}}
	agent := newAgent(t, &host.AgentOptions{Model: says("done"), History: newHistory(t, history)})
	_, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi"})
	if host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), "without an id") {
		t.Errorf("Run: %v, want code %s", err, host.Internal)
	}
}

func TestAHistoryThatPanics(t *testing.T) {
	for how, do := range map[string]func(context.Context) error{
		"panic":  func(context.Context) error { panic("secret") },
		"goexit": func(context.Context) error { runtime.Goexit(); return nil },
	} {
		for method, history := range inEach(do) {
			t.Run(method+" "+how, func(t *testing.T) {
				result, asked, err := runOdd(t, history, host.Limits{})
				if host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), method) || strings.Contains(err.Error(), "secret") {
					t.Errorf("Run: %v; want code %s and the method, not its words", err, host.Internal)
				}
				wantAsked(t, method, result, asked)
			})
		}
	}
}

// A history that waits for ever ends with a limit, which is named; one that does
// not heed it is left behind a moment later.
func TestAHistoryThatBlocks(t *testing.T) {
	limits := host.Limits{HistoryTimeout: 3 * time.Second, CommitTimeout: 5 * time.Second, RunTimeout: 20 * time.Second}
	named := map[string]string{"LockThread": "RunTimeout", "AppendResults": "CommitTimeout"}
	after := map[string]time.Duration{"LockThread": limits.RunTimeout, "AppendResults": limits.CommitTimeout}
	for _, heeds := range []bool{true, false} {
		over := make(chan struct{})
		do := func(ctx context.Context) error {
			if heeds {
				<-ctx.Done()
				return ctx.Err()
			}
			<-over
			return nil
		}
		for method, history := range inEach(do) {
			t.Run(method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					over = make(chan struct{})
					began := time.Now()
					result, asked, err := runOdd(t, history, limits)
					limit, within := named[method], after[method]
					if limit == "" {
						limit, within = "HistoryTimeout", limits.HistoryTimeout
					}
					if !heeds {
						within += 2 * time.Second
					}
					if host.CodeOf(err) != host.DeadlineExceeded || !strings.Contains(err.Error(), limit) {
						t.Errorf("heeds %t: Run: %v; want code %s and %s", heeds, err, host.DeadlineExceeded, limit)
					}
					if took := time.Since(began); took != within {
						t.Errorf("heeds %t: the run took %s, want %s", heeds, took, within)
					}
					wantAsked(t, method, result, asked)
					close(over) // what was left behind ends, or the test would hang
				})
			})
		}
	}
}

// A lock that comes when nobody waits for it any more is given back.
func TestALockThatComesTooLateIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, given := make(chan struct{}), false
		history := &oddHistory{lock: func(context.Context, *host.HistoryRequest) (func(), error) {
			<-late
			return func() { given = true }, nil
		}}
		if _, _, err := runOdd(t, history, host.Limits{RunTimeout: time.Second}); host.CodeOf(err) != host.DeadlineExceeded {
			t.Fatalf("Run: %v", err)
		}
		close(late)
		synctest.Wait()
		if !given {
			t.Error("the lock is held for ever")
		}
	})
}

// A cancelled run does not wait for its history, and is told of the cancel.
func TestACancelEndsAHistoryThatBlocks(t *testing.T) {
	for _, method := range []string{"LockThread", "CreateThread", "AppendUserMessage", "Get"} {
		t.Run(method, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			history := inEach(func(ctx context.Context) error {
				cancel()
				<-ctx.Done()
				return errors.New("connection reset")
			})[method]
			history.History = hosttest.NewHistory()
			history.Seed("", "T", host.UserText("before"))
			agent := newAgent(t, &host.AgentOptions{Model: says("done"), History: newHistory(t, history)})
			_, err := newHost(t, nil).Run(ctx, agent, &host.Request{Thread: "T", Text: "hi"})
			if host.CodeOf(err) != host.Canceled || !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v, want code %s", err, host.Canceled)
			}
		})
	}
}

func TestAHistoryThatReturnsWhatItShouldNot(t *testing.T) {
	said := []*host.Message{host.UserText("before"), host.AssistantText("I remember")}
	for name, c := range map[string]struct {
		loaded host.Loaded
		code   host.Code
		says   string
	}{
		"another tenant's thread": {host.Loaded{Messages: said, Tenant: "globex", Thread: "T"}, host.DataLoss, "another conversation"},
		"another thread":          {host.Loaded{Messages: said, Tenant: "acme", Thread: "T2"}, host.DataLoss, "another conversation"},
		"a nil message":           {host.Loaded{Messages: []*host.Message{said[0], nil}}, host.DataLoss, "message 1"},
		"a message of nothing":    {host.Loaded{Messages: []*host.Message{{Role: host.User, Parts: []host.Part{nil}}}}, host.DataLoss, "message 0"},
		"a message of nobody":     {host.Loaded{Messages: []*host.Message{{Role: "boss"}}}, host.DataLoss, "message 0"},
		"state that is a list":    {host.Loaded{Messages: said, State: []byte("[]")}, host.DataLoss, "an array"},
		"state that is not JSON":  {host.Loaded{Messages: said, State: []byte("{")}, host.DataLoss, "state"},
	} {
		t.Run(name, func(t *testing.T) {
			model := says("done")
			history := &oddHistory{History: hosttest.NewHistory(), get: func(context.Context, *host.HistoryRequest) (*host.Loaded, error) { return &c.loaded, nil }}
			history.Seed("acme", "T", said...)
			agent := newAgent(t, &host.AgentOptions{Model: model, History: newHistory(t, history)})
			_, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "T", Text: "hi"})
			if host.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "globex") {
				t.Errorf("Run: %v; want code %s and %q", err, c.code, c.says)
			}
			if n := len(model.Requests()); n != 0 {
				t.Errorf("the model was asked %d times", n)
			}
		})
	}
}

func TestAHistoryThatReturnsDuplicates(t *testing.T) {
	a, b := host.UserText("before"), host.AssistantText("I remember")
	twin := a.Clone()
	model := says("done")
	history := &oddHistory{History: hosttest.NewHistory()}
	history.Seed("", "T", a, b)
	history.get = func(_ context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
		return &host.Loaded{Messages: []*host.Message{a, b, a, twin, req.Input, b, req.Input}}, nil
	}
	agent := newAgent(t, &host.AgentOptions{Model: model, History: newHistory(t, history)})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range model.Requests()[0].Messages {
		texts = append(texts, m.Text())
	}
	if want := []string{"before", "I remember", "hi"}; !slices.Equal(texts, want) {
		t.Errorf("the model is sent %q, want %q", texts, want)
	}
}
