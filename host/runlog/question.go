package runlog

import (
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// QuestionKind is the kind of answer that a run waits for.
type QuestionKind string

// The kinds of questions.
const (
	// AskApproval asks whether a tool may run: see host.ApprovalRule.
	AskApproval QuestionKind = "approval"
	// AskInput is a tool's own question: see host.Interrupt.
	AskInput QuestionKind = "input"
	// AskResult asks for the result of a call that the client executes: see
	// host.NewClientTool.
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

	Key     string     `json:"key,omitempty"`        // by which the program finds it: see [Terms]
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

// Expired reports whether no answer but the default is taken any more.
func (q *Question) Expired(now time.Time) bool { return q.Expires != nil && !now.Before(*q.Expires) }

// Terms give a question a name to be found by and a time to expire.
type Terms struct {
	// Key is the program's name for the question, such as the number of an order:
	// see host.Host.FindQuestions. At most chat.MaxIDBytes. Keys are a tenant's, and
	// not secret: a program that answers by key checks the permission itself.
	Key string

	// Timeout is the time until the question expires; 0 is never. After that no
	// answer is taken but Default; without Default the run ends, failed with code
	// deadline_exceeded. Both happen when the run is resumed, without answers, by
	// any caller: see host.Host.SettleExpired.
	Timeout time.Duration

	// Default is the answer after Timeout; nil is none. It must fit the question, as
	// any answer does: a question that asks for a value cannot be approved. Its
	// Question is not looked at.
	Default *Answer
}

// MaxTimeout is the longest timeout of a question.
const MaxTimeout = 10 * 366 * 24 * time.Hour

// Apply gives a question the terms, counted from a time. Code invalid_argument for
// terms that contradict each other or do not fit the question; the question is
// unchanged then.
func (t *Terms) Apply(q *Question, now time.Time, limits AnswerLimits) error {
	switch {
	case t.Timeout < 0 || t.Timeout > MaxTimeout:
		return fault.Errorf(fault.InvalidArgument, "a question about %s stands for %s, which is not between 0 and %s", q.Tool, t.Timeout, MaxTimeout)
	case t.Default != nil && t.Timeout == 0:
		return fault.Errorf(fault.InvalidArgument, "a question about %s has a default and no timeout", q.Tool).WithHint("say after which time the default is the answer")
	}
	var own *Answer
	if t.Default != nil {
		answer := *t.Default
		answer.Question = q.ID
		if err := answer.check(q, limits); err != nil {
			return fault.Wrap(err, "default")
		}
		own = &answer
	}
	q.Key, q.Default = t.Key, own
	if t.Timeout > 0 {
		at := now.Add(t.Timeout).UTC()
		q.Expires = &at
	}
	return nil
}
