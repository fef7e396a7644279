package plugin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/breaker"
)

// faultsInARow is the default of Guard.FaultsInARow.
const faultsInARow = 5

func TestJudge(t *testing.T) {
	left, leave := context.WithCancel(context.Background())
	leave()
	ctx := context.Background()
	for _, row := range []struct {
		name string
		ctx  context.Context
		err  error
		want breaker.Verdict
	}{
		{"no error", ctx, nil, breaker.Success},
		{"a guest's error object", ctx, abi.NewGuestError("p", "e", []byte(`{"code":"internal","message":"m"}`)), breaker.Success},
		{"a guest's error object without a message", ctx, abi.NewGuestError("p", "e", []byte(`{}`)), breaker.Fault},
		{"a trap", ctx, host.Errorf(host.Internal, "trapped"), breaker.Fault},
		{"a limit", ctx, host.Errorf(host.ResourceExhausted, "limit"), breaker.Fault},
		{"a limit of time", ctx, host.Errorf(host.DeadlineExceeded, "limit"), breaker.Fault},
		{"a caller that has left", left, host.Errorf(host.Internal, "trapped"), breaker.None},
		{"what is no fault of the plugin", ctx, blameless(host.Errorf(host.ResourceExhausted, "no instance")), breaker.None},
		{"what was not granted", ctx, host.Errorf(host.PermissionDenied, "denied"), breaker.Success},
		{"a configuration that does not fit", ctx, host.Errorf(host.InvalidArgument, "config"), breaker.None},
	} {
		if got := judge(row.ctx, row.err); got != row.want {
			t.Errorf("%s: judge = %d, want %d", row.name, got, row.want)
		}
	}
	if blameless(nil) != nil {
		t.Error("blameless makes an error of nil")
	}
	if err := blameless(host.Errorf(host.ResourceExhausted, "x")); host.CodeOf(err) != host.ResourceExhausted || err.Error() != "x" {
		t.Errorf("blameless changes the error to %v", err)
	}
}

func TestSlotRollsBackACrashLoop(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), numbered(t, 1), nil)
	replace(t, s, trapping(t))
	for i := range faultsInARow {
		if _, err := callTool(ctx, s, "t"); host.CodeOf(err) != host.Internal {
			t.Fatalf("call %d: %v, want internal", i, err)
		}
	}
	wantAnswer(t, ctx, s, "1")
	s.revisions.closers.Wait()
	wantPhases(t, s, "1 serving, 2 failed")
	st := s.State()
	if bad := st.Versions[1]; bad.Faults != faultsInARow || bad.Calls != faultsInARow || bad.Error == nil || st.Error == nil {
		t.Errorf("the version that was rolled back is %+v", bad)
	}
}

func TestSlotWithNothingToRollBackToIsNotCalled(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), trapping(t), nil)
	tools, err := s.Tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	for range faultsInARow {
		if result, _ := runOnce(t, ctx, &host.AgentOptions{Tools: tools}, func() {}); !strings.Contains(string(result.Content), "unreachable") {
			t.Fatalf("the tool answers %s, want a trap", result.Content)
		}
	}
	var open *OpenError
	if _, err := callTool(ctx, s, "acme"); !errors.As(err, &open) {
		t.Errorf("a call after them: %v, want an *OpenError", err)
	}
	if _, err := callTool(ctx, s, "other"); host.CodeOf(err) != host.Internal {
		t.Errorf("another tenant's call: %v, want to be tried", err)
	}
	if st := s.State(); !st.Open || len(st.Serving().Open) != 1 || st.Serving().Open[0].Tenant != "acme" {
		t.Errorf("State = %+v, want open for acme", st)
	}
	replace(t, s, numbered(t, 2))
	if got, err := callTool(ctx, s, "acme"); got != "2" || err != nil {
		t.Errorf("the next version answers %q, %v", got, err)
	}
}

func TestGuestErrorsAndCancellationsAreNoFaults(t *testing.T) {
	ctx := context.Background()
	s := newSlot(t, startRuntime(t, nil), describing(t, everyKind, map[abi.Export]answer{abi.Tool: {`{"code":"internal","message":"no"}`, 1}}), nil)
	router, err := s.Router("", nil) // it traps
	if err != nil {
		t.Fatal(err)
	}
	left, leave := context.WithCancel(ctx)
	leave()
	for range 2 * faultsInARow {
		if r, err := s.Call(ctx, "t", "tool", nil, nil); err != nil || !r.GuestError {
			t.Fatalf("Call = %+v, %v, want an error object", r, err)
		}
		if _, err := router.Route(left, &host.RouteRequest{}); err == nil {
			t.Fatal("a router that traps answers")
		}
	}
	if st := s.State(); st.Open || st.Serving().Faults != 0 || st.Serving().Calls != 4*faultsInARow {
		t.Errorf("State = %+v, want calls and no faults", st.Serving())
	}
}
