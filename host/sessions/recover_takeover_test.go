package sessions_test

import (
	"testing"
	"testing/synctest"
	"time"

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
