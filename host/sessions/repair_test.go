package sessions_test

// Scenario: a stored record of a session's background turns is damaged. The session goes
// on, Recover continues the others, and Repair removes what cannot be read.

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
)

// twoLeft returns a store in which a process has left two turns of a session in the
// background, and their runs, in order.
func twoLeft(t *testing.T) (driver *kv.Memory, store *threads.Store, runs []string) {
	t.Helper()
	driver = kv.NewMemory()
	store = threads.New(driver, nil)
	tool, begun, _ := gate(t)
	m := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if req.Messages[len(req.Messages)-1].Role == host.User {
			return hosttest.Call("gate", "{}")
		}
		return hosttest.Say("ok")
	})
	s := newService(t, newAgent(t, "clerk", m, tool), &sessions.Options{Store: store})
	for range 2 {
		out := run(t, s, &request{Session: "s", Text: "a", Detach: true})
		id := out.Snapshot[:bytes.IndexByte([]byte(out.Snapshot), ':')]
		runs = append(runs, id)
	}
	<-begun
	s.Close()
	return driver, store, runs
}

// damage flips a bit of a stored value.
func damage(t *testing.T, driver kv.Driver, key kv.Key) {
	t.Helper()
	e, err := driver.Get(t.Context(), threads.DefaultTenant, key)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(e.Value)
	bad[len(bad)/2] ^= 1
	if _, err := kv.Apply(t.Context(), driver, kv.Tx{Partition: threads.DefaultTenant, Writes: []kv.Write{kv.Put(key, bad)}}); err != nil {
		t.Fatal(err)
	}
}

func damagedKeys(t *testing.T, driver kv.Driver) (keys []kv.Key) {
	t.Helper()
	for e := range kv.Damaged(t.Context(), driver, threads.DefaultTenant) {
		keys = append(keys, e.Key)
	}
	return keys
}

func saysOK(t *testing.T) host.Target {
	return newAgent(t, "clerk", hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("ok") }))
}

func TestADamagedRecordDoesNotStopLaterTurns(t *testing.T) {
	for name, c := range map[string]struct {
		key       func(runs []string) kv.Key
		recovered int
	}{
		"of the first turn": {func(runs []string) kv.Key { return kv.NewKey("sessions", "run", runs[0]) }, 1},
		"of the last turn":  {func(runs []string) kv.Key { return kv.NewKey("sessions", "run", runs[1]) }, 1},
		"the order":         {func([]string) kv.Key { return kv.NewKey("sessions", "order", "s") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			driver, store, runs := twoLeft(t)
			key := c.key(runs)
			damage(t, driver, key)
			s := newService(t, saysOK(t), &sessions.Options{Store: store})
			n, err := s.Adopt(t.Context(), "")
			if n != c.recovered || c.recovered < 2 && host.CodeOf(err) != host.DataLoss {
				t.Errorf("Adopt = %d, %v, want %d turns, and the damaged record", n, err, c.recovered)
			}
			out := run(t, s, &request{Session: "s", Text: "next"})
			if out.FinishReason != chat.FinishStop {
				t.Errorf("the next turn is %+v", out)
			}
			if c.recovered == 2 {
				if left := damagedKeys(t, driver); len(left) != 0 {
					t.Errorf("the order is not stored again: %q are damaged", left)
				}
				return
			}
			if left := damagedKeys(t, driver); !slices.Equal(left, []kv.Key{key}) {
				t.Errorf("damaged are %q, want %s: a turn changes no damaged record", left, key)
			}
		})
	}
}

func TestRepairRemovesDamagedRecords(t *testing.T) {
	driver, store, runs := twoLeft(t)
	if removed, err := sessions.Repair(t.Context(), driver, "", "s"); err != nil || len(removed) > 0 {
		t.Errorf("Repair of a whole session = %q, %v", removed, err)
	}
	damage(t, driver, kv.NewKey("sessions", "run", runs[0]))
	if removed, err := sessions.Repair(t.Context(), driver, "", "other"); err != nil || len(removed) > 0 {
		t.Errorf("Repair of another session = %q, %v", removed, err)
	}
	damage(t, driver, kv.NewKey("sessions", "order", "s"))
	removed, err := sessions.Repair(t.Context(), driver, "", "s")
	if err != nil || !slices.Equal(removed, runs[:1]) {
		t.Errorf("Repair = %q, %v, want %q", removed, err, runs[:1])
	}
	if left := damagedKeys(t, driver); len(left) != 0 {
		t.Errorf("damaged are still %q", left)
	}
	s := newService(t, saysOK(t), &sessions.Options{Store: store})
	if n, err := s.Adopt(t.Context(), ""); n != 1 || err != nil {
		t.Errorf("Adopt = %d, %v, want the turn that is left", n, err)
	}
}
