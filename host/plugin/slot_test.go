package plugin

// These tests are inside the package for its assembler.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// numbered assembles a guest of every kind whose tool answers with a number.
func numbered(t testing.TB, n int) []byte {
	t.Helper()
	return describing(t, everyKind, map[abi.Export]answer{
		abi.Tool:    {fmt.Sprintf(`{"content":%d}`, n), 0},
		abi.Process: {`{"messages":[]}`, 0},
		abi.Route:   {fmt.Sprintf(`{"next":["a%d"]}`, n), 0},
		abi.Provide: {fmt.Sprintf(`{"instructions":"%d","tools":["t"]}`, n), 0},
		abi.Observe: {`{}`, 0},
	})
}

// describing assembles a constant guest that describes itself too.
func describing(t testing.TB, manifest string, answers map[abi.Export]answer) []byte {
	t.Helper()
	all := map[abi.Export]answer{abi.Describe: {manifest, 0}}
	maps.Copy(all, answers)
	return constantGuest(t, manifest, all)
}

// trapping assembles a guest like numbered whose tool traps.
func trapping(t testing.TB) []byte { return describing(t, everyKind, nil) }

func newSlot(t testing.TB, rt *Runtime, wasm []byte, opts *SlotOptions) *Slot {
	t.Helper()
	s, err := rt.NewSlot(context.Background(), "p", wasm, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func replace(t testing.TB, s *Slot, wasm []byte) VersionState {
	t.Helper()
	st, err := s.Replace(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// callTool calls the tool of a slot for a tenant and returns its content.
func callTool(ctx context.Context, s *Slot, tenant string) (string, error) {
	r, err := s.Call(ctx, tenant, "tool", []byte("{}"), nil)
	if err != nil {
		return "", err
	}
	var out struct{ Content json.RawMessage }
	err = json.Unmarshal(r.Output, &out)
	return string(out.Content), err
}

func wantAnswer(t testing.TB, ctx context.Context, s *Slot, want string) {
	t.Helper()
	if got, err := callTool(ctx, s, "t"); got != want || err != nil {
		t.Fatalf("the tool answers %q, %v, want %q", got, err, want)
	}
}

// phases tells of a slot's versions, like "1 kept, 2 serving".
func phases(s *Slot) string {
	st := s.State()
	list := names(st.Versions, func(v VersionState) string { return fmt.Sprintf("%d %s", v.Number, v.Phase) })
	return strings.Join(list, ", ")
}

func wantPhases(t testing.TB, s *Slot, want string) {
	t.Helper()
	if got := phases(s); got != want {
		t.Fatalf("versions are: %s; want: %s", got, want)
	}
}

// blocked is a call in progress.
type blocked struct {
	release func()
	done    chan error
}

// blocking assembles a guest whose tool tells of itself, which a test may delay.
func blocking(t testing.TB) []byte { return asking(t, "emit", `{"kind":"k","data":1}`) }

// beginCall begins a call of a slot that serves a blocking guest, and returns when
// it is in progress.
func beginCall(t testing.TB, ctx context.Context, s *Slot) *blocked {
	t.Helper()
	entered, release := make(chan struct{}), make(chan struct{})
	b := &blocked{release: sync.OnceFunc(func() { close(release) }), done: make(chan error, 1)}
	t.Cleanup(b.release) // whatever comes, before the slot waits for it
	go func() {
		_, err := s.Call(ctx, "t", "tool", nil, &CallOptions{Emit: func(string, json.RawMessage) { close(entered); <-release }})
		b.done <- err
	}()
	<-entered
	return b
}

func (b *blocked) end(t testing.TB) {
	t.Helper()
	b.release()
	if err := <-b.done; err != nil {
		t.Errorf("the call in progress ends with %v", err)
	}
}

func TestSlotReplaces(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), numbered(t, 1), nil)
	wantAnswer(t, ctx, s, "1")
	st := replace(t, s, numbered(t, 2))
	if st.Number != 2 || st.Phase != Serving || st.Digest == "" || st.Name != "constant" || st.Since.IsZero() {
		t.Errorf("Replace = %+v", st)
	}
	wantAnswer(t, ctx, s, "2")
	wantPhases(t, s, "1 kept, 2 serving")
	replace(t, s, numbered(t, 3))
	replace(t, s, numbered(t, 4))
	s.revisions.closers.Wait()
	wantPhases(t, s, "1 replaced, 2 kept, 3 kept, 4 serving")
	if state := s.State(); state.Phase != Serving || state.ID != "p" || state.Serving().Number != 4 || state.Loading || state.Error != nil {
		t.Errorf("State = %+v", state)
	}
}

func TestSlotKeepsServingWhenAVersionIsBad(t *testing.T) {
	ctx := context.Background()
	refuses := errors.New("it is Friday")
	var check func(context.Context, *Plugin) error
	s := newSlot(t, startRuntime(t, nil), numbered(t, 1), &SlotOptions{
		Check: func(ctx context.Context, p *Plugin) error {
			if check != nil {
				return check(ctx, p)
			}
			return nil
		}})
	unhealthy := strings.Replace(everyKind, `{"abi"`, `{"health":[{"export":"tool","input":{"tool":"t"}}],"abi"`, 1)
	for _, row := range []struct {
		name string
		wasm []byte
		want host.Code
		says string
	}{
		{"no module", []byte("hello"), host.InvalidArgument, "WebAssembly"},
		{"one that cannot start", handWritten(t, `
			func $init _initialize
				unreachable
			---
			i32.const 0`), host.FailedPrecondition, "its start: "},
		{"one whose own health call traps", describing(t, unhealthy, nil), host.FailedPrecondition, "its health call of tool: "},
		{"one whose own health call answers an error", describing(t, unhealthy, map[abi.Export]answer{abi.Tool: {`{"code":"unavailable","message":"no"}`, 1}}),
			host.FailedPrecondition, "its health call of tool: no"},
		{"one that the operator's check refuses", numbered(t, 2), host.FailedPrecondition, "it is Friday"},
	} {
		t.Run(row.name, func(t *testing.T) {
			check = nil
			if strings.Contains(row.name, "check") {
				check = func(context.Context, *Plugin) error { return refuses }
			}
			st, err := s.Replace(ctx, row.wasm)
			if host.CodeOf(err) != row.want || !strings.Contains(err.Error(), row.says) {
				t.Errorf("Replace: %v, want %s that says %q", err, row.want, row.says)
			}
			if st.Phase != Failed || st.Error == nil {
				t.Errorf("its state is %+v, want failed with the error", st)
			}
			wantAnswer(t, ctx, s, "1")
		})
	}
	if e := s.State().Error; e == nil || !strings.Contains(e.Message, "it is Friday") {
		t.Errorf("the slot's error is %v, want the last one", e)
	}
	check = nil
	replace(t, s, numbered(t, 2))
	if e := s.State().Error; e != nil {
		t.Errorf("the slot's error is still %v", e)
	}
}

func TestSlotTriesAVersionWithNothingGranted(t *testing.T) {
	granted := Permissions{State: Write, Messages: true}
	opts := &SlotOptions{LoadOptions: LoadOptions{Granted: granted}}
	opts.Tenants = []string{"acme"}
	opts.Check = func(ctx context.Context, p *Plugin) error {
		for _, g := range []Permissions{p.Granted(), p.GrantedTo(""), p.GrantedTo("acme")} {
			if g.State.Allows(Read) || g.Messages {
				t.Errorf("the version is tried with %+v granted", g)
			}
		}
		_, err := p.Call(ctx, "", "tool", []byte("{}"), nil)
		return err
	}
	// A tenant's own grants, and anybody's, do not count in a trial either.
	all := &Tenant{Grants: map[string]Permissions{"p": granted}}
	rt := startRuntime(t, &Options{AnyTenant: all, Tenants: map[string]*Tenant{"acme": all}})
	s := newSlot(t, rt, numbered(t, 1), opts)
	if s.Current().Serves("other") || !s.Current().Serves("acme") {
		t.Error("it does not serve acme alone")
	}
	if g := s.Current().GrantedTo("acme"); g.State != Write || !g.Messages {
		t.Errorf("it serves with %+v granted, want %+v", g, granted)
	}
}

func TestSlotEndsCallsOnTheVersionTheyBeganOn(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), blocking(t), &SlotOptions{Kept: 1})
	b := beginCall(t, ctx, s)
	replace(t, s, numbered(t, 2))
	replace(t, s, numbered(t, 3))
	wantAnswer(t, ctx, s, "3")
	wantPhases(t, s, "1 draining, 2 kept, 3 serving")
	if v := s.State().Versions[0]; v.Running != 1 {
		t.Errorf("%d calls are in progress, want 1", v.Running)
	}
	b.end(t)
	s.revisions.closers.Wait()
	wantPhases(t, s, "1 replaced, 2 kept, 3 serving")
}

