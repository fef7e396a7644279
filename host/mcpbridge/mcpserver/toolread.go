package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/runs"
)

// mayCallTools reports whether the callers of the endpoint call tools by themselves: those of
// one thread reach them by agents alone.
func (e *endpoint) mayCallTools() bool { return e.mayRun && e.thread == "" }

// answerOf returns the answer of a tool to arguments, by a run of its own. Code
// failed_precondition for a tool that asks a person, and for one that fails.
func (e *endpoint) answerOf(ctx context.Context, from *request, tool *host.Tool, arguments any) (*chat.ToolResult, error) {
	raw, err := json.Marshal(arguments)
	if err != nil {
		return nil, host.Errorf(host.Internal, "encode arguments: %w", err)
	}
	agent, err := e.owner.agentOf(tool)
	if err != nil {
		return nil, err
	}
	ended, err := e.owner.runOnce(ctx, from, agent, &host.Request{
		Tenant: from.caller.Tenant, Key: from.caller.Key, Text: "Call " + tool.Name + ".", Model: oneCall{tool.Name, raw},
	})
	if err != nil {
		return nil, err
	}
	o := &outcome{}
	if ended.Result != nil {
		for _, result := range ended.Result.Results {
			for _, m := range result.Messages {
				o.takeMessage(m)
			}
		}
	}
	switch {
	case ended.Status == runs.Interrupted:
		if err := e.owner.refuse(ctx, from, agent, ended); err != nil {
			e.owner.opts.Logger.WarnContext(ctx, "end a run that asks a person, of a tool that was to read", "tenant", ended.Tenant, "run", ended.ID, "error", err)
		}
		return nil, host.Errorf(host.FailedPrecondition, "the tool %q asks a person, which reading does not", tool.Name)
	case o.result == nil:
		return nil, host.Errorf(host.Internal, "the run of tool %q has no result", tool.Name)
	case o.result.IsError:
		text, _ := jsondoc.Unquote(o.result.Content)
		return nil, fault.Disclose(host.Errorf(host.FailedPrecondition, "%s", text))
	}
	return o.result, nil
}

// refuse ends a run that asks, by a denial: its client has no way to answer, and no other has one
// that the client would learn of.
func (s *Server) refuse(ctx context.Context, from *request, agent *host.Agent, asks *runs.Run) error {
	req := &host.Request{Tenant: from.caller.Tenant, Key: from.caller.Key, Resume: asks.ID}
	if asks.Result != nil {
		req.Checkpoint = asks.Result.Checkpoint
	}
	for _, q := range asks.Questions {
		req.Answers = append(req.Answers, host.Answer{Question: q.ID, Decision: host.Deny, Reason: "It was called to read, which asks no person."})
	}
	ctx = context.WithoutCancel(ctx) // a client that has left ends the wait alone
	_, run, err := s.runs.StartAttached(ctx, agent, req, nil)
	if err != nil {
		return err
	}
	defer run.Detach()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(from.gone, cancel)()
	_, err = run.Wait(ctx)
	return err
}

// runOnce runs an agent to its end. A client that leaves cancels the run.
func (s *Server) runOnce(ctx context.Context, from *request, agent *host.Agent, req *host.Request) (*runs.Run, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(from.gone, cancel)()
	run, attached, err := s.runs.StartAttached(ctx, agent, req, nil)
	if err != nil {
		return nil, err
	}
	defer attached.Detach()
	ended, err := attached.Wait(ctx)
	if ctx.Err() != nil {
		if _, failed := s.runs.Cancel(context.WithoutCancel(ctx), run.Tenant, run.ID); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// readByTool returns the content of a resource that a tool reads.
func (e *endpoint) readByTool(ctx context.Context, from *request, r *Resource, uri string) ([]host.Part, error) {
	answer, err := e.answerOf(ctx, from, r.Tool, map[string]string{"uri": uri})
	if err != nil {
		return nil, err
	}
	var parts []host.Part
	text, isText := jsondoc.Unquote(answer.Content)
	switch {
	case isText && text == "" && len(answer.Media) > 0: // the media are all there is
	case isText && r.MediaType != "":
		parts = append(parts, &chat.Media{MediaType: r.MediaType, Data: []byte(text)})
	case isText:
		parts = append(parts, &chat.Text{Text: text})
	case string(answer.Content) != "null" || len(answer.Media) == 0:
		parts = append(parts, &chat.Data{Value: answer.Content})
	}
	for _, m := range answer.Media {
		parts = append(parts, m)
	}
	return parts, nil
}

// writtenByTool returns the messages of a prompt that a tool writes.
func (e *endpoint) writtenByTool(ctx context.Context, from *request, p *Prompt, arguments map[string]string) ([]*host.Message, error) {
	answer, err := e.answerOf(ctx, from, p.Tool, arguments)
	if err != nil {
		return nil, err
	}
	if text, isText := jsondoc.Unquote(answer.Content); isText {
		return []*host.Message{host.UserText(text)}, nil
	}
	var list []struct{ Role, Text string }
	if err := json.Unmarshal(answer.Content, &list); err != nil {
		return nil, host.Errorf(host.Internal, "the tool of prompt %q answers with neither a text nor a list of messages", p.Name)
	}
	var messages []*host.Message
	for _, m := range list {
		if chat.Role(m.Role) == chat.Assistant {
			messages = append(messages, host.AssistantText(m.Text))
			continue
		}
		messages = append(messages, host.UserText(m.Text))
	}
	return messages, nil
}
