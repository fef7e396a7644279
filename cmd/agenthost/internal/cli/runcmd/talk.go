package runcmd

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/talk"
	"github.com/agenthost/agenthost/host"
)

// talk is a conversation on a terminal.
func (s *conversation) talk(ctx context.Context) error {
	fmt.Fprintf(s.steps, "Talking to %s. /help lists the commands; ctrl-D ends it.\n", s.target.Name())
	err := talk.Hold(ctx, s.term, &talk.Options{Commands: s.commands(), Say: func(ctx context.Context, text string, p *talk.Person) error {
		if err := s.turn(ctx, text); err != nil {
			return err
		}
		return s.answerAll(ctx, p)
	}})
	if err != nil {
		return s.withResumeCommand(err)
	}
	s.footer()
	return nil
}

// answerAll asks the person at the terminal until the run has no more questions.
// Without an answer (an empty line, ctrl-C) the run stays interrupted.
func (s *conversation) answerAll(ctx context.Context, p *talk.Person) error {
	for len(s.asked.questions) > 0 {
		req, err := s.askPerson(ctx, p)
		if err != nil || req == nil {
			s.printAnswerCommand()
			return err
		}
		if err := s.stream(ctx, req); err != nil {
			return err
		}
	}
	return nil
}

// askPerson asks the questions of a run, and returns the request that continues it; nil
// if the person does not answer one of them.
func (s *conversation) askPerson(ctx context.Context, p *talk.Person) (*host.Request, error) {
	list, err := p.Answers(ctx, s.asked.questions)
	if list == nil || err != nil {
		return nil, err
	}
	return &host.Request{Tenant: s.app.Tenant(s.tenant), Resume: s.asked.run, Answers: list}, nil
}
