package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of questions to clients.
const (
	elicitationWait  = 10 * time.Minute // for a person to answer, in a call that waits for it
	maxShownArgument = 2 << 10          // bytes of the arguments that a question shows
)

// isStateless reports whether the client has no session: then it answers questions by
// another call.
func (c *call) isStateless() bool { return c.req.ProtocolVersion() >= firstStateless }

// asksNobody reports whether the client has no way to ask a person.
func (c *call) asksNobody() bool {
	capabilities := c.req.ClientCapabilities()
	return capabilities == nil || capabilities.Elicitation == nil
}

// ask returns a result that asks the client to call again with the answers to a run's
// questions.
func (c *call) ask(o *outcome) (*mcp.CallToolResult, error) {
	if c.asksNobody() {
		return c.unanswered(o), nil
	}
	requests := mcp.InputRequestMap{}
	for _, q := range o.questions {
		form, ok := formOf(q)
		if !ok {
			return c.unanswered(o), nil
		}
		requests[q.ID] = form
	}
	return &mcp.CallToolResult{InputRequests: requests, RequestState: o.run.ID}, nil
}

// resumed returns the request that continues the run which a client's call names, with the
// answers that the call brings. again is a result that asks once more, in its place.
func (c *call) resumed(ctx context.Context) (request *host.Request, again *mcp.CallToolResult, err error) {
	o, err := c.interrupted(ctx, c.req.Params.RequestState)
	if err != nil {
		return nil, nil, err
	}
	answers := make([]host.Answer, 0, len(o.questions))
	for _, q := range o.questions {
		given, ok := c.req.Params.InputResponses[q.ID].(*mcp.ElicitResult)
		if !ok || given == nil {
			again, err = c.ask(o)
			return nil, again, err
		}
		answer, decided := answerOf(q, given)
		if !decided {
			return nil, c.unanswered(o), nil
		}
		answers = append(answers, answer)
	}
	return c.answered(o, answers), nil, nil
}

// interrupted returns a run of the call's target that waits for answers.
func (c *call) interrupted(ctx context.Context, id string) (*outcome, error) {
	s := c.endpoint.owner
	none := host.Errorf(host.NotFound, "the call continues no run that waits for answers").WithHint("call the tool again without requestState")
	run, err := s.runs.Get(ctx, c.caller.Tenant, id)
	if err == nil {
		if run.Target != c.target.Name() || c.caller.Thread != "" && run.Thread != c.caller.Thread || len(run.Questions) == 0 {
			return nil, none
		}
		return &outcome{run: run, questions: run.Questions}, nil
	}
	if host.CodeOf(err) != host.NotFound {
		return nil, err
	}
	if s.opts.Host == nil || c.caller.Thread != "" { // the journal does not say of which thread a run is
		return nil, none
	}
	questions, err := s.opts.Host.Questions(ctx, c.target, c.caller.Tenant, id)
	if host.CodeOf(err) == host.NotFound {
		return nil, none
	}
	o := &outcome{questions: questions}
	o.run = runOf(c.caller.Tenant, id)
	return o, err
}

// answered returns the request that continues a run with answers.
func (c *call) answered(o *outcome, answers []host.Answer) *host.Request {
	r := &host.Request{Tenant: c.caller.Tenant, Key: c.caller.Key, Resume: o.run.ID, Answers: answers}
	if o.run.Result != nil {
		r.Checkpoint = o.run.Result.Checkpoint
	}
	return r
}

