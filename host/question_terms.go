package host

import (
	"context"
	"encoding/json"
	"time"
)

// QuestionTerms give a question a name to be found by and a time to expire.
type QuestionTerms struct {
	// Key is the program's name for the question, such as the number of an order:
	// see [Host.FindQuestions]. At most [MaxIDBytes]. Keys are a tenant's, and not
	// secret: a program that answers by key checks the permission itself.
	Key string

	// Timeout is the time until the question expires; 0 is never. After that no
	// answer is taken but Default; without Default the run ends, failed with code
	// deadline_exceeded. Both happen when the run is resumed, without answers, by
	// anyone: see [Host.SettleExpired].
	Timeout time.Duration

	// Default is the answer after Timeout; nil is none. It must fit the question, as
	// any answer does: a question that asks for a value cannot be approved. Its
	// Question is not looked at.
	Default *Answer
}

// MaxQuestionTimeout is the longest [QuestionTerms].Timeout.
const MaxQuestionTimeout = 10 * 366 * 24 * time.Hour

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
	q := c.question
	switch err := ValidateID("question", terms.Key, MaxIDBytes); {
	case terms.Key != "" && err != nil:
		return wrapError(err, "key of a question about %s", c.part.Name)
	case terms.Timeout < 0 || terms.Timeout > MaxQuestionTimeout:
		return Errorf(InvalidArgument, "a question about %s stands for %s, which is not between 0 and %s", c.part.Name, terms.Timeout, MaxQuestionTimeout)
	case terms.Default != nil && terms.Timeout == 0:
		return Errorf(InvalidArgument, "a question about %s has a default and no timeout", c.part.Name).WithHint("say after which time the default is the answer")
	}
	q.Key = terms.Key
	if terms.Timeout > 0 {
		at := time.Now().Add(terms.Timeout).UTC()
		q.Expires = &at
	}
	if terms.Default != nil {
		own := *terms.Default
		own.Question = q.ID
		if err := own.check(q, tc.limits); err != nil {
			return wrapError(err, "default")
		}
		q.Default = &own
	}
	return nil
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
		err := tc.guardCall(c.part.Name, func() (err error) { terms, err = rule(ctx, c.attempt, &q); return err })
		if terms != nil || err != nil {
			return terms, err
		}
	}
	return nil, nil
}

// expired reports whether no answer but the default is taken any more.
func (q *Question) expired(now time.Time) bool { return q.Expires != nil && !now.Before(*q.Expires) }

// settled returns the answers to questions at a time: those that were given, and
// the defaults of questions that have expired. over is the question at which the
// run ends, nil if it continues.
func settled(questions []*Question, given []Answer, now time.Time) (answers []Answer, over *Question, err error) {
	answers = given[:len(given):len(given)]
	for _, q := range questions {
		if !q.expired(now) {
			continue
		}
		for i := range given {
			if given[i].Question == q.ID {
				return nil, nil, Errorf(FailedPrecondition, "question %q about %s has expired at %s", q.ID, q.Tool, q.Expires.Format(time.RFC3339)).
					WithHint("resume the run without an answer to it")
			}
		}
		switch {
		case q.Default != nil:
			answers = append(answers, *q.Default)
		case over == nil:
			over = q
		}
	}
	return answers, over, nil
}

// errExpired ends a run whose question was not answered in time.
func errExpired(run string, q *Question) error {
	return Errorf(DeadlineExceeded, "question %q of run %q about %s has expired: there was no answer until %s", q.ID, run, q.Tool, q.Expires.Format(time.RFC3339))
}

// AskedQuestion is the record of a question in a [QuestionKeeper].
type AskedQuestion struct {
	ID      string     `json:"id"`
	Key     string     `json:"key,omitempty"`
	Expires *time.Time `json:"expires_at,omitempty"`
}

// WaitingFilter chooses runs that wait for answers. An empty field excludes none.
type WaitingFilter struct {
	Key   string    // of a question of theirs
	Due   time.Time // a question of theirs expires at this time or before
	After string    // the id of a run: those behind it, in the order of ids
}

// Takes reports whether the questions of a run are chosen, for implementations of
// [QuestionKeeper].
func (f WaitingFilter) Takes(asks []AskedQuestion) bool {
	key, due := f.Key == "", f.Due.IsZero()
	for _, a := range asks {
		key = key || a.Key == f.Key
		due = due || a.Expires != nil && !a.Expires.After(f.Due)
	}
	return key && due
}

// MaxWaitingRuns is how many runs a [QuestionKeeper] returns at once.
const MaxWaitingRuns = 100

// QuestionKeeper is an optional interface of a [Journal], so that questions are
// found by their keys and times, across restarts. Without it they are answered by
// the id of their run alone.
type QuestionKeeper interface {
	// LeaveRun is EndRun with the status interrupted for a run that asks; its
	// questions are stored in the same commit. (Of CreateRun that is
	// [RunRecord].Asks.)
	LeaveRun(ctx context.Context, ref RunRef, rest json.RawMessage, asks []AskedQuestion) error

	// WaitingRuns returns runs of a tenant that are interrupted and that filter
	// takes, in the order of their ids and without their steps: the first
	// [MaxWaitingRuns].
	WaitingRuns(ctx context.Context, tenant string, filter WaitingFilter) ([]*RunRecord, error)
}

func asksOf(questions []*Question) []AskedQuestion {
	asks := make([]AskedQuestion, len(questions))
	for i, q := range questions {
		asks[i] = AskedQuestion{q.ID, q.Key, q.Expires}
	}
	return asks
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
			return ContextError(ctx)
		case waits || CodeOf(err) == Conflict || CodeOf(err) == NotFound:
			return nil
		}
		result, err := h.Run(ctx, target, &Request{Tenant: tenant, Resume: rec.Run})
		switch {
		case ctx.Err() != nil:
			return ContextError(ctx)
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
	answers, over, err := settled(questions, nil, now)
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

var _ QuestionKeeper = (*guardedJournal)(nil)

// LeaveRun stores the questions too, if the journal keeps them.
func (g *guardedJournal) LeaveRun(ctx context.Context, ref RunRef, rest json.RawMessage, asks []AskedQuestion) error {
	keeper, ok := g.journal.(QuestionKeeper)
	if !ok {
		return g.EndRun(ctx, ref, RunInterrupted, rest)
	}
	_, err := callJournal(ctx, g, "LeaveRun", ref.Run, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, keeper.LeaveRun(ctx, ref, rest, asks)
	})
	return err
}

func (g *guardedJournal) WaitingRuns(ctx context.Context, tenant string, filter WaitingFilter) ([]*RunRecord, error) {
	keeper, ok := g.journal.(QuestionKeeper)
	if !ok {
		return nil, Errorf(FailedPrecondition, "the journal finds no questions by their keys or times").
			WithHint("use one that is a QuestionKeeper, such as a threads.Store")
	}
	return callJournal(ctx, g, "WaitingRuns", "", func(ctx context.Context) ([]*RunRecord, error) {
		return keeper.WaitingRuns(ctx, tenant, filter)
	})
}
