package host

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runlog"
)

// The questions of interrupted runs and their answers are those of the package runlog.
type (
	// Question is the question of an interrupted run about one tool call. The run
	// continues when each of its questions has an [Answer]. See [runlog.Question].
	Question = runlog.Question

	// QuestionKind is the kind of answer that a run waits for.
	QuestionKind = runlog.QuestionKind

	// Answer answers a [Question]: see [runlog.Answer].
	Answer = runlog.Answer

	// Decision is the decision of an answer.
	Decision = runlog.Decision

	// Resumption is a person's answer to a question that a call has asked. Its JSON
	// is the plugin contract's.
	Resumption = runlog.Resumption

	// QuestionTerms give a question a name to be found by and a time to expire: see
	// [runlog.Terms].
	QuestionTerms = runlog.Terms
)

// The kinds of questions.
const (
	AskApproval = runlog.AskApproval // whether a tool may run: see [ApprovalRule]
	AskInput    = runlog.AskInput    // a tool's own question: see [Interrupt]
	AskResult   = runlog.AskResult   // the result of a call that the client executes: see [NewClientTool]
	AskUnknown  = runlog.AskUnknown  // the outcome of a call whose process ended while the tool ran
)

// The decisions.
const (
	Approve = runlog.Approve // lets the tool run, with other arguments if the answer has some
	Deny    = runlog.Deny    // makes the call fail: the model receives the reason
	Reply   = runlog.Reply   // gives a value: the answer to a tool's own question, or the result of the call
)

// MaxQuestionTimeout is the longest [QuestionTerms].Timeout.
const MaxQuestionTimeout = runlog.MaxTimeout

// newQuestionID returns an id with 122 random bits: with the run's tenant it is
// all that an answer must show.
func newQuestionID() string { return chat.RandomID() }

// answerLimits returns the bounds of answers to questions.
func answerLimits(l *Limits) runlog.AnswerLimits {
	return runlog.AnswerLimits{Arguments: l.ArgumentBytes, Value: l.ResultBytes}
}

// TermsRule returns the terms of a question about a call; nil is none. A tool may
// have a rule, and so may a network and a host: the first that gives terms counts,
// after those of the tool's own [Interrupt]. It is asked in the run's goroutine,
// once for each question, and may read the state and the scope. An error fails the
// call.
type TermsRule func(ctx context.Context, call *Call, q *Question) (*QuestionTerms, error)

// setTerms gives a call's question its terms.
func (tc *toolCalls) setTerms(ctx context.Context, c *toolCall) error {
	terms, err := tc.termsOf(ctx, c)
	if err != nil || terms == nil {
		return wrapError(err, "how long a question about %s stands cannot be decided", c.part.Name)
	}
	if terms.Key != "" {
		if err := chat.ValidateID("question", terms.Key, chat.MaxIDBytes); err != nil {
			return wrapError(err, "key of a question about %s", c.part.Name)
		}
	}
	return terms.Apply(c.question, time.Now(), answerLimits(tc.limits))
}

func (tc *toolCalls) termsOf(ctx context.Context, c *toolCall) (*QuestionTerms, error) {
	if ask := c.output.Interrupt; ask != nil && ask.Terms != nil {
		return ask.Terms, nil
	}
	var ofTool TermsRule
	if tool := tc.toolNamed(c.part.Name); tool != nil {
		ofTool = tool.terms
	}
	for _, rule := range []TermsRule{ofTool, tc.net.opts.Terms, tc.host.opts.Terms} {
		if rule == nil {
			continue
		}
		var terms *QuestionTerms
		q := *c.question
		err := tc.guardCall(ctx, c.part.Name, func() (err error) { terms, err = rule(ctx, c.attempt, &q); return err })
		if terms != nil || err != nil {
			return terms, err
		}
	}
	if tc.unstored {
		return &QuestionTerms{Timeout: llm.UnstoredTimeout}, nil
	}
	return nil, nil
}

// WaitingRun is a run that waits for answers.
type WaitingRun struct {
	Run       string      `json:"run"`
	Thread    string      `json:"thread,omitempty"`
	Questions []*Question `json:"questions"` // all of the run's
}

