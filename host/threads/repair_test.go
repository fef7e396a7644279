package threads_test

// Scenario: entries of a thread are damaged in the store. Repair replaces those that keep
// the thread from being read, and the conversation continues.

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

// keysWith returns the keys of the store that have a text in them.
func keysWith(t *testing.T, d kv.Driver, text string) (keys []kv.Key) {
	t.Helper()
	for _, key := range threadtest.KeysOf(t, d, threads.DefaultTenant) {
		if strings.Contains(key.String(), text) {
			keys = append(keys, key)
		}
	}
	return keys
}

// damageAt flips a bit in the middle of a stored value.
func damageAt(t *testing.T, d kv.Driver, key kv.Key) {
	t.Helper()
	e, err := d.Get(t.Context(), threads.DefaultTenant, key)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(e.Value)
	bad[len(bad)/2] ^= 1
	write(t, d, kv.Put(key, bad))
}

func TestRepairReplacesADamagedMessage(t *testing.T) {
	for at := range 8 {
		s, d := threadtest.NewStore(t, nil)
		threadtest.TalkWithIDs(t, s, "t1", 0, 4)
		before := threadtest.Load(t, s, "t1")
		damageAt(t, d, keysWith(t, d, fmt.Sprintf("/log/%d", at))[0])
		_, err := threads.New(d, nil).Get(t.Context(), threadtest.Request("t1", "", nil)) // s has the messages decoded
		threadtest.WantCode(t, "Get of the damaged thread", err, host.DataLoss)

		got, err := s.For("").Repair(t.Context(), "t1")
		lost := before.Messages[at]
		if err != nil || len(got.Messages) != 1 || got.Messages[0] != lost.ID || got.State {
			t.Fatalf("Repair = %+v, %v, want message %s", got, err, lost.ID)
		}
		want := threadtest.Texts(before.Messages)
		want[at] = threads.DamagedText
		after := threadtest.Load(t, s, "t1")
		threadtest.WantTexts(t, after.Messages, want...)
		if m := after.Messages[at]; m.ID != lost.ID || m.Role != lost.Role {
			t.Errorf("message %d is %s of %s, want %s of %s", at, m.ID, m.Role, lost.ID, lost.Role)
		}
		threadtest.TalkWithIDs(t, s, "t1", 4, 5)
		if v, err := s.For("").Verify(t.Context(), "t1"); err != nil || v.Messages != 10 {
			t.Errorf("Verify = %+v, %v", v, err)
		}
		if again, err := s.For("").Repair(t.Context(), "t1"); err != nil || len(again.Messages) > 0 {
			t.Errorf("Repair again = %+v, %v", again, err)
		}
	}
}

// Entries may be missing, and the place of a message may be lost with it.
func TestRepairReplacesMissingEntries(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 3)
	for _, missing := range []string{"/log/2", "/log/5"} {
		write(t, d, kv.Delete(keysWith(t, d, missing)[0]))
	}
	damageAt(t, d, keysWith(t, d, "/message/q1")[0])
	got, err := s.For("").Repair(t.Context(), "t1")
	if err != nil || len(got.Messages) != 2 || got.Messages[0] == "q1" || got.Messages[1] != "a2" {
		t.Fatalf("Repair = %+v, %v", got, err)
	}
	threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages,
		"question 0", "answer 0", threads.DamagedText, "answer 1", "question 2", threads.DamagedText)
	threadtest.TalkWithIDs(t, s, "t1", 3, 4)
}

func TestRepairGoesBackToTheLastReadableState(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 3)
	snap, err := s.For("").Snapshot(t.Context(), "t1", "r2")
	if err != nil {
		t.Fatal(err)
	}
	damageAt(t, d, keysWith(t, d, `/chunk/"`+snap.State.Digest)[0])
	got, err := s.For("").Repair(t.Context(), "t1")
	if err != nil || !got.State || got.StateOf != "r1" || len(got.Messages) > 0 {
		t.Fatalf("Repair = %+v, %v, want the state of r1", got, err)
	}
	if loaded := threadtest.Load(t, s, "t1"); string(loaded.State) != `{"n":1}` || len(loaded.Messages) != 6 {
		t.Errorf("the thread has %d messages and the state %s", len(loaded.Messages), loaded.State)
	}
	threadtest.TalkWithIDs(t, s, "t1", 3, 4)
}