func TestSlotRollsBack(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), numbered(t, 1), nil)
	if _, err := s.Rollback(ctx); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("with nothing to roll back to: %v", err)
	}
	replace(t, s, numbered(t, 2))
	replace(t, s, numbered(t, 3))
	for _, want := range []string{"2", "1"} {
		if _, err := s.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, ctx, s, want)
	}
	s.revisions.closers.Wait()
	wantPhases(t, s, "1 serving, 2 replaced, 3 replaced")
}

func TestSlotRollsBackToAVersionWithCallsInProgress(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), blocking(t), nil)
	b := beginCall(t, ctx, s)
	replace(t, s, numbered(t, 2))
	if _, err := s.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	b.end(t)
	s.revisions.closers.Wait()
	beginCall(t, ctx, s).end(t)
	wantPhases(t, s, "1 serving, 2 replaced")
}

func TestSlotHoldsBackWhatAsksForMore(t *testing.T) {
	ctx := context.Background()
	asks := func(n int, permissions string) []byte {
		manifest := strings.Replace(everyKind, `{"state":"write","messages":true}`, permissions, 1)
		return describing(t, manifest, map[abi.Export]answer{abi.Tool: {fmt.Sprintf(`{"content":%d}`, n), 0}})
	}
	s := newSlot(t, startRuntime(t, nil), asks(1, `{"clock":true}`), nil)
	wantAnswer(t, ctx, s, "1") // the first version serves without it, as with Load

	st, err := s.Replace(ctx, asks(2, `{"clock":true,"state":"read"}`))
	if host.CodeOf(err) != host.PermissionDenied || !strings.Contains(err.Error(), "state=read") || strings.Contains(err.Error(), "clock") {
		t.Errorf("Replace: %v, want permission_denied that names state: read only", err)
	}
	if st.Phase != Held || fmt.Sprint(st.Missing) != "[state=read]" || !s.State().Held {
		t.Errorf("its state is %+v, want held", st)
	}
	wantAnswer(t, ctx, s, "1")

	if err := s.Grant(ctx, Permissions{Clock: true}); host.CodeOf(err) != host.PermissionDenied {
		t.Errorf("Grant of something else: %v, want permission_denied", err)
	}
	if g := s.Current().Granted(); !g.Clock {
		t.Errorf("the version that serves has %+v granted, want clock", g)
	}
	wantAnswer(t, ctx, s, "1")
	if err := s.Grant(ctx, Permissions{Clock: true, State: Read}); err != nil {
		t.Errorf("Grant: %v, want version 2 to serve", err)
	}
	wantAnswer(t, ctx, s, "2")
	if g := s.Current().Granted(); !g.Clock || g.State != Read {
		t.Errorf("it serves with %+v granted", g)
	}
	replace(t, s, asks(3, `{"state":"read"}`))
	wantAnswer(t, ctx, s, "3")
	if _, err := s.Replace(ctx, asks(4, `{"state":"write"}`)); host.CodeOf(err) != host.PermissionDenied {
		t.Errorf("more of the same: %v, want permission_denied", err)
	}
	if st, err := s.Accept(ctx); err != nil || st.Number != 4 {
		t.Errorf("Accept = %+v, %v, want version 4 to serve", st, err)
	}
	wantAnswer(t, ctx, s, "4")
	if g := s.Current().Granted(); g.State.Allows(Write) {
		t.Errorf("what was accepted is granted: %+v", g)
	}
	if _, err := s.Accept(ctx); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Accept of nothing: %v, want failed_precondition", err)
	}
	if _, err := s.Replace(ctx, asks(5, `{"random":true}`)); host.CodeOf(err) != host.PermissionDenied {
		t.Errorf("something else: %v, want permission_denied", err)
	}
	replace(t, s, asks(6, `{}`))
	s.revisions.closers.Wait()
	if st := s.State(); st.Held {
		t.Errorf("a version that was replaced is still held: %s", phases(s))
	}
}