// FindQuestions returns the runs of a target that ask a question of a key, for a
// tenant. Code not_found if none does, failed_precondition for a host whose journal
// is no [QuestionKeeper], invalid_argument without a key.
func (h *Host) FindQuestions(ctx context.Context, target Target, tenant, key string) ([]*WaitingRun, error) {
	if key == "" {
		return nil, Errorf(InvalidArgument, "questions are looked for without a key")
	}
	var found []*WaitingRun
	err := h.eachWaiting(ctx, target, tenant, WaitingFilter{Key: key}, func(rec *RunRecord) error {
		questions, err := h.Questions(ctx, target, tenant, rec.Run)
		switch CodeOf(err) {
		case "":
			found = append(found, &WaitingRun{rec.Run, rec.Thread, questions})
		case Conflict, NotFound, FailedPrecondition: // it was answered meanwhile
		default:
			return err
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = Errorf(NotFound, "no run of %q asks a question of the key %q", target.Name(), key).
			WithHint("it was answered, has expired, or was never asked")
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// AnswerQuestion answers the question of a key and resumes its run: req is the
// request to resume it, without Resume and Answers. Errors are those of
// FindQuestions and Run; code conflict if two runs ask questions of the key, and
// invalid_argument if the run asks something else as well, which must be answered
// with it.
func (h *Host) AnswerQuestion(ctx context.Context, target Target, key string, answer Answer, req *Request) (*RunResult, error) {
	if req == nil {
		req = &Request{}
	}
	found, err := h.FindQuestions(ctx, target, req.Tenant, key)
	if err != nil {
		return nil, err
	}
	own := *req
	own.Resume = ""
	for _, w := range found {
		for _, q := range w.Questions {
			if q.Key != key {
				continue
			}
			if own.Resume != "" {
				return nil, Errorf(Conflict, "more than one question has the key %q", key).
					WithHint("answer one by the id of its run: FindQuestions names them")
			}
			answer.Question = q.ID
			own.Resume, own.Answers = w.Run, []Answer{answer}
		}
	}
	return h.Run(ctx, target, &own)
}

// SettleExpired resumes the runs of a target, for a tenant, that ask a question
// whose time is over: those with defaults continue with them, the others end. A run
// that also asks a question that has not expired waits for it, unless it ends. It
// returns how many continued or ended, and the first error of another kind, after
// all were tried. A program calls it now and then, such as every minute; several
// may at once, for a question is answered once. Sessions that a threads.Store keeps
// are settled by a host on that store. Code failed_precondition for a host whose
// journal is no [QuestionKeeper].
func (h *Host) SettleExpired(ctx context.Context, target Target, tenant string) (n int, err error) {
	var first error
	now := time.Now()
	err = h.eachWaiting(ctx, target, tenant, WaitingFilter{Due: now}, func(rec *RunRecord) error {
		switch waits, err := h.waitsForOthers(ctx, target, tenant, rec.Run, now); {
		case ctx.Err() != nil:
			return fault.ContextError(ctx)
		case waits || CodeOf(err) == Conflict || CodeOf(err) == NotFound:
			return nil
		}
		result, err := h.Run(ctx, target, &Request{Tenant: tenant, Resume: rec.Run})
		switch {
		case ctx.Err() != nil:
			return fault.ContextError(ctx)
		case err == nil, result != nil && result.Run != "" && CodeOf(err) == DeadlineExceeded:
			n++
		case CodeOf(err) == Conflict || CodeOf(err) == NotFound: // another was faster
		case first == nil:
			first = wrapError(err, "run %q", rec.Run)
		}
		return nil
	})
	if err == nil {
		err = first
	}
	return n, err
}

// waitsForOthers reports whether a run asks, beside its expired questions with
// defaults, another that must be answered with them.
func (h *Host) waitsForOthers(ctx context.Context, target Target, tenant, run string, now time.Time) (bool, error) {
	questions, err := h.Questions(ctx, target, tenant, run)
	if err != nil {
		return false, err
	}
	answers, over, err := runlog.Settle(questions, nil, now)
	return err == nil && over == nil && len(answers) < len(questions), err
}

// eachWaiting calls fn for runs of a target that wait for answers.
func (h *Host) eachWaiting(ctx context.Context, target Target, tenant string, filter WaitingFilter, fn func(*RunRecord) error) error {
	tenant, err := h.Tenant(tenant)
	if err != nil {
		return err
	}
	j := h.journalOf(h.historyOf(target.network()))
	if j == nil {
		return errNoJournal()
	}
	for {
		page, err := j.WaitingRuns(ctx, tenant, filter)
		if err != nil {
			return wrapError(err, "look for questions")
		}
		for _, rec := range page {
			if filter.After = rec.Run; rec.Target != target.Name() {
				continue
			}
			if err := fn(rec); err != nil {
				return err
			}
		}
		if len(page) < MaxWaitingRuns {
			return nil
		}
	}
}
