package host

import (
	"context"
	"slices"
)

// Optional interfaces of a history adapter: taking an answer back, and branching a
// conversation.

type (
	// Regenerator takes answers back, so that a stored message is answered again.
	Regenerator interface {
		// Regenerate makes the user's message of that id the last that the thread
		// shows, with the state of before its answer, and returns the thread's head.
		// Later messages are not lost, if the adapter can keep them; a thread that
		// ends with the message is unchanged. Code not_found for a thread or a
		// message that does not exist, invalid_argument for one that is not a user's.
		Regenerate(ctx context.Context, req *HistoryRequest, message string) (head string, err error)
	}

	// Brancher keeps conversations that branch off a thread without changing it. The
	// returned branch is in [HistoryRequest].Branch of every later call of the run,
	// and each method then reads and writes that branch of the thread.
	Brancher interface {
		// Branch begins a branch of the thread and returns its name, which is not
		// empty. With a message it begins as the thread up to and with that one;
		// without, as the thread before the turn that is running on it. Codes as of
		// Regenerate; without a message there may be no thread yet.
		Branch(ctx context.Context, req *HistoryRequest, message string) (branch string, err error)
	}
)

// Racing is the concurrency policy for a turn that comes while another runs on its
// thread.
type Racing string

// The concurrency policies.
const (
	// RaceWait waits for the other, with the limits of [ThreadLocker]. It is the
	// default.
	RaceWait Racing = "wait"
	// RaceConflict refuses the later turn with code conflict before anything of it
	// is stored or any model is asked.
	RaceConflict Racing = "conflict"
	// RaceBranch runs the later turn at once, on a branch of its own, which begins
	// with the thread's messages before the other turn.
	RaceBranch Racing = "branch"
)

// Valid reports whether r is one of the kinds, or empty for the default.
func (r Racing) Valid() bool {
	return r == "" || slices.Contains([]Racing{RaceWait, RaceConflict, RaceBranch}, r)
}

// errRunning is LockThread's error for a turn that does not wait.
func errRunning(thread string, err error) error {
	return &Error{Code: Conflict, Message: "another turn is running on thread " + quote(thread), Err: err,
		Hint: "nothing of this one was stored; send it again when that has ended, or let turns wait or branch"}
}

func quote(s string) string { return Errorf("", "%q", s).Message }

// checkRacing refuses a way to race that the adapter cannot keep.
func (h *History) checkRacing(racing Racing) error {
	switch {
	case !racing.Valid():
		return Errorf(InvalidArgument, "there is no way to race called %.40q", string(racing)).WithHint("use wait, conflict or branch")
	case racing == "" || racing == RaceWait:
		return nil
	case h == nil || h.lock == nil:
		return Errorf(InvalidArgument, "turns cannot race by %q: the history does not know when another runs", string(racing)).
			WithHint("it needs LockThread")
	case racing == RaceBranch && h.branch == nil:
		return errNoBranches()
	}
	return nil
}

func errNoBranches() error {
	return Errorf(InvalidArgument, "the history keeps no branches").WithHint("it needs Branch; host/threads has it")
}

// checkRequest refuses a request that the history cannot serve.
func (t *runThread) checkRequest() error {
	req := t.req
	if err := t.history.checkRacing(req.Racing); err != nil {
		return err
	}
	if req.Branch != "" && (t.history == nil || t.history.branch == nil) {
		return errNoBranches()
	}
	if req.Branch != "" && (t.scope.Thread == "" || t.resume.run != "") {
		return Errorf(InvalidArgument, "request names the branch %q and not its thread", req.Branch)
	}
	if req.Regenerate == "" {
		if req.NewBranch {
			return Errorf(InvalidArgument, "request wants a branch for nothing").WithHint("name the message to answer again in Regenerate")
		}
		return nil
	}
	return t.checkRegenerate()
}