// A secret that goes to one more host is more, also for a plugin that is not granted
// all that it asked for before.
func TestSlotHoldsBackSecretsForMoreHosts(t *testing.T) {
	asks := func(hosts string) []byte {
		manifest := strings.Replace(everyKind, `{"state":"write","messages":true}`, `{"secrets":[{"name":"KEY","hosts":[`+hosts+`]}]}`, 1)
		return describing(t, manifest, map[abi.Export]answer{abi.Tool: {`{"content":1}`, 0}})
	}
	s := newSlot(t, startRuntime(t, nil), asks(`"a.example","b.example"`), nil)
	if _, err := s.Replace(t.Context(), asks(`"a.example","c.example"`)); host.CodeOf(err) != host.PermissionDenied || !strings.Contains(err.Error(), "secret=KEY@https://a.example,https://c.example") {
		t.Errorf("Replace = %v, want permission_denied that names the host", err)
	}
	if _, err := s.Replace(t.Context(), asks(`"b.example"`)); err != nil {
		t.Errorf("a version that asks for less: %v", err)
	}
}

func TestSlotRevokes(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), blocking(t), &SlotOptions{LoadOptions: LoadOptions{Granted: Permissions{State: Write}}})
	b := beginCall(t, ctx, s)
	if err := s.Grant(ctx, Permissions{}); err != nil {
		t.Fatal(err)
	}
	if g := s.Current().Granted(); g.State.Allows(Read) {
		t.Errorf("after all is revoked it has %+v", g)
	}
	b.end(t)
}

