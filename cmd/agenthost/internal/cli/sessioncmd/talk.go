package sessioncmd

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/talk"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/internal/termtext"
)

// sessionTalk is a conversation with a session of a running host.
type sessionTalk struct {
	term   *ui.Terminal
	client sessions.Client
	chat   *sessions.Chat
	start  sessions.Start
	record talk.Record

	session   string
	snapshots []string // of the turns that were had here

	person *talk.Person     // who has turns; nil before the first one
	asked  []*host.Question // of the last turn, without answers
}

// talk holds a conversation.
func (f *chatFlags) talk(ctx context.Context, path string) error {
	s := &sessionTalk{term: f.term, client: socketClient{path, f.target, f.tenant}, start: sessions.Start{Session: f.session, Snapshot: f.snapshot}}
	if err := s.begin(s.start); err != nil {
		return err
	}
	fmt.Fprintf(f.term.Err, "Talking to the host at %s. /help lists the commands; ctrl-D ends it.\n", termtext.Printable(path))
	commands := append([]talk.Command{
		{Name: "undo", About: "take the last message and its answer back", Do: s.undo},
		{Name: "branch", About: "say where this moment can be continued from later", Do: s.branch},
		{Name: "answer", About: "answer what the last turn asked", Do: s.answer},
	}, s.record.Commands(f.term)...)
	return talk.Hold(ctx, f.term, &talk.Options{Say: s.say, Commands: commands})
}

func (s *sessionTalk) begin(start sessions.Start) (err error) {
	s.chat, err = sessions.NewChat(s.client, &start)
	return err
}

// say has a turn, and those that answer its questions.
func (s *sessionTalk) say(ctx context.Context, text string, p *talk.Person) error {
	s.person = p
	if err := s.turn(ctx, &sessions.Say{Text: text}); err != nil {
		return err
	}
	return s.answerAll(ctx)
}

// answer asks the open questions again.
func (s *sessionTalk) answer(ctx context.Context, _ string) error {
	if len(s.asked) == 0 {
		return host.Errorf(host.NotFound, "the last turn asked nothing")
	}
	return s.answerAll(ctx)
}

// answerAll asks the person until the session has no more questions. Without an answer it
// waits.
func (s *sessionTalk) answerAll(ctx context.Context) error {
	for len(s.asked) > 0 {
		answers, err := s.person.Answers(ctx, s.asked)
		if err != nil {
			return err
		}
		if answers == nil {
			fmt.Fprintln(s.term.Err, "The turn waits for an answer: /answer asks again.")
			return nil
		}
		if err := s.turn(ctx, &sessions.Say{Answers: answers}); err != nil {
			return err
		}
	}
	return nil
}

// turn has one turn, and keeps its questions.
func (s *sessionTalk) turn(ctx context.Context, said *sessions.Say) error {
	show := ui.NewRunPrinter(s.term, s.term.Err)
	defer show.Close()
	for chunk, err := range s.chat.Stream(ctx, said) {
		if err != nil {
			return err
		}
		s.record.Add(chunk.Event)
		ended, ok := chunk.Data.(*sessions.TurnEnded)
		if !ok {
			show.Event(chunk.Event)
			continue
		}
		show.Close()
		return s.ended(&ended.Output)
	}
	return nil
}

// ended records the snapshot and the questions of a turn.
func (s *sessionTalk) ended(out *sessions.Output) error {
	s.session, s.asked = out.Session, out.Questions
	if out.Snapshot != "" {
		s.snapshots = append(s.snapshots, out.Snapshot)
	}
	if out.Error != nil {
		return out.Error
	}
	return nil
}

// undo goes back to the snapshot before the last turn.
func (s *sessionTalk) undo(context.Context, string) error {
	n := len(s.snapshots)
	if n == 0 {
		return host.Errorf(host.NotFound, "there is nothing to take back: no turn was had in this conversation")
	}
	start := s.start
	if n > 1 {
		start = sessions.Start{Snapshot: s.snapshots[n-2]}
	}
	if n == 1 && start.Session != "" && start.Snapshot == "" {
		return host.Errorf(host.FailedPrecondition, "the turn before is not of this conversation").
			WithHint("begin at one of the session's turns with --snapshot")
	}
	if err := s.begin(start); err != nil {
		return err
	}
	s.snapshots, s.asked = s.snapshots[:n-1], nil
	fmt.Fprintln(s.term.Out, "Took the last turn back: the next one goes on from the turn before it.")
	return nil
}

// branch names the snapshot at hand.
func (s *sessionTalk) branch(context.Context, string) error {
	if len(s.snapshots) == 0 {
		return host.Errorf(host.NotFound, "there was no turn yet").WithHint("say something first")
	}
	last := s.snapshots[len(s.snapshots)-1]
	fmt.Fprintf(s.term.Out, "This moment is snapshot %s of session %s; continue from it with --snapshot.\n", termtext.Printable(last), termtext.Printable(s.session))
	return nil
}