func (t *runThread) checkRegenerate() error {
	req, h := t.req, t.history
	switch {
	case t.conv.input != nil || len(req.Messages) > 0 || t.resume.run != "":
		return Errorf(InvalidArgument, "request answers the message %q again and says something new", req.Regenerate).
			WithHint("regenerate with nothing else, then say the rest")
	case !validMessageID(req.Regenerate):
		return Errorf(InvalidArgument, "there can be no message with an id of %d bytes like that", len(req.Regenerate))
	case t.scope.Thread == "":
		return Errorf(InvalidArgument, "request answers the message %q again and names no thread", req.Regenerate)
	case h == nil || h.get == nil || !req.NewBranch && h.regenerate == nil:
		return Errorf(InvalidArgument, "the history cannot take an answer back").WithHint("it needs Regenerate and Get")
	case req.NewBranch && h.branch == nil:
		return errNoBranches()
	}
	return nil
}

// concurrency returns the run's concurrency policy. A run that resumes another
// waits: that one has its place already.
func (t *runThread) concurrency() Racing {
	switch {
	case t.resume.run != "":
		return RaceWait
	case t.req.Racing != "":
		return t.req.Racing
	}
	return t.history.racing
}

// acquire makes the thread the run's, or a branch of it that the request names or
// wants. branches is set if another turn runs there, and this one is to run on a branch
// of its own, which acquireBranch begins.
func (t *runThread) acquire(ctx context.Context) (unlock func(), branches bool, err error) {
	if t.history == nil || t.history.lock == nil || t.scope.Thread == "" {
		return func() {}, false, nil
	}
	if t.req.NewBranch { // it takes nothing from the turn that runs on the thread
		if err := t.beginBranch(ctx); err != nil {
			return nil, false, err
		}
	}
	unlock, err = t.lockThread(ctx)
	if err == nil || CodeOf(err) != Conflict || t.concurrency() == RaceWait || t.concurrency() == "" {
		return unlock, false, err
	}
	if t.concurrency() == RaceConflict || t.branch != "" {
		return nil, false, errRunning(t.scope.Thread, err)
	}
	return unlock, true, nil
}

// acquireBranch begins a branch and makes it the run's.
func (t *runThread) acquireBranch(ctx context.Context) (unlock func(), err error) {
	if err := t.beginBranch(ctx); err != nil {
		return func() {}, err
	}
	return t.lockThread(ctx)
}

func (t *runThread) lockThread(ctx context.Context) (func(), error) {
	unlock, err := callHistory(ctx, t, historyCall[func()]{method: "LockThread", call: t.history.lock, late: func(unlock func()) {
		if unlock != nil {
			unlock()
		}
	}})
	if unlock == nil {
		unlock = func() {}
	}
	return unlock, err
}

// beginBranch begins a branch, which the run then works on.
func (t *runThread) beginBranch(ctx context.Context) error {
	branch, err := callHistory(ctx, t, historyCall[string]{method: "Branch", limit: historyLimit(t.limits), call: func(ctx context.Context, req *HistoryRequest) (string, error) {
		return t.history.branch(ctx, req, t.req.Regenerate)
	}})
	if err == nil && branch == "" {
		err = Errorf(Internal, "history adapter made a branch without a name")
	}
	if err != nil {
		return wrapError(err, "begin a branch of thread %q", t.scope.Thread)
	}
	t.branch, t.branched = branch, true
	return nil
}

// takeAnswerBack takes back the messages after the one that the request names.
func (t *runThread) takeAnswerBack(ctx context.Context) error {
	message := t.req.Regenerate
	if t.branched {
		return nil // the branch that the run got ends there
	}
	if t.req.NewBranch { // the history has no locks
		return t.beginBranch(ctx)
	}
	head, err := callHistory(ctx, t, historyCall[string]{method: "Regenerate", limit: historyLimit(t.limits), call: func(ctx context.Context, req *HistoryRequest) (string, error) {
		return t.history.regenerate(ctx, req, message)
	}})
	if err != nil {
		return wrapError(err, "take back the answer to message %q of thread %q", message, t.scope.Thread)
	}
	t.head = head
	return nil
}

// takeInput makes the message to answer again, the last of the conversation, the input.
func (t *runThread) takeInput(loaded *Loaded) error {
	n := len(loaded.Messages)
	if n == 0 || loaded.Messages[n-1].ID != t.req.Regenerate || loaded.Messages[n-1].Role != User {
		return Errorf(DataLoss, "history adapter did not make message %q of thread %q the last", t.req.Regenerate, t.scope.Thread)
	}
	t.conv.input = loaded.Messages[n-1]
	return nil
}