// A version that is pinned, or whose last call has not ended, loses what is taken
// back as the one that serves does, and gets nothing that is granted since.
func TestSlotRevokesWhatIsEnding(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	s := newSlot(t, rt, blocking(t), &SlotOptions{Kept: 1, LoadOptions: LoadOptions{Granted: Permissions{State: Read}}})
	old := s.Current()
	b := beginCall(t, ctx, s)
	replace(t, s, numbered(t, 2))
	replace(t, s, numbered(t, 3))
	wantPhases(t, s, "1 draining, 2 kept, 3 serving")
	if g := old.Granted(); g.State != Read {
		t.Fatalf("before that it has %+v", g)
	}
	if err := s.Grant(ctx, Permissions{State: Write, KV: Write}); err != nil {
		t.Fatal(err)
	}
	if g := old.Granted(); g.State != Read {
		t.Errorf("with more granted to the version that serves it has %+v", g)
	}
	if err := s.Grant(ctx, Permissions{}); err != nil {
		t.Fatal(err)
	}
	if g := old.Granted(); g.State.Allows(Read) {
		t.Errorf("after all is revoked it has %+v", g)
	}
	b.end(t)
}

func TestSlotUnloads(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), blocking(t), nil)
	replace(t, s, numbered(t, 2))
	replace(t, s, blocking(t))
	b := beginCall(t, ctx, s)
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Unload(short); host.CodeOf(err) != host.Canceled {
		t.Errorf("Unload while a call runs, for a caller that has left: %v, want canceled", err)
	}
	_, err := callTool(ctx, s, "t")
	if host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("a call after Unload: %v, want unavailable", err)
	}
	if _, err := s.Tools(nil); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("tools after Unload: %v, want unavailable", err)
	}
	b.end(t)
	if err := s.Unload(ctx); err != nil {
		t.Errorf("Unload: %v", err)
	}
	wantPhases(t, s, "1 unloaded, 2 unloaded, 3 unloaded")
	if st := s.State(); st.Phase != Unloaded {
		t.Errorf("State = %+v", st)
	}
	replace(t, s, numbered(t, 4))
	wantAnswer(t, ctx, s, "4")
}

// A version is loaded while somebody waits for the calls of one that is unloaded.
func TestSlotLoadsWhileItUnloads(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), blocking(t), nil)
	b := beginCall(t, ctx, s)
	unloaded := make(chan error)
	go func() { unloaded <- s.Unload(ctx) }()
	for s.Current() != nil {
		runtime.Gosched()
	}
	replace(t, s, numbered(t, 2))
	wantAnswer(t, ctx, s, "2")
	select {
	case err := <-unloaded:
		t.Errorf("Unload: %v, while a call runs", err)
	default:
	}
	b.end(t)
	if err := <-unloaded; err != nil {
		t.Errorf("Unload: %v", err)
	}
	wantPhases(t, s, "1 unloaded, 2 serving")
}

