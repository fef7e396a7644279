package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// Decision 45: what a tool changes and makes is on the stream when it does so.

// untilSeen bounds how long a tool of these tests waits for its reader.
const untilSeen = time.Minute

// reader reads a run as a client does that applies its patches.
type reader struct {
	t     *testing.T
	state *host.State
	lines []string      // what was told, in order
	seen  chan struct{} // is closed when the line to wait for has been told
	want  string
}

func newReader(t *testing.T, want string) *reader {
	return &reader{t: t, state: newState(t, `{}`), seen: make(chan struct{}), want: want}
}

// wait is for tools: it returns when the reader has the line that it waits for.
func (r *reader) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, untilSeen)
	defer cancel()
	select {
	case <-r.seen:
		return nil
	case <-ctx.Done():
		return errors.New("the reader was told nothing while the tool ran")
	}
}

func (r *reader) tell(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if line == r.want && !slices.Contains(r.lines, line) {
		close(r.seen)
	}
	r.lines = append(r.lines, line)
}

// run reads a run to its end, whose state must be the reader's.
func (r *reader) run(agent *host.Agent, state string) *host.RunResult {
	r.t.Helper()
	var result *host.RunResult
	for ev, err := range newHost(r.t, nil).Stream(r.t.Context(), agent, &host.Request{Text: "go", State: json.RawMessage(state)}) {
		if err != nil {
			r.t.Fatal(err)
		}
		switch d := ev.Data.(type) {
		case *runevent.StatePatched:
			if err := r.state.Patch(d.Ops); err != nil {
				r.t.Fatalf("event %d does not apply: %v", ev.Seq, err)
			}
			if len(r.lines) > 0 || string(r.state.JSON()) != state {
				r.tell("state %s", r.state.JSON())
			}
		case *runevent.ArtifactMade:
			r.tell("artifact %s", d.Artifact.Name)
		case *runevent.ToolProgress:
			r.tell("progress %s", d.Kind)
		case *runevent.ToolFinished:
			r.tell("%s finished", d.Name)
		case *runevent.RunFinished:
			result = d.Result
		}
	}
	if got := string(r.state.JSON()); got != string(result.State) {
		r.t.Errorf("the events lead to the state %s, want %s", got, result.State)
	}
	return result
}

func (r *reader) wantLines(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.lines); diff != "" {
		r.t.Errorf("the reader was told (-want +got):\n%s", diff)
	}
}

func setStatus(call *host.Call, status string) error { return call.State.Set("/status", status) }

func worker(name string, fn func(ctx context.Context, call *host.Call) error, opts *host.ToolOptions) *host.Tool {
	return host.NewTool(name, "Works.", func(ctx context.Context, call *host.Call, _ struct{}) (struct{}, error) {
		return struct{}{}, fn(ctx, call)
	}, opts)
}

func callsOf(tools ...string) hosttest.Reply {
	r := hosttest.Say("")
	for _, name := range tools {
		r = r.Call(name, "{}")
	}
	return r
}

func TestEachChangeOfAToolIsToldWhenItIsMade(t *testing.T) {
	r := newReader(t, `state {"status":"done"}`)
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(callsOf("search"), hosttest.Say("done")), Tools: []*host.Tool{
		worker("search", func(ctx context.Context, call *host.Call) error {
			if err := errors.Join(setStatus(call, "searching"), call.Emit("page", 1), setStatus(call, "writing"), setStatus(call, "done")); err != nil {
				return err
			}
			return r.wait(ctx)
		}, nil)}})
	if result := r.run(agent, `{"status":""}`); result.Results[0].ToolResults()[0].IsError {
		t.Errorf("the tool failed: %s", result.Results[0].ToolResults()[0].Content)
	}
	r.wantLines(`state {"status":"searching"}`, "progress page", `state {"status":"writing"}`, `state {"status":"done"}`, "search finished")
}

