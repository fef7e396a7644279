package sessions_test

import (
	"context"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
	"github.com/agenthost/agenthost/internal/testhost"
)

// A question of a session whose time is over is settled by a host on the same store:
// the session goes on from what came of it.
func TestExpiredQuestionsOfSessions(t *testing.T) {
	nobody := &host.Answer{Decision: host.Reply, Value: []byte(`"nobody"`)}
	for name, row := range map[string]struct {
		byDefault  *host.Answer
		background bool
	}{"default": {nobody, false}, "end": {nil, false}, "default in the background": {nobody, true}} {
		t.Run(name, func(t *testing.T) {
			byDefault := row.byDefault
			store := threads.New(testdriver.New(t), nil)
			ask := host.NewTool("ask", "Asks.", func(_ context.Context, c *host.Call, _ struct{}) (*host.ToolOutput, error) {
				if len(c.Resumed) > 0 {
					return &host.ToolOutput{Content: c.Resumed[0].Answer}, nil
				}
				return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "sure?", Terms: &host.QuestionTerms{Key: "k", Timeout: time.Nanosecond, Default: byDefault}}}, nil
			}, nil)
			agent := newAgent(t, "clerk", model(hosttest.Call("ask", `{}`), hosttest.Say("one"), hosttest.Say("two")), ask)
			s := newService(t, agent, &sessions.Options{Store: store})
			out, err := s.Run(t.Context(), &request{Input: host.UserText("hi"), Detach: row.background})
			if err != nil {
				t.Fatal(err)
			}
			questions := out.Questions
			if row.background {
				questions = wait(t, s, out.Snapshot).Questions
			}
			if len(questions) != 1 {
				t.Fatalf("%+v asks %+v, want one question", out, questions)
			}
			history := testhost.NewHistory(t, store)
			h := testhost.NewSingle(t, &host.Options{History: history})
			if n, err := h.SettleExpired(t.Context(), agent, ""); n != 1 || err != nil {
				t.Fatalf("%d settled, %v", n, err)
			}
			next, asked := "two", false
			if byDefault == nil {
				next, asked = "one", true // the failed turn is not what a session goes on from
			}
			snap, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: out.Session})
			if err != nil || snap.Status != sessions.Completed || (snap.ID == out.Snapshot) != asked || len(snap.Questions) != 0 {
				t.Errorf("the session is at %+v, %v; want it at the question: %t, and nothing open", snap, err, asked)
			}
			out, err = s.Run(t.Context(), &request{Session: out.Session, Input: host.UserText("and?")})
			if err != nil || out.Text() != next {
				t.Errorf("the next turn is %+v, %v; want it to say %q", out, err, next)
			}
		})
	}
}