func TestSlotPins(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	s := newSlot(t, rt, numbered(t, 1), &SlotOptions{Kept: 1})
	pinned, release := rt.Pin(ctx)
	replace(t, s, numbered(t, 2))
	again, releaseAgain := rt.Pin(pinned, s)
	replace(t, s, numbered(t, 3))
	wantAnswer(t, pinned, s, "1")
	wantAnswer(t, again, s, "2")
	wantAnswer(t, ctx, s, "3")
	if v := s.State().Versions[0]; v.Phase != Draining || v.Pins != 1 || v.Running != 0 {
		t.Errorf("the pinned version is %+v, want draining with 1 pin", v)
	}
	release()
	release()
	releaseAgain()
	s.revisions.closers.Wait()
	wantPhases(t, s, "1 replaced, 2 kept, 3 serving")
	wantAnswer(t, pinned, s, "3") // nothing is pinned any more
}

func TestSlotRefusesMoreThanCanDrain(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	s := newSlot(t, rt, numbered(t, 0), &SlotOptions{Kept: 1, Draining: 2})
	var release []func()
	for i := range 3 {
		_, r := rt.Pin(ctx)
		release = append(release, r)
		replace(t, s, numbered(t, i+1))
	}
	if _, err := s.Replace(ctx, numbered(t, 4)); host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), "Draining") {
		t.Errorf("Replace: %v, want resource_exhausted that names the limit", err)
	}
	for _, r := range release {
		r()
	}
	s.revisions.closers.Wait()
	replace(t, s, numbered(t, 4))
	wantAnswer(t, ctx, s, "4")
}

// runOnce has an agent call the tool t and returns what the model was told, and
// of which tools.
func runOnce(t testing.TB, ctx context.Context, opts *host.AgentOptions, between func()) (*host.ToolResult, []llm.ToolSpec) {
	t.Helper()
	model := hosttest.NewModel(hosttest.Call("t", `{}`), hosttest.Say("done"))
	opts.Model = model
	agent, err := host.NewAgent("clerk", opts)
	if err != nil {
		t.Fatal(err)
	}
	between()
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	return r.Results[0].ToolResults()[0], model.Requests()[0].Tools
}

func TestAgentsHaveTheToolsOfTheVersionThatServes(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), numbered(t, 1), nil)
	tools, err := s.Tools(nil)
	if err != nil || len(tools) != 1 {
		t.Fatalf("Tools = %v, %v", tools, err)
	}
	described := strings.Replace(everyKind, `"description":"","parameters":{}`, `"description":"Better.","parameters":{"type":"object"}`, 1)
	result, told := runOnce(t, ctx, &host.AgentOptions{Tools: tools}, func() {
		replace(t, s, describing(t, described, map[abi.Export]answer{abi.Tool: {`{"content":"two"}`, 0}}))
	})
	if string(result.Content) != `"two"` || told[0].Description != "Better." {
		t.Errorf("the tool answers %s and is told as %+v, want version 2", result.Content, told[0])
	}
	without := strings.Replace(everyKind, `{"name":"t","description":"","parameters":{}}`, ``, 1)
	result, told = runOnce(t, ctx, &host.AgentOptions{Tools: tools}, func() { replace(t, s, describing(t, without, nil)) })
	if !result.IsError || !strings.Contains(string(result.Content), `version 3 offers no tool`) || len(told) != 1 {
		t.Errorf("a tool that is gone answers %s (told: %+v)", result.Content, told)
	}
	if _, err := s.Tool("t", nil); host.CodeOf(err) != host.NotFound {
		t.Errorf("Tool: %v, want not_found", err)
	}
}

func TestAProvidersToolsOutliveItsVersion(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), numbered(t, 1), &SlotOptions{Kept: 1})
	provider, err := s.Provider("", nil)
	if err != nil {
		t.Fatal(err)
	}
	state, err := host.NewState(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	given, err := provider.Provide(ctx, &host.ProvideRequest{State: state})
	if err != nil || given.Instructions != "1" || len(given.Tools) != 1 {
		t.Fatalf("Provide = %+v, %v", given, err)
	}
	result, _ := runOnce(t, ctx, &host.AgentOptions{Tools: given.Tools}, func() {
		replace(t, s, numbered(t, 2))
		replace(t, s, numbered(t, 3))
		s.revisions.closers.Wait()
	})
	if string(result.Content) != "3" {
		t.Errorf("the tool answers %s, want 3", result.Content)
	}
	if _, err := provider.(host.Observer).Observe(ctx, &host.ObserveRequest{ProvideRequest: host.ProvideRequest{State: state}}); err != nil {
		t.Errorf("Observe: %v", err)
	}
}