func TestEachArtifactOfAToolIsToldWhenItIsMade(t *testing.T) {
	r := newReader(t, "artifact plan")
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(callsOf("write"), hosttest.Say("done")), Tools: []*host.Tool{
		worker("write", func(ctx context.Context, call *host.Call) error {
			return errors.Join(call.AddArtifact(host.Artifact{Name: "plan"}), r.wait(ctx)) // until the reader has it
		}, nil)}})
	result := r.run(agent, `{}`)
	r.wantLines("artifact plan", "write finished")
	if len(result.Artifacts) != 1 {
		t.Errorf("the run made %d artifacts, want 1", len(result.Artifacts))
	}
}

// A result's patch and artifacts are told before the call is.
func TestWhatAResultBringsIsToldBeforeItsEnd(t *testing.T) {
	r := newReader(t, "returns finished")
	returns, err := host.NewRawTool(llm.ToolSpec{Name: "returns", Description: "Returns."}, func(context.Context, *host.Call) (*host.ToolOutput, error) {
		return &host.ToolOutput{State: []host.PatchOp{{Op: "add", Path: "/n", Value: json.RawMessage(`1`)}}, Artifacts: []host.Artifact{{Name: "plan"}}}, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(callsOf("returns", "wait"), hosttest.Say("done")),
		Tools: []*host.Tool{returns, worker("wait", func(ctx context.Context, _ *host.Call) error { return r.wait(ctx) }, nil)}})
	r.run(agent, `{}`)
	r.wantLines(`state {"n":1}`, "artifact plan", "returns finished", "wait finished")
}

// What happens in an agent used as a tool is the run's, at once as well.
func TestChangesInAnAgentUsedAsAToolAreToldAtOnce(t *testing.T) {
	r := newReader(t, "artifact plan")
	inner := newAgent(t, &host.AgentOptions{Description: "Plans.", Model: hosttest.NewModel(callsOf("plan"), hosttest.Say("planned")), Tools: []*host.Tool{
		worker("plan", func(ctx context.Context, call *host.Call) error {
			if err := errors.Join(setStatus(call, "planning"), call.AddArtifact(host.Artifact{Name: "plan"})); err != nil {
				return err
			}
			return r.wait(ctx)
		}, nil)}})
	planner, err := host.NewAgentTool(inner, &host.AgentToolOptions{Name: "planner"})
	if err != nil {
		t.Fatal(err)
	}
	result := r.run(newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("planner", `{"request":"x"}`), hosttest.Say("done")), Tools: []*host.Tool{planner}}), `{}`)
	r.lines = slices.DeleteFunc(r.lines, func(line string) bool { return strings.HasPrefix(line, "progress") })
	r.wantLines(`state {"status":"planning"}`, "artifact plan", "planner finished")
	if len(result.Artifacts) != 1 || result.Text() != "done" {
		t.Errorf("the run made %d artifacts and said %q", len(result.Artifacts), result.Text())
	}
}

