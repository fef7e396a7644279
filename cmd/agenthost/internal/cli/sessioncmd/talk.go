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
	}, s.record.Commands(f.term)...)
	return talk.Hold(ctx, f.term, &talk.Options{Say: s.say, Commands: commands})
}

func (s *sessionTalk) begin(start sessions.Start) (err error) {
	s.chat, err = sessions.NewChat(s.client, &start)
	return err
}

// say has a turn.
func (s *sessionTalk) say(ctx context.Context, text string, _ *talk.Person) error {
	show := ui.NewRunPrinter(s.term, s.term.Err)
	defer show.Close()
	for chunk, err := range s.chat.Stream(ctx, &sessions.Say{Text: text}) {
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

// ended records the snapshot of a turn. A question is answered by another command: the
// session waits for it.
func (s *sessionTalk) ended(out *sessions.Output) error {
	s.session = out.Session
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
	s.snapshots = s.snapshots[:n-1]
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
