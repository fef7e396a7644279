package plugin

// These tests are inside the package: they judge calls without making them.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
)

// judged is a version's health with calls to it.
type judged struct {
	t *testing.T
	*health
}

func judging(t *testing.T, g Guard, published time.Time) *judged {
	t.Helper()
	g, err := g.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &judged{t, newHealth(&g, published)}
}

// calls makes calls of a tenant: f is a fault, . is fine, n neither. Those that
// are not admitted are x, and what is wanted says so. It reports whether one of
// them rolled the version back.
func (j *judged) calls(tenant, calls, want string) (rollback bool) {
	j.t.Helper()
	var got strings.Builder
	for _, c := range calls {
		probe, err := j.admit("p", tenant)
		if err != nil {
			got.WriteByte('x')
			continue
		}
		got.WriteRune(c)
		v := map[rune]verdict{'f': verdictFault, '.': verdictFine, 'n': verdictNone}[c]
		rollback = j.settle(tenant, probe, v, errors.New("trapped")) || rollback
	}
	if got.String() != want {
		j.t.Errorf("the calls %s go %s, want %s", calls, got.String(), want)
	}
	return rollback
}

func TestBreakerOpensAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Guard{BackOff: time.Second, MaxBackOff: 3 * time.Second}, time.Time{})
		j.calls("a", "ffff.fffff...", "ffff.fffffxxx")
		j.calls("b", "...", "...")

		_, err := j.admit("p", "a")
		var open *OpenError
		if !errors.As(err, &open) || host.CodeOf(err) != host.Unavailable || !open.Retry.Equal(time.Now().Add(time.Second)) || !host.AsError(err).Retryable {
			t.Errorf("admit: %v, want unavailable with when to retry", err)
		}
		if want := `plugin "p" is not called for another 1s: its calls failed, the last so: trapped`; err.Error() != want {
			t.Errorf("admit says %q, want %q", err, want)
		}
		if st := j.open(); len(st) != 1 || st[0].Tenant != "a" || st[0].Error != "trapped" {
			t.Errorf("open = %+v, want a", st)
		}

		for _, wait := range []time.Duration{1, 2, 3, 3} { // doubled, and no more than the most
			time.Sleep(wait*time.Second - time.Nanosecond)
			j.calls("a", "f", "x")
			time.Sleep(time.Nanosecond)
			j.calls("a", "ff", "fx")
		}
		time.Sleep(3 * time.Second)
		j.calls("a", "....f.", "....f.")
		if st := j.open(); len(st) != 0 {
			t.Errorf("open = %+v, want nobody", st)
		}
		j.calls("a", "fffff.", "fffffx")
		time.Sleep(time.Second) // the back-off begins anew
		j.calls("a", ".", ".")
	})
}

func TestBreakerLetsOneCallProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Guard{}, time.Time{})
		j.calls("a", "fffff", "fffff")
		time.Sleep(time.Second)
		probe, err := j.admit("p", "a")
		if !probe || err != nil {
			t.Fatalf("admit = %t, %v, want the probe", probe, err)
		}
		if _, err := j.admit("p", "a"); err == nil || !strings.Contains(err.Error(), "until a first call has succeeded") {
			t.Errorf("a second call beside the probe: %v, want unavailable", err)
		}
		j.settle("a", true, verdictNone, nil) // its caller has left: another one may try
		j.calls("a", "..", "..")
	})
}

func TestBreakerJudgesTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Guard{MinCalls: 10, FaultRate: 0.5, FaultsInARow: 100}, time.Time{})
		j.calls("a", "f.f.f.f.ff..", "f.f.f.f.ffxx")
		j.calls("b", "f.ff.", "f.ff.")
		time.Sleep(2 * time.Minute) // a window later the old ones do not count
		j.calls("b", ".f.f.", ".f.f.")
		j.calls("c", "nnnnnnnnnnnnnnnnnnnnnnnnnn", "nnnnnnnnnnnnnnnnnnnnnnnnnn")
	})
}

func TestBreakerForgetsTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Guard{}, time.Time{})
		for i := range maxWatchedTenants + 10 {
			j.calls(fmt.Sprint(i), "f", "f")
		}
		if n := len(j.tenants); n != maxWatchedTenants {
			t.Errorf("%d tenants are watched, want %d", n, maxWatchedTenants)
		}
		j.calls("late", "fffffff", "fffffff") // nobody watches
		time.Sleep(2 * time.Minute)
		j.calls("later", "f.", "f.")
		if n := len(j.tenants); n != 1 {
			t.Errorf("%d tenants are watched after a window without calls, want 1", n)
		}
		time.Sleep(2 * time.Minute)
		j.calls("later", ".", ".")
		if n := j.troubled.Load(); n != 0 || len(j.tenants) != 0 {
			t.Errorf("%d tenants have trouble, %d are watched, want none", n, len(j.tenants))
		}
	})
}

func TestVersionsOnProbationAreRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Guard{}, time.Now())
		if j.calls("a", "....", "....") || j.calls("b", "fffff", "fffff") {
			t.Error("one of two tenants rolls a version back for both")
		}
		if !j.calls("c", "fffff", "fffff") {
			t.Error("two of three tenants do not roll it back")
		}

		j = judging(t, Guard{}, time.Now())
		if !j.calls("a", "fffff", "fffff") {
			t.Error("the only tenant does not roll it back")
		}

		j = judging(t, Guard{}, time.Now())
		j.calls("a", "..", "..")
		time.Sleep(11 * time.Minute)
		if j.calls("a", "fffff.", "fffffx") {
			t.Error("a version is rolled back after its probation")
		}
	})
}

func TestJudge(t *testing.T) {
	left, leave := context.WithCancel(context.Background())
	leave()
	ctx := context.Background()
	for _, row := range []struct {
		name string
		ctx  context.Context
		err  error
		want verdict
	}{
		{"no error", ctx, nil, verdictFine},
		{"a guest's error object", ctx, guestError("p", "e", []byte(`{"code":"internal","message":"m"}`)), verdictFine},
		{"a guest's error object without a message", ctx, guestError("p", "e", []byte(`{}`)), verdictFault},
		{"a trap", ctx, host.Errorf(host.Internal, "trapped"), verdictFault},
		{"a limit", ctx, host.Errorf(host.ResourceExhausted, "limit"), verdictFault},
		{"a limit of time", ctx, host.Errorf(host.DeadlineExceeded, "limit"), verdictFault},
		{"a caller that has left", left, host.Errorf(host.Internal, "trapped"), verdictNone},
		{"what is no fault of the plugin", ctx, blameless(host.Errorf(host.ResourceExhausted, "no instance")), verdictNone},
		{"what was not granted", ctx, host.Errorf(host.PermissionDenied, "denied"), verdictFine},
		{"a configuration that does not fit", ctx, host.Errorf(host.InvalidArgument, "config"), verdictNone},
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
	for i := range defaultFaultsInARow {
		if _, err := callTool(ctx, s, "t"); host.CodeOf(err) != host.Internal {
			t.Fatalf("call %d: %v, want internal", i, err)
		}
	}
	wantAnswer(t, ctx, s, "1")
	s.revisions.closers.Wait()
	wantPhases(t, s, "1 serving, 2 failed")
	st := s.State()
	if bad := st.Versions[1]; bad.Faults != defaultFaultsInARow || bad.Calls != defaultFaultsInARow || bad.Error == nil || st.Error == nil {
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
	for range defaultFaultsInARow {
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
	s := newSlot(t, startRuntime(t, nil), describing(t, everyKind, map[export]answer{exportTool: {`{"code":"internal","message":"no"}`, 1}}), nil)
	router, err := s.Router("", nil) // it traps
	if err != nil {
		t.Fatal(err)
	}
	left, leave := context.WithCancel(ctx)
	leave()
	for range 2 * defaultFaultsInARow {
		if r, err := s.Call(ctx, "t", "tool", nil, nil); err != nil || !r.GuestError {
			t.Fatalf("Call = %+v, %v, want an error object", r, err)
		}
		if _, err := router.Route(left, &host.RouteRequest{}); err == nil {
			t.Fatal("a router that traps answers")
		}
	}
	if st := s.State(); st.Open || st.Serving().Faults != 0 || st.Serving().Calls != 4*defaultFaultsInARow {
		t.Errorf("State = %+v, want calls and no faults", st.Serving())
	}
}

// Tenants whose calls failed and that never called again make room for others: a
// version whose table is full of them would judge nobody any more.
func TestBreakerForgetsTenantsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Guard{BackOff: time.Second, MaxBackOff: time.Minute}, time.Time{})
		for i := range maxWatchedTenants {
			j.calls(fmt.Sprint(i), "fffff", "fffff")
		}
		j.calls("late", "ffffff", "ffffff") // there is no room
		time.Sleep(3 * time.Minute)
		j.calls("late", "ffffff", "fffffx")
		if n, troubled := len(j.tenants), j.troubled.Load(); n != 1 || troubled != 1 {
			t.Errorf("%d tenants are watched, %d in trouble; want the last alone", n, troubled)
		}
	})
}