func TestChangesOfAToolThatFailsAreTakenBack(t *testing.T) {
	const before = `{"kept":{"a":1},"list":["x"],"status":"idle"}`
	change := func(ctx context.Context, call *host.Call) error {
		err := errors.Join(
			setStatus(call, "searching"), setStatus(call, "writing"),
			call.State.Patch([]host.PatchOp{
				{Op: "add", Path: "/list/-", Value: json.RawMessage(`"y"`)}, {Op: "add", Path: "/list/0", Value: json.RawMessage(`"w"`)},
				{Op: "add", Path: "/made", Value: json.RawMessage(`{"b":[]}`)}, {Op: "add", Path: "/made/b/-", Value: json.RawMessage(`2`)},
				{Op: "move", From: "/kept", Path: "/made/moved"}, {Op: "remove", Path: "/list/1"},
			}),
			host.UpdateState(call.State, func(s *struct {
				Status string `json:"status"`
			}) error {
				s.Status = "done"
				return nil
			}))
		return err
	}
	for name, tools := range map[string]*host.Tool{
		"by its error": worker("work", func(ctx context.Context, call *host.Call) error {
			return errors.Join(change(ctx, call), host.Errorf(host.Unavailable, "broke off"))
		}, nil),
		"by a panic": worker("work", func(ctx context.Context, call *host.Call) error {
			_ = change(ctx, call)
			panic("broke off")
		}, nil),
		"by its time": worker("work", func(ctx context.Context, call *host.Call) error {
			_ = change(ctx, call)
			<-ctx.Done()
			return ctx.Err()
		}, &host.ToolOptions{Timeout: time.Millisecond}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReader(t, `state {"kept":{"a":1},"list":["x"],"status":"searching"}`)
				result := r.run(newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(callsOf("work"), hosttest.Say("done")), Tools: []*host.Tool{tools}}), before)
				if got := string(result.State); got != before {
					t.Errorf("the state is %s, want %s", got, before)
				}
				select {
				case <-r.seen:
				default:
					t.Errorf("the reader was told %q, and not of the tool's first change", r.lines)
				}
				if n := len(r.lines); r.lines[n-1] != "work finished" || r.lines[n-2] != "state "+before {
					t.Errorf("the reader was told last %q, want that the changes are taken back", r.lines[n-2:])
				}
			})
		})
	}
}

// Other calls keep what they changed, also where the failing one was before them.
func TestTakingBackLeavesOtherCallsAlone(t *testing.T) {
	failing, working := make(chan struct{}), make(chan struct{})
	appended := func(call *host.Call, s string) error {
		return call.State.Patch([]host.PatchOp{{Op: "add", Path: "/list/-", Value: json.RawMessage(`"` + s + `"`)}})
	}
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(callsOf("fail", "work"), hosttest.Say("done")), Tools: []*host.Tool{
		worker("fail", func(_ context.Context, call *host.Call) error {
			err := errors.Join(appended(call, "mine"), call.State.Set("/both", "fail"), call.State.Set("/own", 1))
			close(failing)
			<-working
			return errors.Join(err, call.State.Set("/later", "fail"), errors.New("it breaks"))
		}, nil),
		worker("work", func(_ context.Context, call *host.Call) error {
			<-failing
			defer close(working)
			return errors.Join(appended(call, "other"), call.State.Set("/both", "work"), call.State.Set("/later", "work"))
		}, nil)}})
	r := newReader(t, "")
	result := r.run(agent, `{"both":"","later":"","list":["x"]}`)
	if got, want := string(result.State), `{"both":"work","later":"work","list":["x","other"]}`; got != want {
		t.Errorf("the state is %s, want %s", got, want)
	}
}

// An attempt that fails leaves nothing to the next: not on the stream either.
func TestAttemptsOfAToolLeaveNothingToTheNext(t *testing.T) {
	r := newReader(t, "")
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(callsOf("work"), hosttest.Say("done")), Tools: []*host.Tool{
		worker("work", func(_ context.Context, call *host.Call) error {
			err := errors.Join(call.State.Patch([]host.PatchOp{{Op: "add", Path: "/list/-", Value: json.RawMessage(fmt.Sprint(call.Attempt))}}),
				call.AddArtifact(host.Artifact{Name: fmt.Sprintf("plan %d", call.Attempt)}))
			if call.Attempt == 1 {
				err = errors.Join(err, host.Errorf(host.Unavailable, "not now"))
				return fault.AsError(host.Errorf(host.Unavailable, "not now: %v", err))
			}
			return err
		}, &host.ToolOptions{Retries: 2})}})
	result := r.run(agent, `{"list":[]}`)
	r.wantLines(`state {"list":[1]}`, `state {"list":[]}`, `state {"list":[2]}`, "artifact plan 2", "work finished")
	if len(result.Artifacts) != 1 {
		t.Errorf("the run made %d artifacts, want 1", len(result.Artifacts))
	}
}

