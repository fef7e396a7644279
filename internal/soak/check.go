package soak

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/chat"
)

// The texts of a turn: what the user says, and how the model answers after its tool.
const (
	askPrefix    = "turn "
	answerPrefix = "answer to "
	paid         = "paid" // the tool's result, which the answer repeats
)

// A Report lists the promises that were broken; each entry names the turn and its thread.
type Report struct {
	Asked, Acked int // turns
	Unknown      int // turns without an acknowledgement that are in their thread with an answer
	Effects      int // calls of tools
	Repeats      int // calls of idempotent tools that came again under their key

	Ended map[string]int // turns of which a host said that they have failed, and none that they are completed, by status and code
	Asks  int            // durable runs that wait for a person to say what a tool has done

	Lost, Doubled, OutOfOrder []string

	// Unheard are durable runs that began and are in the journal no longer, without an answer
	// and without a host that said why: the one that ended them, as failed, was killed
	// before it said so. Their clients have an acknowledged beginning and no end.
	Unheard []string

	// Failed are durable runs that began, and of which a host said that and why they failed.
	Failed []string
}

// Kept reports whether nothing was lost, doubled or out of order.
func (r *Report) Kept() bool { return len(r.Lost)+len(r.Doubled)+len(r.OutOfOrder) == 0 }

func (r *Report) String() string {
	return fmt.Sprintf("%d turns, %d acknowledged, %d more found answered, %d ask what a tool did, said to have failed %v, of which %d durable ones that began, %d effects, %d repeats: %d ended unheard: %d lost, %d doubled, %d out of order",
		r.Asked, r.Acked, r.Unknown, r.Asks, r.Ended, len(r.Failed), r.Effects, r.Repeats, len(r.Unheard), len(r.Lost), len(r.Doubled), len(r.OutOfOrder))
}

// storedTurn is a turn in its thread.
type storedTurn struct {
	name    string
	asks    int
	answers []string
}

// Stored is what the hosts have left in their store.
type Stored struct {
	Threads map[string][]*chat.Message
	Open    map[string]OpenRun // durable runs that have not ended, by turn
}

// OpenRun is a durable run that is in the journal.
type OpenRun struct {
	Asks bool   // it waits for an answer: a tool that must not be called twice may have been called
	Text string // what the journal has
}

// Check compares a ledger with what is stored.
func Check(turns []Turn, effects []Effect, found *Stored) *Report {
	r := &Report{Asked: len(turns), Effects: len(effects), Ended: map[string]int{}}
	byName := map[string]Turn{}
	for _, t := range turns {
		byName[t.Name] = t
	}
	stored := map[string]*storedTurn{}
	for thread, messages := range found.Threads {
		r.readThread(thread, messages, stored, byName)
	}
	calls := map[string][]Effect{}
	for _, e := range effects {
		calls[e.Turn] = append(calls[e.Turn], e)
	}
	for _, t := range turns {
		r.checkTurn(t, stored[t.Name], calls[t.Name], found.Open[t.Name])
	}
	return r
}

// readThread collects the turns of a thread, and checks their order.
func (r *Report) readThread(thread string, messages []*chat.Message, stored map[string]*storedTurn, byName map[string]Turn) {
	var current *storedTurn
	var latest Turn // the one of the turns so far that was asked for last
	for _, m := range messages {
		switch m.Role {
		case chat.User:
			name := strings.TrimPrefix(m.Text(), askPrefix)
			t, asked := byName[name]
			if !asked || t.Thread != thread {
				r.OutOfOrder = append(r.OutOfOrder, fmt.Sprintf("thread %s has turn %q, which was not asked for there", thread, name))
			}
			if t.Acked > 0 && t.Acked < latest.Asked {
				r.OutOfOrder = append(r.OutOfOrder, fmt.Sprintf("thread %s has turn %s after %s, which was asked for %s after its end",
					thread, name, latest.Name, (latest.Asked-t.Acked).Round(time.Microsecond)))
			}
			if asked && t.Asked >= latest.Asked {
				latest = t
			}
			if current = stored[name]; current == nil {
				current = &storedTurn{name: name}
				stored[name] = current
			}
			current.asks++
		case chat.Assistant:
			text, final := strings.CutPrefix(m.Text(), answerPrefix)
			if !final {
				continue
			}
			name, result, _ := strings.Cut(text, ": ")
			if current == nil || name != current.name {
				r.OutOfOrder = append(r.OutOfOrder, fmt.Sprintf("thread %s has the answer to turn %s inside of another turn", thread, name))
				continue
			}
			current.answers = append(current.answers, result)
		}
	}
}

func (r *Report) checkTurn(t Turn, s *storedTurn, calls []Effect, open OpenRun) {
	if s == nil {
		s = &storedTurn{}
	}
	lost := func(format string, args ...any) {
		r.Lost = append(r.Lost, "turn "+t.Name+" of thread "+t.Thread+": "+fmt.Sprintf(format, args...))
	}
	doubled := func(format string, args ...any) {
		r.Doubled = append(r.Doubled, "turn "+t.Name+" of thread "+t.Thread+": "+fmt.Sprintf(format, args...))
	}
	if t.Ended != "" && t.Acked == 0 {
		how := t.Ended
		if t.Durable {
			how = "durable " + how
		}
		r.Ended[how]++
	}
	switch {
	case t.Acked > 0:
		r.Acked++
		if s.asks == 0 || len(s.answers) == 0 {
			lost("it was acknowledged, and the thread has it %d times with %d answers", s.asks, len(s.answers))
		}
	case len(s.answers) > 0:
		r.Unknown++
	case !t.Durable || !t.Begun || open.Text != "":
	case t.Ended == "" && s.asks == 0:
		lost("its durable run began, and nothing of it is stored")
	case t.Ended == "":
		r.Unheard = append(r.Unheard, "turn "+t.Name+" of thread "+t.Thread+": its durable run began, and ended without an answer, and no host said so")
	default:
		r.Failed = append(r.Failed, fmt.Sprintf("turn %s of thread %s: its durable run began, and %s: %s (the thread has it %d times)", t.Name, t.Thread, t.Ended, t.Why, s.asks))
	}
	switch {
	case open.Asks:
		r.Asks++
	case open.Text != "":
		lost("its durable run never ended: %s", open.Text)
	}
	if s.asks > 1 || len(s.answers) > 1 {
		doubled("the thread has it %d times with %d answers", s.asks, len(s.answers))
	}
	if slices.Contains(s.answers, paid) && len(calls) == 0 {
		lost("its answer speaks of an effect that did not happen")
	}
	for i, e := range calls {
		switch {
		case e.Key != calls[0].Key:
			doubled("its tool was called under the keys %q and %q", calls[0].Key, e.Key)
		case i > 0 && !t.Repeated:
			doubled("its tool is not idempotent and was called by %s and by %s", calls[0].Host, e.Host)
		case i > 0:
			r.Repeats++
		}
	}
}