// elicit asks the client of a session the questions of a run, one after the other. asked is
// the result of the call if one has no answer.
func (c *call) elicit(ctx context.Context, o *outcome) (answers []host.Answer, asked *mcp.CallToolResult) {
	if c.asksNobody() {
		return nil, c.unanswered(o)
	}
	ctx, cancel := context.WithTimeout(ctx, elicitationWait)
	defer cancel()
	for _, q := range o.questions {
		form, ok := formOf(q)
		if !ok {
			return nil, c.unanswered(o)
		}
		given, err := c.req.Session.Elicit(ctx, form)
		if err != nil {
			if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
				c.endpoint.owner.opts.Logger.WarnContext(ctx, "a client did not answer a question", "tenant", c.caller.Tenant, "run", o.run.ID, "error", err)
			}
			return nil, c.unanswered(o)
		}
		answer, decided := answerOf(q, given)
		if !decided {
			return nil, c.unanswered(o)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// unanswered is the result of a call whose run waits for answers that the client does not
// give. The run stays, and may be answered elsewhere.
func (c *call) unanswered(o *outcome) *mcp.CallToolResult {
	text := "The call waits for a person: "
	for i, q := range o.questions {
		if i > 0 {
			text += "; "
		}
		text += q.Tool + ": " + cmp.Or(q.Reason, "it needs an approval")
	}
	err := host.Errorf(host.FailedPrecondition, "%s", text).WithHint("answer it in a client that shows questions (elicitation), or by POST /v1/runs/%s/answers", o.run.ID)
	return c.failed(fault.Disclose(err), o.run.ID)
}

// The forms of questions that have none of their own.
const (
	approvalForm = `{"type":"object","properties":{"approve":{"type":"boolean","title":"Allow the call"},"reason":{"type":"string","title":"Reason","description":"of a refusal, for the agent"}},"required":["approve"]}`
	unknownForm  = `{"type":"object","properties":{"repeat":{"type":"boolean","title":"Make the call again"}},"required":["repeat"]}`
	answerForm   = `{"type":"object","properties":{"answer":{"type":"string","title":"Answer"}},"required":["answer"]}`
)

// formOf returns a question as an elicitation; ok is false for one that no person answers.
func formOf(q *host.Question) (form *mcp.ElicitParams, ok bool) {
	form = &mcp.ElicitParams{Mode: "form", Message: q.Reason}
	switch q.Kind {
	case host.AskApproval:
		form.Message = "Allow the call of " + q.Tool + "? " + q.Reason + "\n" + shortened(string(q.Arguments))
		form.RequestedSchema = json.RawMessage(approvalForm)
	case host.AskUnknown:
		form.Message = "It is not known whether a call of " + q.Tool + " took effect. Make it again?\n" + shortened(string(q.Arguments))
		form.RequestedSchema = json.RawMessage(unknownForm)
	case host.AskInput:
		form.Message = cmp.Or(q.Reason, q.Tool+" asks")
		form.RequestedSchema = json.RawMessage(answerForm)
		if own := ownForm(q); own != nil {
			form.RequestedSchema = own
		}
	default:
		return nil, false
	}
	return form, true
}

// ownForm returns the schema of the answer that a tool's own question has in its data, as
// {"schema":{...}}; nil without one.
func ownForm(q *host.Question) json.RawMessage {
	var data struct {
		Schema json.RawMessage `json:"schema"`
	}
	if json.Unmarshal(q.Data, &data) != nil || len(data.Schema) == 0 {
		return nil
	}
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(data.Schema, &schema) != nil || schema.Type != "object" || len(schema.Properties) == 0 {
		return nil
	}
	return data.Schema
}

func shortened(text string) string {
	if len(text) <= maxShownArgument {
		return text
	}
	return text[:maxShownArgument] + " ..."
}

// answerOf returns what a person has decided; decided is false for a form that was dismissed.
func answerOf(q *host.Question, given *mcp.ElicitResult) (answer host.Answer, decided bool) {
	answer = host.Answer{Question: q.ID, Decision: host.Deny}
	switch given.Action {
	case "accept":
	case "decline":
		return answer, true
	default:
		return answer, false
	}
	switch q.Kind {
	case host.AskApproval, host.AskUnknown:
		name := "approve"
		if q.Kind == host.AskUnknown {
			name = "repeat"
		}
		if yes, _ := given.Content[name].(bool); yes {
			answer.Decision = host.Approve
		} else {
			answer.Reason, _ = given.Content["reason"].(string)
		}
		return answer, true
	}
	var value any = given.Content
	if ownForm(q) == nil {
		value = given.Content["answer"]
	}
	raw, err := json.Marshal(value)
	if err != nil || value == nil {
		return answer, false
	}
	answer.Decision, answer.Value = host.Reply, raw
	return answer, true
}
