package sessions_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// A host that was cut off for longer than Expiry and comes back has lost its turn:
// it neither ends the turn of who took it over nor speaks for it.
func TestAHostThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &dying{Driver: testdriver.New(t)}
		tool, begun, open := gate(t)
		other, otherBegun, otherOpen := gate(t)
		first := newService(t, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Say("of the first")), tool),
			&sessions.Options{Store: threads.New(driver, nil)})
		second := newService(t, newAgent(t, "clerk", model(hosttest.Say("of the second")), other),
			&sessions.Options{Store: threads.New(driver.Driver, nil)})
		defer second.Close()
		defer first.Close()
		out := run(t, first, &request{Text: "a", Detach: true})
		<-begun
		driver.dead.Store(true)
		time.Sleep(sessions.DefaultExpiry + time.Second)
		if n, err := second.Recover(t.Context(), ""); n != 1 || err != nil {
			t.Fatalf("Recover = %d, %v", n, err)
		}
		<-otherBegun
		driver.dead.Store(false)
		time.Sleep(2 * sessions.DefaultHeartbeat)
		close(open)
		synctest.Wait()
		time.Sleep(2 * sessions.DefaultHeartbeat)
		if snap := snapshot(t, second, out.Snapshot); snap.Status != sessions.Pending {
			t.Errorf("while the second host runs it, it is %s: %v", snap.Status, snap.Error)
		}
		close(otherOpen)
		snap := wait(t, second, out.Snapshot)
		if snap.State == nil {
			t.Fatalf("in the end it is %s: %v", snap.Status, snap.Error)
		}
		if got := texts(snap.State.Messages); snap.Status != sessions.Completed || got[len(got)-1] != "assistant: of the second" {
			t.Errorf("in the end it is %s: %q", snap.Status, got)
		}
	})
}

// keyed is a ledger that notes whose credential each run's use is recorded by.
type keyed struct {
	host.Ledger
	keys *[]string
}

func (keyed) AdmitRun(context.Context, string, string) error { return nil }

func (k keyed) OpenRun(_ host.Scope, key string) host.UsageRecord {
	*k.keys = append(*k.keys, key)
	return nil
}

// A host is gone before the first turn of a session has begun a run, or after that.
func TestATurnThatAnotherHostTakesOverIsRecordedByItsCallersCredential(t *testing.T) {
	for _, begun := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun %t", begun), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				driver := &dying{Driver: testdriver.New(t)}
				tool, running, open := gate(t)
				defer close(open)
				first := newService(t, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Call("gate", "{}")), tool), &sessions.Options{Store: threads.New(driver, nil)})
				out := run(t, first, &request{Session: "s", Text: "a", Detach: true, Key: "website"})
				<-running
				if !begun { // the next one waits for the first
					out = run(t, first, &request{Session: "s", Text: "b", Detach: true, Key: "website"})
				}
				driver.dead.Store(true)
				time.Sleep(sessions.DefaultExpiry + time.Second)
				var keys []string
				other, _, otherOpen := gate(t)
				close(otherOpen)
				second := newService(t, newAgent(t, "clerk", model(hosttest.Say("done"), hosttest.Say("done")), other),
					&sessions.Options{Host: host.Options{Ledger: keyed{keys: &keys}}, Store: threads.New(driver.Driver, nil)})
				if _, err := second.Recover(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
				if snap := wait(t, second, out.Snapshot); snap.Status != sessions.Completed {
					t.Errorf("the turn is %s: %v", snap.Status, snap.Error)
				}
				if len(keys) == 0 || slices.ContainsFunc(keys, func(key string) bool { return key != "website" }) {
					t.Errorf("use is recorded by %q, want website alone", keys)
				}
			})
		})
	}
}
