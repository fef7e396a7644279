package runlog_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runlog"
)

var limits = runlog.AnswerLimits{Arguments: 20, Value: 20}

func TestMatchRefusesAnswersThatDoNotFit(t *testing.T) {
	approval := &runlog.Question{ID: "q", Kind: runlog.AskApproval, Tool: "refund"}
	input := &runlog.Question{ID: "q", Kind: runlog.AskInput, Tool: "ask"}
	unknown := &runlog.Question{ID: "q", Kind: runlog.AskUnknown, Tool: "pay"}
	long := json.RawMessage(`"` + strings.Repeat("x", 30) + `"`)
	for name, c := range map[string]struct {
		question *runlog.Question
		answers  []runlog.Answer
		want     fault.Code
	}{
		"no answer":                      {approval, nil, fault.InvalidArgument},
		"an answer to another question":  {approval, []runlog.Answer{{Question: "p", Decision: runlog.Approve}}, fault.PermissionDenied},
		"two answers":                    {approval, []runlog.Answer{{Question: "q", Decision: runlog.Approve}, {Question: "q", Decision: runlog.Deny}}, fault.InvalidArgument},
		"no decision":                    {approval, []runlog.Answer{{Question: "q"}}, fault.InvalidArgument},
		"an approval":                    {approval, []runlog.Answer{{Question: "q", Decision: runlog.Approve}}, ""},
		"an approval with a value":       {approval, []runlog.Answer{{Question: "q", Decision: runlog.Approve, Value: json.RawMessage(`1`)}}, fault.InvalidArgument},
		"an approval of a question":      {input, []runlog.Answer{{Question: "q", Decision: runlog.Approve}}, fault.InvalidArgument},
		"other arguments":                {approval, []runlog.Answer{{Question: "q", Decision: runlog.Approve, Arguments: json.RawMessage(`{}`)}}, ""},
		"other arguments, too long":      {approval, []runlog.Answer{{Question: "q", Decision: runlog.Approve, Arguments: long}}, fault.ResourceExhausted},
		"other arguments, not JSON":      {approval, []runlog.Answer{{Question: "q", Decision: runlog.Approve, Arguments: json.RawMessage(`{`)}}, fault.InvalidArgument},
		"other arguments of a lost call": {unknown, []runlog.Answer{{Question: "q", Decision: runlog.Approve, Arguments: json.RawMessage(`{}`)}}, fault.InvalidArgument},
		"a denial":                       {input, []runlog.Answer{{Question: "q", Decision: runlog.Deny, Reason: "no"}}, ""},
		"a denial with a long reason":    {input, []runlog.Answer{{Question: "q", Decision: runlog.Deny, Reason: strings.Repeat("x", 5000)}}, fault.InvalidArgument},
		"a denial with a value":          {input, []runlog.Answer{{Question: "q", Decision: runlog.Deny, Value: json.RawMessage(`1`)}}, fault.InvalidArgument},
		"a reply":                        {input, []runlog.Answer{{Question: "q", Decision: runlog.Reply, Value: json.RawMessage(`1`)}}, ""},
		"a reply without a value":        {input, []runlog.Answer{{Question: "q", Decision: runlog.Reply}}, fault.InvalidArgument},
		"a reply, too long":              {input, []runlog.Answer{{Question: "q", Decision: runlog.Reply, Value: long}}, fault.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			matched, err := runlog.Match("r", []*runlog.Question{c.question}, c.answers, limits)
			if fault.CodeOf(err) != c.want || err == nil && matched["q"] == nil {
				t.Errorf("Match = %v, %v; want code %q", matched, err, c.want)
			}
		})
	}
}

func TestSettleTakesDefaultsOfExpiredQuestions(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	asks := func(id string, terms runlog.Terms) *runlog.Question {
		t.Helper()
		q := &runlog.Question{ID: id, Kind: runlog.AskApproval, Tool: "refund"}
		if err := terms.Apply(q, now, limits); err != nil {
			t.Fatal(err)
		}
		return q
	}
	deny := &runlog.Answer{Decision: runlog.Deny, Question: "another"}
	short := asks("short", runlog.Terms{Timeout: time.Hour, Default: deny})
	ends := asks("ends", runlog.Terms{Timeout: time.Hour})
	forever := asks("forever", runlog.Terms{Key: "k"})
	all := []*runlog.Question{short, ends, forever}

	answers, over, err := runlog.Settle(all, nil, now.Add(time.Hour-1))
	if err != nil || len(answers) != 0 || over != nil {
		t.Errorf("before its time: %v, %v, %v; want no answer", answers, over, err)
	}
	answers, over, err = runlog.Settle(all, []runlog.Answer{{Question: "forever", Decision: runlog.Approve}}, now.Add(time.Hour))
	if err != nil || over != ends || len(answers) != 2 || answers[1].Question != "short" || answers[1].Decision != runlog.Deny {
		t.Errorf("at its time: %v, %v, %v; want the default of short, and the end by ends", answers, over, err)
	}
	if _, _, err := runlog.Settle(all, []runlog.Answer{{Question: "short", Decision: runlog.Approve}}, now.Add(time.Hour)); fault.CodeOf(err) != fault.FailedPrecondition {
		t.Errorf("an answer after its time: %v, want code %s", err, fault.FailedPrecondition)
	}
}

func TestTermsThatContradictThemselvesAreRefused(t *testing.T) {
	for name, terms := range map[string]runlog.Terms{
		"a negative timeout":       {Timeout: -1},
		"a timeout without end":    {Timeout: runlog.MaxTimeout + 1},
		"a default without a time": {Default: &runlog.Answer{Decision: runlog.Deny}},
		"a default that is none":   {Timeout: time.Hour, Default: &runlog.Answer{Decision: runlog.Reply, Value: json.RawMessage(`{`)}},
	} {
		q := &runlog.Question{ID: "q", Kind: runlog.AskInput, Tool: "ask"}
		if err := terms.Apply(q, time.Now(), limits); fault.CodeOf(err) != fault.InvalidArgument || q.Expires != nil || q.Default != nil {
			t.Errorf("%s: %v and %+v, want code %s and no change", name, err, q, fault.InvalidArgument)
		}
	}
}
