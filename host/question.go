package host

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/chat"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// QuestionKind is the kind of answer that a run waits for.
type QuestionKind string

// The kinds of questions.
const (
	// AskApproval asks whether a tool may run: see [ApprovalRule].
	AskApproval QuestionKind = "approval"
	// AskInput is a tool's own question: see [Interrupt].
	AskInput QuestionKind = "input"
	// AskResult asks for the result of a call that the client executes: see
	// [NewClientTool].
	AskResult QuestionKind = "result"
	// AskUnknown asks for the outcome of a call: the process ended while the tool
	// ran, and the tool must not run twice.
	AskUnknown QuestionKind = "unknown"
)

// Question is the question of an interrupted run about one tool call. The run
// continues when each of its questions has an [Answer].
type Question struct {
	ID        string          `json:"id"` // given by the host, and not to be guessed: only who was asked can answer
	Kind      QuestionKind    `json:"kind"`
	Agent     string          `json:"agent,omitempty"`
	ToolCall  string          `json:"tool_call"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Reason    string          `json:"reason,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"` // of a tool's own question

	Key     string     `json:"key,omitempty"`        // by which the program finds it: see [QuestionTerms]
	Expires *time.Time `json:"expires_at,omitempty"` // after which no answer is taken but Default; nil is never
	Default *Answer    `json:"default,omitempty"`    // nil: the run ends

	// Via are the calls of agents used as tools that lead to it, the outermost first:
	// their ids.
	Via []string `json:"via,omitempty"`
}

// Decision is the decision of an answer.
type Decision string

// The decisions.
const (
	// Approve lets the tool run, with other arguments if the answer has some.
	// Where the outcome is unknown it lets it run again.
	Approve Decision = "approve"
	// Deny makes the call fail: the model receives the reason.
	Deny Decision = "deny"
	// Reply gives a value: to a tool's own question its answer, with which the
	// tool is called again; to any other question the result of the call, which
	// then does not run.
	Reply Decision = "reply"
)

// Answer answers a [Question].
type Answer struct {
	Question  string          `json:"question"` // its ID
	Decision  Decision        `json:"decision"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // of an approval: instead of the model's
	Reason    string          `json:"reason,omitempty"`    // of a denial
	Value     json.RawMessage `json:"value,omitempty"`     // of a reply: any JSON
}

// Resumption is a person's answer to a question that a call has asked. Its JSON
// is the plugin contract's.
type Resumption struct {
	Question string          `json:"interrupt_id"`
	Answer   json.RawMessage `json:"answer"`
}

// newQuestionID returns an id with 122 random bits: with the run's tenant it is
// all that an answer must show.
func newQuestionID() string { return chat.RandomID() }

// maxDenialReason bounds the reason of a denial that a model receives.
const maxDenialReason = 4 << 10

// check says whether an answer fits the question, before anything is done.
func (a *Answer) check(q *Question, limits *Limits) error {
	misfit := func(format string, args ...any) error {
		return Errorf(InvalidArgument, "answer to question %q about %s: %w", q.ID, q.Tool, Errorf(InvalidArgument, format, args...))
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
		case len(a.Arguments) > limits.ArgumentBytes:
			return Errorf(ResourceExhausted, "answer to question %q is %d bytes, more than the limit ArgumentBytes of %d", q.ID, len(a.Arguments), limits.ArgumentBytes)
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
		case len(a.Value) > limits.ResultBytes:
			return Errorf(ResourceExhausted, "answer to question %q is %d bytes, more than the limit ResultBytes of %d", q.ID, len(a.Value), limits.ResultBytes)
		}
	default:
		return misfit("the decision is %q, not %s, %s or %s", a.Decision, Approve, Deny, Reply)
	}
	return nil
}

// denied returns the error by which a model learns of a denial.
func (a *Answer) denied(q *Question) *Error {
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
	return Errorf(PermissionDenied, "%s", text)
}

// matchAnswers pairs answers with questions: each question has one.
func matchAnswers(run string, questions []*Question, answers []Answer, limits *Limits) (map[string]*Answer, error) {
	byID := make(map[string]*Question, len(questions))
	for _, q := range questions {
		byID[q.ID] = q
	}
	matched := make(map[string]*Answer, len(answers))
	for i := range answers {
		a := &answers[i]
		q := byID[a.Question]
		if q == nil {
			return nil, Errorf(PermissionDenied, "run %q asks no question %q", run, a.Question).
				WithHint("name a question by the id that its event carried")
		}
		if matched[a.Question] != nil {
			return nil, Errorf(InvalidArgument, "question %q has two answers", a.Question)
		}
		if err := a.check(q, limits); err != nil {
			return nil, err
		}
		matched[a.Question] = a
	}
	for _, q := range questions {
		if matched[q.ID] == nil {
			return nil, Errorf(InvalidArgument, "question %q of run %q, about %s, has no answer", q.ID, run, q.Tool).
				WithHint("answer all of its %d questions at once", len(questions))
		}
	}
	return matched, nil
}
