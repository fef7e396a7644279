package runcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lookup"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

// questionOf finds the question that a person means: by its id, by that of its
// call, or by its tool.
func questionOf(questions []*host.Question, name string) (*host.Question, error) {
	var byTool, calls []*host.Question
	for _, q := range questions {
		if q.ID == name || q.ToolCall == name || q.Key != "" && q.Key == name {
			return q, nil
		}
		if calls = append(calls, q); q.Tool == name {
			byTool = append(byTool, q)
		}
	}
	if len(byTool) == 1 {
		return byTool[0], nil
	}
	names := make([]string, len(calls))
	for i, q := range calls {
		names[i] = fmt.Sprintf("%s (%s)", termtext.Printable(q.ToolCall), termtext.Printable(q.Tool))
	}
	return nil, host.Errorf(host.NotFound, "the run asks nothing about %q", name).
		WithHint("it asks about: %s", strings.Join(names, ", "))
}

// resume continues a run. If the run asks questions and the flags have no answers,
// resume shows the questions; a run whose process ended needs no answers.
func (s *conversation) resume(ctx context.Context, f *answerFlags) error {
	if err := s.findRun(ctx, f); err != nil {
		return err
	}
	req := &host.Request{Tenant: s.app.Tenant(s.tenant), Resume: f.resume}
	questions, err := s.app.Host().Questions(ctx, s.target, req.Tenant, f.resume)
	switch {
	case host.CodeOf(err) == host.FailedPrecondition && !f.given():
		return s.stream(ctx, req)
	case err != nil:
		return err
	case !f.given() && anyExpired(questions):
		return s.stream(ctx, req)
	case !f.given():
		s.showQuestions(f.resume, questions)
		return nil
	}
	if req.Answers, err = f.answers(); err != nil {
		return err
	}
	for i := range req.Answers {
		q, err := questionOf(questions, req.Answers[i].Question)
		if err != nil {
			return err
		}
		req.Answers[i].Question = q.ID
	}
	return s.stream(ctx, req)
}

// findByKey names the run that --question means.
func (s *conversation) findByKey(ctx context.Context, f *answerFlags) error {
	found, err := s.app.Host().FindQuestions(ctx, s.target, s.app.Tenant(s.tenant), f.question)
	if err != nil {
		return err
	}
	if f.resume = found[0].Run; len(found) > 1 {
		runs := make([]string, len(found))
		for i, w := range found {
			runs[i] = w.Run
		}
		return host.Errorf(host.Conflict, "%d runs ask questions of the key %q", len(found), f.question).
			WithHint("name one with --resume: %s", strings.Join(runs, ", "))
	}
	return nil
}

// settleExpired continues the runs of the target whose questions have expired.
func (s *conversation) settleExpired(ctx context.Context) error {
	n, err := s.app.Host().SettleExpired(ctx, s.target, s.app.Tenant(s.tenant))
	if err != nil {
		return err
	}
	if s.json {
		return ui.PrintJSON(s.term.Out, map[string]int{"settled": n})
	}
	fmt.Fprintf(s.term.Out, "%s settled.\n", ui.Plural(n, "run"))
	return nil
}

// anyExpired reports whether a question has expired, so that its run continues, or
// ends, without an answer.
func anyExpired(questions []*host.Question) bool {
	return slices.ContainsFunc(questions, func(q *host.Question) bool { return q.Expires != nil && !time.Now().Before(*q.Expires) })
}

// findRun completes the id of a run, and refuses a run whose thread has continued
// without the answer.
func (s *conversation) findRun(ctx context.Context, f *answerFlags) (err error) {
	if f.question != "" {
		if err := s.findByKey(ctx, f); err != nil {
			return err
		}
	}
	tenant := s.app.Tenant(s.tenant)
	if f.resume, err = lookup.Run(ctx, s.app.Threads(), tenant, f.resume); err != nil {
		return err
	}
	r, err := s.app.Threads().ReadRun(ctx, tenant, f.resume)
	if err != nil {
		return nil // reading its questions reports the error
	}
	ok, err := lookup.IsAnswerable(ctx, s.app.Threads(), tenant, r)
	if err != nil || ok {
		return err
	}
	return host.Errorf(host.Conflict, "run %q cannot be answered any more: thread %q has gone on without it", r.Run, r.Thread).
		WithHint("say what is wanted in a new message; agenthost thread runs lists the runs that wait")
}

// showQuestions prints the questions of a run that another command began.
func (s *conversation) showQuestions(run string, questions []*host.Question) {
	s.asked = openQuestions{run, questions}
	if s.json {
		_ = ui.PrintItems(s.term.Out, questions) // as in the events, a failed write is ignored
		return
	}
	for _, q := range questions {
		fmt.Fprintln(s.term.Err, ui.QuestionText(q))
	}
}
