package reduce_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/reduce"
)

// talk is a thread that is read through a window, a queue whose jobs run when
// somebody says so, and a place for summaries.
type talk struct {
	messages []*host.Message
	jobs     []*host.Job
	keys     map[string]bool
	summary  *reduce.Summary
	err      error // of Enqueue
}

const talkWindow = 2000

func (t *talk) Get(context.Context, *host.HistoryRequest) (*host.Loaded, error) {
	return &host.Loaded{Messages: t.window()}, nil
}

func (t *talk) window() []*host.Message { return t.messages[max(0, len(t.messages)-talkWindow):] }

func (t *talk) Enqueue(_ context.Context, job *host.Job) (string, error) {
	if t.err != nil {
		return "", t.err
	}
	if t.keys[job.Key] {
		return "", host.Errorf(host.AlreadyExists, "again")
	}
	if t.keys == nil {
		t.keys = map[string]bool{}
	}
	t.keys[job.Key] = true
	t.jobs = append(t.jobs, job)
	return "1", nil
}

func (t *talk) Load(context.Context, host.Scope) (*reduce.Summary, error) { return t.summary, nil }

func (t *talk) Save(_ context.Context, _ host.Scope, s *reduce.Summary) error {
	t.summary = s
	return nil
}

func (t *talk) view() *host.View {
	v := llm.NewView(t.window(), "m", nil)
	v.Scope = host.Scope{Tenant: "acme", Thread: "t1"}
	return v
}

// A thread of 10,000 messages: no message is given to the model twice, no view
// waits for a model, and views stay short.
func TestProgressiveSummarizesEachMessageOnce(t *testing.T) {
	const length, target, batch = 10_000, 20, 50
	th := &talk{}
	calls, given := 0, map[string]int{}
	inReduce := false
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if inReduce {
			t.Error("a view waits for the model")
		}
		calls++
		for _, m := range req.Messages {
			if m.Role == host.User {
				given[m.Text()]++
			}
		}
		return hosttest.Say(fmt.Sprintf("summary %d", calls))
	})
	p, err := reduce.NewProgressive(model, target, th, th, th, &reduce.ProgressiveOptions{Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	for len(th.messages) < length {
		n := strconv.Itoa(len(th.messages))
		th.messages = append(th.messages, &host.Message{ID: "u" + n, Role: host.User, Parts: []host.Part{&host.Text{Text: n}}},
			&host.Message{ID: "a" + n, Role: host.Assistant, Parts: []host.Part{&host.Text{Text: "yes"}}})
		inReduce = true
		view, err := p.Reduce(t.Context(), th.view())
		inReduce = false
		if err != nil {
			t.Fatal(err)
		}
		if len(view) > target+batch+3 {
			t.Fatalf("a view of %d messages at %d", len(view), len(th.messages))
		}
		for _, job := range th.jobs { // after the turn
			if err := p.HandleJob(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		th.jobs = nil
	}
	for text, n := range given {
		if n != 1 {
			t.Errorf("message %s was summarized %d times", text, n)
		}
	}
	if most := length/batch + 1; calls > most || calls < length/(batch+target) {
		t.Errorf("the model was asked %d times, want about %d", calls, length/batch)
	}
	if 2*len(given) < length-target-batch-3 {
		t.Errorf("%d of %d users' messages are summarized", len(given), length/2)
	}
	view, err := p.Reduce(t.Context(), th.view())
	if err != nil || view[0].Text() != fmt.Sprintf("summary %d", calls) {
		t.Errorf("a view begins with %q, %v", view[0].Text(), err)
	}
}

func TestProgressiveWhenThingsFail(t *testing.T) {
	th := &talk{}
	for i := range 200 {
		th.messages = append(th.messages, host.UserText(strings.Repeat("x", i+1)))
	}
	model := hosttest.NewModel(hosttest.Fail(errors.New("down")), hosttest.Say("short"))
	p, err := reduce.NewProgressive(model, 10, th, th, th, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := p.Reduce(t.Context(), th.view())
	if err != nil || len(view) != 200 || len(th.jobs) != 1 {
		t.Fatalf("%d messages, %d jobs, %v", len(view), len(th.jobs), err)
	}
	if _, err := p.Reduce(t.Context(), th.view()); err != nil || len(th.jobs) != 1 {
		t.Errorf("%d jobs for one stage, %v", len(th.jobs), err)
	}
	if err := p.HandleJob(t.Context(), th.jobs[0]); err == nil || th.summary != nil {
		t.Errorf("the model's failure: %v, %v", err, th.summary)
	}
	if err := p.HandleJob(t.Context(), th.jobs[0]); err != nil || th.summary == nil || th.summary.Text != "short" {
		t.Errorf("tried again: %v, %v", err, th.summary)
	}
	th.messages = append(th.messages[:100:100], th.messages[150:]...) // edited: what the summary reaches to may be gone
	th.summary.Through = "gone"
	th.err = errors.New("no queue")
	if _, err := p.Reduce(t.Context(), th.view()); err == nil {
		t.Error("what cannot be queued is no error")
	}
	th.err = host.Errorf(host.ResourceExhausted, "full")
	if view, err := p.Reduce(t.Context(), th.view()); err != nil || len(view) != len(th.messages) {
		t.Errorf("a full queue: %d messages, %v", len(view), err)
	}
	for name, make := range map[string]func() (*reduce.Progressive, error){
		"no history":   func() (*reduce.Progressive, error) { return reduce.NewProgressive(model, 1, nil, th, th, nil) },
		"no queue":     func() (*reduce.Progressive, error) { return reduce.NewProgressive(model, 1, th, nil, th, nil) },
		"no summaries": func() (*reduce.Progressive, error) { return reduce.NewProgressive(model, 1, th, th, nil, nil) },
		"no model":     func() (*reduce.Progressive, error) { return reduce.NewProgressive(nil, 1, th, th, th, nil) },
		"no target":    func() (*reduce.Progressive, error) { return reduce.NewProgressive(model, 0, th, th, th, nil) },
		"negative batch": func() (*reduce.Progressive, error) {
			return reduce.NewProgressive(model, 1, th, th, th, &reduce.ProgressiveOptions{Batch: -1})
		},
	} {
		if _, err := make(); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A message that is too much for the model is shown shortened, and holds up nothing.
func TestProgressiveGetsPastLargeMessages(t *testing.T) {
	const bound = 1 << 10
	th := &talk{}
	for i := range 40 {
		m := host.UserText(fmt.Sprintf("%d %s", i, strings.Repeat("x", 3*bound*(i%2))))
		m.ID = fmt.Sprint("m", i)
		th.messages = append(th.messages, m)
	}
	given := map[string]int{}
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		for _, m := range req.Messages {
			if m.Role != host.User {
				continue
			}
			number, _, _ := strings.Cut(m.Text(), " ")
			given[number]++
			if len(m.Text()) > bound {
				t.Errorf("message %s is shown with %d bytes", number, len(m.Text()))
			}
		}
		return hosttest.Say("short")
	})
	p, err := reduce.NewProgressive(model, 5, th, th, th, &reduce.ProgressiveOptions{Batch: 5, InputBytes: bound})
	if err != nil {
		t.Fatal(err)
	}
	th.jobs = []*host.Job{{Scope: host.Scope{Thread: "t1"}}}
	for len(th.jobs) > 0 {
		job := th.jobs[0]
		th.jobs = th.jobs[1:]
		if err := p.HandleJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		if n := given[fmt.Sprint(i)]; n != 1 {
			t.Errorf("message %d was summarized %d times", i, n)
		}
	}
}
