package runs

import (
	"context"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runevent"
)

// Status says where a run stands.
type Status string

// The statuses of a run.
const (
	Running     Status = "running"
	Interrupted Status = "interrupted" // it asks questions: see [Registry.Answer]
	Completed   Status = "completed"
	Failed      Status = "failed"
	Canceled    Status = "canceled"
)

// Ended reports whether a run of that status has no further events. An empty or unknown
// status is not ended.
func (s Status) Ended() bool { return s != Running && s.valid() }

// valid reports whether s is a status.
func (s Status) valid() bool {
	switch s {
	case Running, Interrupted, Completed, Failed, Canceled:
		return true
	}
	return false
}

func statusOf(reason chat.FinishReason) Status {
	switch reason {
	case chat.FinishInterrupted:
		return Interrupted
	case chat.FinishFailed:
		return Failed
	case chat.FinishCanceled:
		return Canceled
	}
	return Completed
}

// Run is a run at one moment. It is a copy: it does not change.
type Run struct {
	Tenant  string    `json:"tenant"`
	ID      string    `json:"id"`
	Thread  string    `json:"thread,omitempty"` // known from the run's first event on
	Branch  string    `json:"branch,omitempty"`
	Target  string    `json:"target"` // the name of the network or agent
	Status  Status    `json:"status"`
	Waiting bool      `json:"waiting,omitempty"` // it has sent no event, such as while others have its thread: a durable run is not in the journal yet, and ends with its process
	Durable bool      `json:"durable,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Events  int64     `json:"events"` // how many there were: the number of the next one

	FinishReason chat.FinishReason `json:"finish_reason,omitempty"`
	Questions    []*host.Question  `json:"questions,omitempty"` // of an interrupted run
	Error        *host.Error       `json:"error,omitempty"`     // of a run that failed or was canceled

	// Result is that of a run that has ended on this host, as far as it came. It is
	// shared: do not change it.
	Result *host.RunResult `json:"-"`
}

// failure returns the error of a run that failed or was canceled.
func (r *Run) failure() error {
	if r.Error == nil {
		return nil
	}
	return r.Error
}

// Leave says what a run does when its readers have left.
type Leave string

// The choices of a client that may leave.
const (
	// LeaveContinues lets the run continue without readers. It is the default.
	LeaveContinues Leave = "continue"
	// LeaveCancels cancels a run that has had no reader for Options.LeaveGrace.
	LeaveCancels Leave = "cancel"
)

// liveRun is a run that this registry started.
type liveRun struct {
	request host.Request // of the run, without its content: what an answer needs again
	target  host.Target
	events  eventLog
	begun   chan struct{} // closed with the first event, or the end
	over    chan struct{} // closed when the run has ended
	cancel  context.CancelCauseFunc
	grace   time.Duration // without readers; 0 is without end
	isNew   bool          // the registry has made the id of the run

	mu        sync.Mutex
	info      Run
	err       error // of the run, whole
	readers   int
	leaving   *time.Timer // cancels the run; nil while it has readers
	abandoned bool        // it is canceled, as its last reader has left
	ended     bool

	accepted bool // Start has returned the run

	log  *runLog     // of the stored events; nil if none are: see storedLog
	last *host.Event // that of the run's end, which another host may have to produce; of the run's goroutine
}

// snapshot returns the run at this moment.
func (l *liveRun) snapshot() *Run {
	next := l.events.next()
	l.mu.Lock()
	defer l.mu.Unlock()
	info := l.info
	info.Events = next
	info.Waiting = next == 0 && !l.ended
	return &info
}

// accept returns the error of a run that was refused: one that ended before its first
// event. Any other belongs to the caller of Start from then on.
func (l *liveRun) accept() error {
	next := l.events.next()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended && next == 0 && l.err != nil {
		return l.err
	}
	l.accepted = true
	return nil
}

// refused reports whether the run has ended with an error that Start returns.
func (l *liveRun) refused() bool {
	next := l.events.next()
	l.mu.Lock()
	defer l.mu.Unlock()
	return next == 0 && l.err != nil && !l.accepted
}

// follow runs the run to its end, in the goroutine of the caller. Before the first event it
// calls begin, which returns the log of a durable run and the number of the event.
func (l *liveRun) follow(ctx context.Context, h *host.Host, req *host.Request, begin func() (*runLog, int64)) {
	began := false
	var failure error
	var first int64
	for ev, err := range h.Stream(ctx, l.target, req) {
		if err != nil {
			failure = err
			break
		}
		l.note(ev)
		if !began {
			first = l.beginLog(begin)
		}
		ev.Seq += first
		l.events.add(ev)
		if isEnd(ev) {
			l.last = &ev
		} else {
			l.storedLog().add(ev)
		}
		if !began {
			began = true
			close(l.begun)
		}
	}
	l.end(failure, context.Cause(ctx))
	if !began {
		close(l.begun)
	}
	close(l.over)
	l.cancel(nil)
}

// beginLog sets the log of the run, and returns the number of the run's first event here.
func (l *liveRun) beginLog(begin func() (*runLog, int64)) int64 {
	log, first := begin()
	l.events.begin(first, log)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = log
	return first
}

// storedLog returns the log of the run's stored events, nil if none are stored.
func (l *liveRun) storedLog() *runLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log
}

// note takes over the parts of an event that are part of the run's description.
func (l *liveRun) note(ev host.Event) {
	switch d := ev.Data.(type) {
	case *runevent.RunStarted:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.info.Thread, l.info.Branch = d.Thread, d.Branch
	case *runevent.RunFinished:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.info.FinishReason, l.info.Result, l.info.Error = d.FinishReason, d.Result, d.Error
		if d.Result != nil {
			l.info.Questions = d.Result.Questions
		}
	}
}

// end sets the last status and closes the log of events. cause is why the run's context
// has ended; it says more about a canceled run than the run's error.
func (l *liveRun) end(failure, cause error) {
	l.mu.Lock()
	l.ended, l.err = true, failure
	l.info.Ended = time.Now().UTC()
	switch {
	case l.info.FinishReason != "":
		l.info.Status = statusOf(l.info.FinishReason)
	case host.CodeOf(failure) == host.Canceled:
		l.info.Status, l.info.FinishReason = Canceled, chat.FinishCanceled
	default:
		l.info.Status, l.info.FinishReason = Failed, chat.FinishFailed
	}
	if l.info.Error == nil { // it was refused before its first event
		l.info.Error = fault.AsError(failure)
	}
	if why, ok := cause.(*host.Error); ok && l.info.Status == Canceled {
		l.info.Error = why
	}
	if l.leaving != nil {
		l.leaving.Stop()
	}
	l.mu.Unlock()
	l.events.end(failure)
}

// enter counts a reader.
func (l *liveRun) enter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addReader()
}

// addReader is enter with l.mu held.
func (l *liveRun) addReader() {
	l.readers++
	if l.leaving != nil {
		l.leaving.Stop()
		l.leaving = nil
	}
}

// leave ends what enter began. The last reader of a run that depends on them starts
// the time after which it is canceled.
func (l *liveRun) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers--; l.readers == 0 {
		l.waitForReader()
	}
}

// waitForReader cancels a run without readers after its grace. l.mu is held.
func (l *liveRun) waitForReader() {
	if l.grace > 0 && !l.ended {
		l.leaving = time.AfterFunc(l.grace, l.endUnread)
	}
}

// endUnread cancels a run whose grace is over, unless a reader has come meanwhile.
func (l *liveRun) endUnread() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers == 0 && !l.ended {
		l.abandoned = true
		l.cancel(errUnread(l.grace))
	}
}

// isEnd reports whether an event is the last of its run.
func isEnd(ev host.Event) bool {
	_, ended := ev.Data.(*runevent.RunFinished)
	return ended
}

func errUnread(grace time.Duration) error {
	return host.Errorf(host.Canceled, "the run had no reader for %s, and was started to be canceled then", grace)
}

func errCanceled() error { return host.Errorf(host.Canceled, "the run was canceled") }