func TestProcessorsAndRoutersGoToTheVersionThatServes(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), numbered(t, 1), nil)
	router, err := s.Router("", nil)
	if err != nil {
		t.Fatal(err)
	}
	processor, err := s.Processor("p", nil)
	if err != nil || processor.Name() != "p" || router.Name() != "r" {
		t.Fatalf("Processor = %v, %v", processor, err)
	}
	state, err := host.NewState(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	route := func() string {
		r, err := router.Route(ctx, &host.RouteRequest{State: state})
		if err != nil {
			return err.Error()
		}
		return r.Next[0]
	}
	if got := route(); got != "a1" {
		t.Errorf("Route = %s, want a1", got)
	}
	replace(t, s, numbered(t, 2))
	if got := route(); got != "a2" {
		t.Errorf("Route = %s, want a2", got)
	}
	if out, err := processor.Process(ctx, llm.NewView(nil, "", nil)); err != nil || out.Messages == nil {
		t.Errorf("Process = %+v, %v", out, err)
	}
	replace(t, s, describing(t, `{"abi":1,"name":"less"}`, nil))
	_, err = processor.Process(ctx, llm.NewView(nil, "", nil))
	if host.CodeOf(err) != host.NotFound {
		t.Errorf("Process of a version without: %v, want not_found", err)
	}
	if st := s.State(); st.Serving().Faults != 0 {
		t.Errorf("that is %d faults", st.Serving().Faults)
	}
	if _, err := s.Router("", nil); host.CodeOf(err) != host.NotFound {
		t.Errorf("Router: %v, want not_found", err)
	}
}

func TestNewSlotRefuses(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	s := newSlot(t, rt, numbered(t, 1), nil)
	if rt.Slot("p") != s || len(rt.Slots()) != 1 {
		t.Errorf("Slot(p) = %v of %v", rt.Slot("p"), rt.Slots())
	}
	for _, row := range []struct {
		name, id string
		wasm     []byte
		opts     *SlotOptions
		want     host.Code
	}{
		{"an id that is taken", "p", numbered(t, 1), nil, host.AlreadyExists},
		{"no id", "", numbered(t, 1), nil, host.InvalidArgument},
		{"a negative bound", "q", numbered(t, 1), &SlotOptions{Kept: -1}, host.InvalidArgument},
		{"a negative guard", "q", numbered(t, 1), &SlotOptions{Guard: Guard{MinCalls: -1}}, host.InvalidArgument},
		{"no module", "q", nil, nil, host.InvalidArgument},
	} {
		if _, err := rt.NewSlot(ctx, row.id, row.wasm, row.opts); host.CodeOf(err) != row.want {
			t.Errorf("%s: %v, want %s", row.name, err, row.want)
		}
	}
	if rt.Slot("q") != nil {
		t.Error("a slot whose first version failed is there")
	}
	s.Close()
	s.Close()
	if _, err := s.Replace(ctx, numbered(t, 2)); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Replace after Close: %v, want failed_precondition", err)
	}
	if _, err := callTool(ctx, s, "t"); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("a call after Close: %v, want failed_precondition", err)
	}
	newSlot(t, rt, numbered(t, 1), nil) // the id is free
}

func TestRuntimeCloseEndsSlotsAndPins(t *testing.T) {
	ctx := context.Background()
	rt, err := NewRuntime(ctx, &Options{Limits: Limits{Timeout: unhurried, StartTimeout: unhurried}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.NewSlot(ctx, "p", blocking(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	pinned, release := rt.Pin(ctx)
	b := beginCall(t, ctx, s)
	closed := make(chan error)
	go func() { closed <- rt.Close(ctx) }()
	b.end(t)
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := callTool(pinned, s, "t"); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("a call in a closed runtime: %v, want failed_precondition", err)
	}
	release()
}

// A pinned run goes on calling a version while it is rolled back to, which begins
// to judge its calls anew.
func TestPinnedCallsDuringARollback(t *testing.T) {
	rt := startRuntime(t, nil)
	s := newSlot(t, rt, numbered(t, 1), nil)
	pinned, release := rt.Pin(t.Context())
	defer release()
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Call(pinned, "a", "tool", []byte("{}"), nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 20 {
		replace(t, s, numbered(t, i+2))
		if st, err := s.Rollback(t.Context()); err != nil || st.Number != 1 {
			t.Fatalf("rollback: %+v, %v; want to version 1", st, err)
		}
	}
	stop()
	calls.Wait()
}
