package runlog

import (
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// AnswerLimits bound answers, in bytes of JSON.
type AnswerLimits struct {
	Arguments int // instead of the model's
	Value     int
}

// maxDenialReason bounds the reason of a denial that a model receives.
const maxDenialReason = 4 << 10

// check returns an error if the answer does not fit the question.
func (a *Answer) check(q *Question, limits AnswerLimits) error {
	misfit := func(format string, args ...any) error {
		return fault.Errorf(fault.InvalidArgument, "answer to question %q about %s: %w", q.ID, q.Tool, fault.Errorf(fault.InvalidArgument, format, args...))
	}
	switch a.Decision {
	case Approve:
		switch {
		case q.Kind == AskInput || q.Kind == AskResult:
			return misfit("it asks for a value, not an approval; decide %s or %s", Reply, Deny)
		case len(a.Value) > 0 || a.Reason != "":
			return misfit("an approval has neither value nor reason")
		case len(a.Arguments) > 0 && q.Kind == AskUnknown:
			return misfit("a call whose outcome is unknown can only be repeated as it was")
		case len(a.Arguments) > limits.Arguments:
			return fault.Errorf(fault.ResourceExhausted, "answer to question %q is %d bytes, more than the limit ArgumentBytes of %d", q.ID, len(a.Arguments), limits.Arguments)
		case len(a.Arguments) > 0 && jsondoc.Check(a.Arguments) != nil:
			return misfit("the arguments are not JSON")
		}
	case Deny:
		if len(a.Value) > 0 || len(a.Arguments) > 0 {
			return misfit("a denial has neither value nor arguments")
		}
		if len(a.Reason) > maxDenialReason {
			return misfit("the reason is %d bytes, more than %d", len(a.Reason), maxDenialReason)
		}
	case Reply:
		switch {
		case len(a.Arguments) > 0 || a.Reason != "":
			return misfit("a reply has neither arguments nor reason")
		case len(a.Value) == 0 || jsondoc.Check(a.Value) != nil:
			return misfit("the value is not JSON")
		case len(a.Value) > limits.Value:
			return fault.Errorf(fault.ResourceExhausted, "answer to question %q is %d bytes, more than the limit ResultBytes of %d", q.ID, len(a.Value), limits.Value)
		}
	default:
		return misfit("the decision is %q, not %s, %s or %s", a.Decision, Approve, Deny, Reply)
	}
	return nil
}

// Denied returns the error by which a model learns of a denial.
func (a *Answer) Denied(q *Question) *fault.Error {
	text := "A person did not allow this call."
	switch q.Kind {
	case AskInput:
		text = "A person did not answer the question of this tool."
	case AskResult:
		text = "The client did not execute this call."
	case AskUnknown:
		text = "It is not known whether this call took effect: the process ended while it ran. It was not repeated."
	}
	if reason := strings.TrimSpace(a.Reason); reason != "" {
		text += " Reason: " + reason
	}
	return fault.Errorf(fault.PermissionDenied, "%s", text)
}

// Match pairs answers with the questions of a run, by the ids of the questions. Each
// question has one answer. Code permission_denied for an answer to a question that was
// not asked, invalid_argument for a missing or second answer and for one that does not
// fit its question, resource_exhausted for one beyond the limits.
func Match(run string, questions []*Question, answers []Answer, limits AnswerLimits) (map[string]*Answer, error) {
	byID := make(map[string]*Question, len(questions))
	for _, q := range questions {
		byID[q.ID] = q
	}
	matched := make(map[string]*Answer, len(answers))
	for i := range answers {
		a := &answers[i]
		q := byID[a.Question]
		if q == nil {
			return nil, fault.Errorf(fault.PermissionDenied, "run %q asks no question %q", run, a.Question).
				WithHint("name a question by the id that its event carried")
		}
		if matched[a.Question] != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "question %q has two answers", a.Question)
		}
		if err := a.check(q, limits); err != nil {
			return nil, err
		}
		matched[a.Question] = a
	}
	for _, q := range questions {
		if matched[q.ID] == nil {
			return nil, fault.Errorf(fault.InvalidArgument, "question %q of run %q, about %s, has no answer", q.ID, run, q.Tool).
				WithHint("answer all of its %d questions at once", len(questions))
		}
	}
	return matched, nil
}

// Settle returns the answers to questions at a time: those that were given, and the
// defaults of questions that have expired. over is the question at which the run ends,
// nil if it continues. Code failed_precondition for an answer to a question that has
// expired.
func Settle(questions []*Question, given []Answer, now time.Time) (answers []Answer, over *Question, err error) {
	answers = given[:len(given):len(given)]
	for _, q := range questions {
		if !q.Expired(now) {
			continue
		}
		for i := range given {
			if given[i].Question == q.ID {
				return nil, nil, fault.Errorf(fault.FailedPrecondition, "question %q about %s has expired at %s", q.ID, q.Tool, q.Expires.Format(time.RFC3339)).
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

// ErrExpired returns the error that ends a run whose question was not answered in time.
func ErrExpired(run string, q *Question) *fault.Error {
	return fault.Errorf(fault.DeadlineExceeded, "question %q of run %q about %s has expired: there was no answer until %s", q.ID, run, q.Tool, q.Expires.Format(time.RFC3339))
}
