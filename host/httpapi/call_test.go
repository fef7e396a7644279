package httpapi_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
)

// TestARunOutlivesTheDeadlineOfItsBody waits for a run, as JSON and as events, for longer
// than a request may take to send its body.
func TestARunOutlivesTheDeadlineOfItsBody(t *testing.T) {
	const short = 20 * time.Millisecond
	s := newServer(t, func(o *httpapi.Options) {
		o.Bounds.BodyTimeout = short
		o.Targets.(targets)["slow"] = agentOf(t, "slow", func(ctx context.Context, _ *llm.Request) hosttest.Reply {
			late, cancel := context.WithTimeout(ctx, 5*short)
			defer cancel()
			<-late.Done()
			if ctx.Err() != nil {
				return hosttest.Fail(ctx.Err())
			}
			return hosttest.Say("done")
		})
	})
	for range 2 { // the second on the connection of the first
		var run httpapi.EndedRun
		s.do("acme", "POST", "/v1/runs", `{"target":"slow","text":"go","on_leave":"cancel"}`, 200, &run)
		if run.Status != runs.Completed || run.Text != "done" {
			t.Errorf("the run is %+v", run)
		}
		s.do("acme", "POST", "/v1/runs", `{"target":"slow","text":"go","on_leave":"cancel"}`, 202, &run, "Prefer", "respond-async")
		resp, raw := s.request("acme", "GET", "/v1/runs/"+run.ID+"/events", "")
		if resp.StatusCode != 200 || !bytes.Contains(raw, []byte("run.finished")) {
			t.Errorf("the events are %d %s", resp.StatusCode, raw)
		}
		s.do("acme", "GET", "/v1/me", "", 200, nil)
	}
}
