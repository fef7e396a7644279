package threads_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// weighed counts the bytes of values that scans read.
type weighed struct {
	kv.Driver
	scanned int
}

func (w *weighed) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	page, err := w.Driver.Scan(ctx, partition, r)
	for _, e := range page.Entries {
		w.scanned += len(e.Value)
	}
	return page, err
}

// A conversation that was rewound often is of many parts. A rewind reads the messages near
// its place, each about once, and none behind the part that it is in.
func TestARewindReadsNoMoreThanTheMessagesNearIt(t *testing.T) {
	const turns, size = 40, 10_000
	d := &weighed{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	for range turns {
		run := host.NewID()
		head := threadtest.Say(t, s, "t1", run, host.UserText("a question"))
		stays := host.AssistantText(strings.Repeat("x", size))
		threadtest.Answer(t, s, "t1", run, head, stays, host.AssistantText("hidden"))
		threadtest.Rewind(t, s, "t1", threads.At{Message: stays.ID})
	}
	middle := threadtest.Load(t, s, "t1").Messages[turns].ID
	d.scanned = 0
	threadtest.Rewind(t, s, "t1", threads.At{Message: middle})
	if most := 3 * turns * size; d.scanned > most {
		t.Errorf("a rewind reads %d bytes of a thread of %d, want at most %d", d.scanned, turns*size, most)
	}
}
