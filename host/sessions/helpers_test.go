package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdir"
	"github.com/agenthost/agenthost/internal/testdriver"
	"github.com/agenthost/agenthost/internal/testhost"
)

func TestMain(m *testing.M) {
	testdir.InMemory()
	if dir := os.Getenv(killDir); dir != "" {
		if err := killChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv(orderDir); dir != "" {
		if err := orderChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon")) // started by an import of Badger's
}

// newAgent returns an agent with a model and tools.
func newAgent(t testing.TB, name string, model host.Model, tools ...*host.Tool) *host.Agent {
	t.Helper()
	return testhost.NewAgent(t, name, &host.AgentOptions{Instructions: "You are " + name + ".", Model: model, Tools: tools})
}

// newNetwork returns a network of one agent, for a schema of the state.
func newNetwork(t testing.TB, a *host.Agent, opts *host.NetworkOptions) *host.Network {
	t.Helper()
	if opts == nil {
		opts = &host.NetworkOptions{}
	}
	opts.Router = host.InOrder("line", a.Name())
	n, err := host.NewNetwork("desk", []*host.Agent{a}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newService(t testing.TB, target host.Target, opts *sessions.Options) *sessions.Service {
	t.Helper()
	own := sessions.Options{}
	if opts != nil {
		own = *opts
	}
	own.Host.SingleTenant = true
	if own.Host.Limits == (host.Limits{}) { // turns of a busy machine wait for each other longer than by default
		own.Host.Limits = host.Limits{HistoryTimeout: 5 * time.Minute, CommitTimeout: 5 * time.Minute}
	}
	s, err := sessions.New(target, &own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// stored returns a service whose sessions are in memory.
func stored(t testing.TB, target host.Target) *sessions.Service {
	return newService(t, target, &sessions.Options{Store: threads.New(testdriver.New(t), nil)})
}

// managed runs a test for both ways to keep a session. next returns the request
// that goes on from an output, or begins if there is none.
func managed(t *testing.T, target func() host.Target, test func(t *testing.T, s *sessions.Service, next func(*sessions.Output) *sessions.Request)) {
	t.Run("server", func(t *testing.T) {
		test(t, stored(t, target()), func(o *sessions.Output) *sessions.Request {
			if o == nil {
				return &sessions.Request{}
			}
			return &sessions.Request{Session: o.Session}
		})
	})
	t.Run("client", func(t *testing.T) {
		s := newService(t, target(), &sessions.Options{Host: host.Options{Journal: threads.New(testdriver.New(t), nil)}})
		test(t, s, func(o *sessions.Output) *sessions.Request {
			if o == nil {
				return &sessions.Request{}
			}
			raw, err := json.Marshal(o.State) // as it comes over a wire
			if err != nil {
				t.Fatal(err)
			}
			state := &sessions.Session{}
			if err := json.Unmarshal(raw, state); err != nil {
				t.Fatal(err)
			}
			return &sessions.Request{State: state}
		})
	})
}

func run(t testing.TB, s *sessions.Service, req *sessions.Request) *sessions.Output {
	t.Helper()
	out, err := s.Run(t.Context(), req)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return out
}

// say returns req with a text.
func say(req *sessions.Request, text string) *sessions.Request {
	req.Text = text
	return req
}

// count is a tool that counts its calls in the custom state.
func count(t testing.TB) *host.Tool {
	return tool(t, "count", func(_ context.Context, call *host.Call) (string, error) {
		return "counted", host.UpdateState(call.State, func(s *struct{ N int }) error { s.N++; return nil })
	})
}

func tool(t testing.TB, name string, fn func(context.Context, *host.Call) (string, error)) *host.Tool {
	t.Helper()
	tool, err := host.NewRawTool(llm.ToolSpec{Name: name, Description: name}, func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
		text, err := fn(ctx, call)
		if err != nil {
			return nil, err
		}
		return &host.ToolOutput{Content: chat.AppendJSONString(nil, text)}, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// texts returns messages as role and text.
func texts(messages []*host.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, string(m.Role)+": "+m.Text())
	}
	return out
}

// snapshot reads a snapshot.
func snapshot(t testing.TB, s *sessions.Service, id string) *sessions.Snapshot {
	t.Helper()
	snap, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Snapshot: id})
	if err != nil {
		t.Fatalf("Snapshot(%s): %v", id, err)
	}
	return snap
}

// dying is a driver of a process that may be killed: then nothing it writes
// arrives any more.
type dying struct {
	kv.Driver
	dead atomic.Bool
}

func (d *dying) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if !d.dead.Load() {
		return d.Driver.Commit(ctx, txs...)
	}
	out := make([]kv.Result, len(txs))
	for i := range out {
		out[i].Err = kv.ErrClosed
	}
	return out
}

// rawTool is tool for those that return more than a text.
func rawTool(t testing.TB, name string, fn func(context.Context, *host.Call) (*host.ToolOutput, error)) *host.Tool {
	t.Helper()
	tool, err := host.NewRawTool(llm.ToolSpec{Name: name, Description: name}, fn, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}
