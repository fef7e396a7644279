package soak

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/chat"
)

// record is a ledger and the threads of a run in which everything was kept.
type record struct {
	turns   []Turn
	effects []Effect
	threads map[string][]*chat.Message
	open    map[string]OpenRun
}

func kept() *record {
	r := &record{threads: map[string][]*chat.Message{}}
	for i := range 6 {
		name, thread := fmt.Sprint("n", i), fmt.Sprint("t", i%2)
		asked := time.Duration(i+1) * time.Second
		r.turns = append(r.turns, Turn{
			Name: name, Thread: thread, Durable: true, Repeated: i < 4,
			Asked: asked, Begun: true, Acked: asked + time.Millisecond,
		})
		r.effects = append(r.effects, Effect{Turn: name, Key: "key of " + name, Host: "a"})
		r.threads[thread] = append(r.threads[thread], chat.UserText(askPrefix+name), chat.AssistantText(answerPrefix+name+": "+paid))
	}
	return r
}

func TestCheckFindsWhatWasNotKept(t *testing.T) {
	tests := []struct {
		name                  string
		change                func(r *record)
		lost, doubled, orders int
		failed, unheard       int
		says                  string
	}{
		{name: "everything is kept", change: func(*record) {}},
		{name: "an acknowledged turn is not stored", change: func(r *record) {
			r.threads["t0"] = slices.Delete(r.threads["t0"], 2, 4)
		}, lost: 1, says: "n2"},
		{name: "an acknowledged turn has no answer", change: func(r *record) {
			r.threads["t0"] = slices.Delete(r.threads["t0"], 3, 4)
		}, lost: 1, says: "n2"},
		{name: "the last turn is not stored", change: func(r *record) { r.threads["t1"] = r.threads["t1"][:4] }, lost: 1, says: "n5"},
		{name: "a thread is not stored", change: func(r *record) { delete(r.threads, "t1") }, lost: 3, says: "n1"},
		{name: "nothing is stored of a durable run that began", change: func(r *record) {
			r.turns[4].Acked = 0
			r.threads["t0"] = r.threads["t0"][:4]
		}, lost: 1, says: "n4"},
		{name: "a durable run ended, and its host was killed before it said so", change: func(r *record) {
			r.turns[4].Acked = 0
			r.threads["t0"] = r.threads["t0"][:5]
		}, unheard: 1},
		{name: "a durable run is open", change: func(r *record) {
			r.open = map[string]OpenRun{"n4": {Text: "it is open"}}
		}, lost: 1, says: "n4 of thread t0: its durable run never ended: it is open"},
		{name: "a durable run asks what its tool did", change: func(r *record) {
			r.turns[4].Acked, r.turns[4].Ended = 0, "interrupted "
			r.threads["t0"] = r.threads["t0"][:4]
			r.open = map[string]OpenRun{"n4": {Asks: true, Text: "it is interrupted"}}
		}},
		{name: "a durable run failed, as a host said", change: func(r *record) {
			r.turns[4].Acked, r.turns[4].Ended = 0, "failed conflict"
			r.threads["t0"] = r.threads["t0"][:4]
		}, failed: 1},
		{name: "a run that did not begin is not stored", change: func(r *record) {
			r.turns[4].Acked, r.turns[4].Begun = 0, false
			r.threads["t0"] = r.threads["t0"][:4]
		}},
		{name: "a run that is not durable and was not acknowledged is not stored", change: func(r *record) {
			r.turns[4].Acked, r.turns[4].Durable = 0, false
			r.threads["t0"] = r.threads["t0"][:4]
		}},
		{name: "a turn is stored without an acknowledgement", change: func(r *record) { r.turns[4].Acked = 0 }},
		{name: "an effect did not happen", change: func(r *record) { r.effects = r.effects[1:] }, lost: 1, says: "n0"},
		{name: "a turn is stored twice", change: func(r *record) {
			r.threads["t0"] = slices.Insert(r.threads["t0"], 4, r.threads["t0"][2:4]...)
		}, doubled: 1, says: "n2"},
		{name: "a turn has two answers", change: func(r *record) {
			r.threads["t0"] = slices.Insert(r.threads["t0"], 4, r.threads["t0"][3])
		}, doubled: 1, says: "n2"},
		{name: "a call has two keys", change: func(r *record) {
			r.effects = append(r.effects, Effect{Turn: "n0", Key: "another", Host: "b"})
		}, doubled: 1, says: "n0"},
		{name: "a call comes again under its key", change: func(r *record) { r.effects = append(r.effects, r.effects[0]) }},
		{name: "a call that must not be made again is", change: func(r *record) { r.effects = append(r.effects, r.effects[5]) }, doubled: 1, says: "n5"},
		{name: "two turns are in the wrong order", change: func(r *record) {
			r.threads["t0"] = slices.Concat(r.threads["t0"][2:4], r.threads["t0"][:2], r.threads["t0"][4:])
		}, orders: 1, says: "n0"},
		{name: "the first turn comes last", change: func(r *record) {
			r.threads["t0"] = slices.Concat(r.threads["t0"][2:], r.threads["t0"][:2])
		}, orders: 1, says: "n0"},
		{name: "turns that were asked for at one time have any order", change: func(r *record) {
			r.turns[0].Acked = r.turns[2].Acked
			r.threads["t0"] = slices.Concat(r.threads["t0"][2:4], r.threads["t0"][:2], r.threads["t0"][4:])
		}},
		{name: "two turns are mixed", change: func(r *record) {
			t := r.threads["t0"]
			t[1], t[2] = t[2], t[1]
		}, orders: 1, lost: 1, says: "n0"},
		{name: "a turn is in another thread", change: func(r *record) {
			r.threads["t0"], r.threads["t1"] = r.threads["t0"][:4], append(r.threads["t1"], r.threads["t0"][4:]...)
		}, orders: 2, says: "n4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := kept()
			tt.change(r)
			got := Check(r.turns, r.effects, &Stored{Threads: r.threads, Open: r.open})
			if len(got.Lost) != tt.lost || len(got.Doubled) != tt.doubled || len(got.OutOfOrder) != tt.orders {
				t.Errorf("%d lost, %d doubled, %d out of order; want %d, %d, %d:\n%q\n%q\n%q", len(got.Lost), len(got.Doubled), len(got.OutOfOrder),
					tt.lost, tt.doubled, tt.orders, got.Lost, got.Doubled, got.OutOfOrder)
			}
			if all := fmt.Sprint(got.Lost, got.Doubled, got.OutOfOrder); !strings.Contains(all, tt.says) {
				t.Errorf("the report %q does not name %s", all, tt.says)
			}
			if len(got.Failed) != tt.failed {
				t.Errorf("failed runs: %q, want %d", got.Failed, tt.failed)
			}
			if len(got.Unheard) != tt.unheard {
				t.Errorf("unheard ends: %q, want %d", got.Unheard, tt.unheard)
			}
			if got.Kept() != (tt.lost+tt.doubled+tt.orders == 0) {
				t.Errorf("Kept is %v", got.Kept())
			}
		})
	}
}