// The record of the last turn may be damaged as well as its state.
func TestRepairPassesOverADamagedTurn(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 3)
	snap, err := s.For("").Snapshot(t.Context(), "t1", "r2")
	if err != nil {
		t.Fatal(err)
	}
	damageAt(t, d, keysWith(t, d, `/chunk/"`+snap.State.Digest)[0])
	damageAt(t, d, keysWith(t, d, "/turn/3")[0])
	got, err := s.For("").Repair(t.Context(), "t1")
	if err != nil || !got.State || got.StateOf != "r1" {
		t.Fatalf("Repair = %+v, %v, want the state of r1", got, err)
	}
	if loaded := threadtest.Load(t, s, "t1"); string(loaded.State) != `{"n":1}` {
		t.Errorf("the thread has the state %s", loaded.State)
	}
}

// A fork shows the replacements in the log of its parent.
func TestRepairOfAForkRepairsItsParentsLog(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 2)
	threadtest.Fork(t, s, "t1", "fork", threads.At{})
	threadtest.TalkWithIDs(t, s, "fork", 2, 3)
	damageAt(t, d, keysWith(t, d, "/log/1")[0])
	if got, err := s.For("").Repair(t.Context(), "fork"); err != nil || len(got.Messages) != 1 || got.Messages[0] != "a0" {
		t.Fatalf("Repair = %+v, %v", got, err)
	}
	for _, thread := range []string{"t1", "fork"} {
		if _, err := s.For("").Verify(t.Context(), thread); err != nil {
			t.Errorf("Verify of %s: %v", thread, err)
		}
	}
}

// Entries that PruneHeads has removed do not count as lost, and a thread without damage
// stays unchanged.
func TestRepairLeavesWhatWasPruned(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 1)
	for i := range 3 {
		threadtest.TalkWithIDs(t, s, "t1", i+1, i+2)
		threadtest.Rewind(t, s, "t1", threads.At{Snapshot: "r0"})
	}
	threadtest.TalkWithIDs(t, s, "t1", 4, 6)
	if got, err := s.For("").PruneHeads(t.Context(), "t1", threads.PruneHeadsOptions{Keep: 1}); err != nil || len(got.Branches) != 2 {
		t.Fatalf("PruneHeads = %+v, %v", got, err)
	}
	before := threadtest.KeysOf(t, d, threads.DefaultTenant)
	got, err := s.For("").Repair(t.Context(), "t1")
	if err != nil || len(got.Messages) > 0 || got.State {
		t.Errorf("Repair = %+v, %v, want nothing", got, err)
	}
	if after := threadtest.KeysOf(t, d, threads.DefaultTenant); !slices.Equal(before, after) {
		t.Errorf("Repair has made %d keys of %d", len(after), len(before))
	}

	keys := keysWith(t, d, "/log/")
	for _, key := range keys {
		damageAt(t, d, key)
	}
	got, err = s.For("").Repair(t.Context(), "t1")
	if err != nil || len(got.Messages) != len(keys) {
		t.Errorf("Repair = %+v, %v, want the %d messages that were there", got, err, len(keys))
	}
	if _, err := s.For("").Verify(t.Context(), "t1"); err != nil {
		t.Error(err)
	}
}

func TestRepairOfWhatCannotBeRepaired(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	_, err := s.For("").Repair(context.Background(), "none")
	threadtest.WantCode(t, "Repair of no thread", err, host.NotFound)
	threadtest.TalkWithIDs(t, s, "t1", 0, 1)
	damageAt(t, d, keysWith(t, d, "threads/thread/")[0])
	_, err = s.For("").Repair(context.Background(), "t1")
	threadtest.WantCode(t, "Repair of a damaged record", err, host.DataLoss)
}
