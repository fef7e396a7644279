package breaker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// judged is a version's breaker with calls to it.
type judged struct {
	t *testing.T
	*Breaker
}

func judging(t *testing.T, opts Options, published time.Time) *judged {
	t.Helper()
	opts, err := opts.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &judged{t, New(&opts, published)}
}

// calls makes calls of a tenant: f is a fault, . is fine, n neither. want is the same
// letters, with x for each refused call. It reports whether one of the calls rolled the
// version back.
func (j *judged) calls(tenant, calls, want string) (rollback bool) {
	j.t.Helper()
	var got strings.Builder
	for _, c := range calls {
		probe, err := j.Admit("p", tenant)
		if err != nil {
			got.WriteByte('x')
			continue
		}
		got.WriteRune(c)
		v := map[rune]Verdict{'f': Fault, '.': Success, 'n': None}[c]
		rollback = j.Settle(tenant, probe, v, errors.New("trapped")) || rollback
	}
	if got.String() != want {
		j.t.Errorf("the calls %s go %s, want %s", calls, got.String(), want)
	}
	return rollback
}

func TestBreakerOpensAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Options{BackOff: time.Second, MaxBackOff: 3 * time.Second}, time.Time{})
		j.calls("a", "ffff.fffff...", "ffff.fffffxxx")
		j.calls("b", "...", "...")

		_, err := j.Admit("p", "a")
		var open *OpenError
		if !errors.As(err, &open) || host.CodeOf(err) != host.Unavailable || !open.Retry.Equal(time.Now().Add(time.Second)) || !fault.AsError(err).Retryable {
			t.Errorf("Admit: %v, want unavailable with when to retry", err)
		}
		if want := `plugin "p" is not called for another 1s: its calls failed, the last so: trapped`; err.Error() != want {
			t.Errorf("Admit says %q, want %q", err, want)
		}
		if st := j.Open(); len(st) != 1 || st[0].Tenant != "a" || st[0].Error != "trapped" {
			t.Errorf("Open = %+v, want a", st)
		}

		for _, wait := range []time.Duration{1, 2, 3, 3} { // doubled, and no more than the most
			time.Sleep(wait*time.Second - time.Nanosecond)
			j.calls("a", "f", "x")
			time.Sleep(time.Nanosecond)
			j.calls("a", "ff", "fx")
		}
		time.Sleep(3 * time.Second)
		j.calls("a", "....f.", "....f.")
		if st := j.Open(); len(st) != 0 {
			t.Errorf("Open = %+v, want no tenant", st)
		}
		j.calls("a", "fffff.", "fffffx")
		time.Sleep(time.Second) // the back-off begins again
		j.calls("a", ".", ".")
	})
}

func TestBreakerLetsOneCallProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Options{}, time.Time{})
		j.calls("a", "fffff", "fffff")
		time.Sleep(time.Second)
		probe, err := j.Admit("p", "a")
		if !probe || err != nil {
			t.Fatalf("Admit = %t, %v, want the probe", probe, err)
		}
		if _, err := j.Admit("p", "a"); err == nil || !strings.Contains(err.Error(), "until a first call has succeeded") {
			t.Errorf("a second call beside the probe: %v, want unavailable", err)
		}
		j.Settle("a", true, None, nil) // its caller has left: another one may try
		j.calls("a", "..", "..")
	})
}

func TestBreakerJudgesTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Options{MinCalls: 10, FaultRate: 0.5, FaultsInARow: 100}, time.Time{})
		j.calls("a", "f.f.f.f.ff..", "f.f.f.f.ffxx")
		j.calls("b", "f.ff.", "f.ff.")
		time.Sleep(2 * time.Minute) // a window later the old ones do not count
		j.calls("b", ".f.f.", ".f.f.")
		j.calls("c", "nnnnnnnnnnnnnnnnnnnnnnnnnn", "nnnnnnnnnnnnnnnnnnnnnnnnnn")
	})
}

func TestBreakerForgetsTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Options{}, time.Time{})
		for i := range maxTenants + 10 {
			j.calls(fmt.Sprint(i), "f", "f")
		}
		if n := len(j.tenants); n != maxTenants {
			t.Errorf("%d tenants are watched, want %d", n, maxTenants)
		}
		j.calls("late", "fffffff", "fffffff") // no room to watch it
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
		j := judging(t, Options{}, time.Now())
		if j.calls("a", "....", "....") || j.calls("b", "fffff", "fffff") {
			t.Error("one of two tenants rolls a version back for both")
		}
		if !j.calls("c", "fffff", "fffff") {
			t.Error("two of three tenants do not roll it back")
		}

		j = judging(t, Options{}, time.Now())
		if !j.calls("a", "fffff", "fffff") {
			t.Error("the only tenant does not roll it back")
		}

		j = judging(t, Options{}, time.Now())
		j.calls("a", "..", "..")
		time.Sleep(11 * time.Minute)
		if j.calls("a", "fffff.", "fffffx") {
			t.Error("a version is rolled back after its probation")
		}
	})
}

// Tenants whose calls failed and that never called again make room for others: a
// version whose table is full of them would judge nobody any more.
func TestBreakerForgetsTenantsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := judging(t, Options{BackOff: time.Second, MaxBackOff: time.Minute}, time.Time{})
		for i := range maxTenants {
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