// A tool that changes more than is kept of one call is taken back as a whole.
func TestTakingBackHasBounds(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(callsOf("work"), hosttest.Say("done")), Tools: []*host.Tool{
		worker("work", func(_ context.Context, call *host.Call) error {
			for i := range 60 {
				if err := call.State.Set("/n", large+fmt.Sprint(i)); err != nil {
					return err
				}
			}
			return errors.New("it breaks")
		}, nil)}})
	if result := newReader(t, "").run(agent, `{"n":0}`); string(result.State) != `{"n":0}` {
		t.Errorf("the state has %d bytes, want what was there before", len(result.State))
	}
}

// A hook behind a tool may count its failures in the state: that is not taken back with
// what the tool has changed.
func TestWhatHooksChangeStaysWhenTheirCallFails(t *testing.T) {
	tool := host.NewTool("fail", "Fails.", func(_ context.Context, c *host.Call, _ struct{}) (string, error) {
		return "", errors.Join(c.State.Set("/done", true), errors.New("it rains"))
	}, nil)
	count := func(s *host.State, path string) error {
		var n int
		if _, err := s.Get(path, &n); err != nil {
			return err
		}
		return s.Set(path, n+1)
	}
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{tool}, Model: hosttest.NewModel(hosttest.Call("fail", `{}`), hosttest.Call("fail", `{}`), hosttest.Say("done")),
		Hooks: host.Hooks{
			ToolStart: func(_ context.Context, at *host.ToolStartHook) error { return count(at.State, "/begun") },
			ToolEnd:   func(_ context.Context, at *host.ToolEndHook) error { return count(at.State, "/failed") },
		}})
	r, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi"})
	if err != nil || string(r.State) != `{"begun":2,"failed":2}` {
		t.Errorf("the state is %s: %v", r.State, err)
	}
}

// What a hook has changed is its call's own: a patch that the tool returns for the same
// place is no conflict.
func TestWhatHooksChangeIsTheirCallsOwn(t *testing.T) {
	tool := host.NewTool("set", "Sets.", func(_ context.Context, c *host.Call, _ struct{}) (*host.ToolOutput, error) {
		return &host.ToolOutput{State: []host.PatchOp{{Op: "add", Path: "/step", Value: []byte(`"tool"`)}}}, nil
	}, nil)
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{tool}, Model: hosttest.NewModel(hosttest.Call("set", `{}`), hosttest.Say("done")),
		Hooks: host.Hooks{ToolEnd: func(_ context.Context, at *host.ToolEndHook) error { return at.State.Set("/step", "hook") }}})
	r, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi"})
	if err != nil || string(r.State) != `{"step":"tool"}` {
		t.Errorf("the state is %s: %v", r.State, err)
	}
}

// A handler that was left behind when its time was over changes nothing any more: its
// call has failed.
func TestALateHandlerChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, late := make(chan struct{}), make(chan error, 1)
		slow := host.NewTool("slow", "Waits.", func(_ context.Context, c *host.Call, _ struct{}) (string, error) {
			<-release
			late <- c.State.Set("/late", true)
			return "", nil
		}, &host.ToolOptions{Timeout: time.Second})
		join := host.NewTool("join", "Joins.", func(context.Context, *host.Call, struct{}) (string, error) {
			close(release)
			if err := <-late; host.CodeOf(err) != host.FailedPrecondition {
				t.Errorf("a late change: %v, want code failed_precondition", err)
			}
			return "", nil
		}, nil)
		agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{slow, join}, Model: hosttest.NewModel(hosttest.Call("slow", `{}`), hosttest.Call("join", `{}`), hosttest.Say("done"))})
		r, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi"})
		if err != nil || r.Text() != "done" || string(r.State) != `{}` {
			t.Errorf("the state is %s: %v", r.State, err)
		}
	})
}
