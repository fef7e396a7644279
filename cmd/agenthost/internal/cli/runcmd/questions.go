package runcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Questions of a run: a person answers them at the terminal, or by flags of a later
// command.

// answerFlags answer the questions of an interrupted run.
type answerFlags struct {
	resume, question     string // the run, or the key of a question of its
	expired              bool   // all runs whose questions have expired
	approve, deny, reply []string
}

func (f *answerFlags) given() bool { return len(f.approve)+len(f.deny)+len(f.reply) > 0 }

// answers reads QUESTION, QUESTION=REASON and QUESTION=JSON.
func (f *answerFlags) answers() (list []host.Answer, err error) {
	for _, id := range f.approve {
		list = append(list, host.Answer{Question: id, Decision: host.Approve})
	}
	for _, text := range f.deny {
		id, reason, _ := strings.Cut(text, "=")
		list = append(list, host.Answer{Question: id, Decision: host.Deny, Reason: reason})
	}
	for _, text := range f.reply {
		id, value, found := strings.Cut(text, "=")
		if !found || !json.Valid([]byte(value)) {
			return nil, fmt.Errorf(`--reply %s: write QUESTION=JSON, as in QUESTION='"Lisbon"'`, text)
		}
		list = append(list, host.Answer{Question: id, Decision: host.Reply, Value: json.RawMessage(value)})
	}
	return list, nil
}

// openQuestions are the questions of a run.
type openQuestions struct {
	run       string
	questions []*host.Question
}

// waitingExit ends the command with a code of its own if its last run waits for answers.
func (s *conversation) waitingExit() error {
	if len(s.asked.questions) == 0 {
		return nil
	}
	return cli.QuietExit(cli.ExitWaiting)
}

// printAnswerCommand prints the command that answers a run's questions and continues it.
func (s *conversation) printAnswerCommand() {
	if len(s.asked.questions) == 0 || s.json {
		return
	}
	w := s.term.Err
	if s.steps == io.Discard { // the events were not shown
		for _, q := range s.asked.questions {
			fmt.Fprintln(w, ui.QuestionText(q))
		}
	}
	if !s.data.Given() {
		fmt.Fprintln(w, "\nNobody can answer: without --data nothing is kept to go on from.")
		return
	}
	fmt.Fprintf(w, "\nGo on with an answer to each question:\n  %s run %s%s%s --resume %s", ui.Self(), termtext.ShellWord(s.project), s.data.Words(), s.tenantWords(), s.asked.run)
	for _, q := range s.asked.questions {
		fmt.Fprintf(w, " %s", answerWords(q))
	}
	fmt.Fprintln(w)
}

// answerWords is a flag that answers a question.
func answerWords(q *host.Question) string {
	switch q.Kind {
	case host.AskInput, host.AskResult:
		return "--reply " + q.ID + "=JSON"
	}
	return "--approve " + q.ID
}
