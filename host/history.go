package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agenthost/agenthost/host/chat"
)

// A history adapter keeps conversations. It is any value with at least one of
// the methods of [ThreadCreator], [HistoryLoader], [UserMessageAppender] and
// [ResultAppender]: which ones it has is found once, by [NewHistory]. The
// names and the order are AgentKit's. It may also have those of [ThreadLocker],
// [RoundAppender], [ArtifactLister], [TurnReader], [Regenerator] and [Brancher].
//
// A run calls them in this order, each at most once, but for AppendRound:
//
//	LockThread         if the request names its thread
//	Branch             if another turn is running there and Racing is [RaceBranch] (then LockThread
//	                   again), or with Regenerate and NewBranch
//	ReadTurn           if the request names its thread and its input has an id: see [TurnReader]. A
//	                   turn that it returns is the answer, and nothing else is called
//	CreateThread       always, but to regenerate: a thread that the request names is made sure of
//	AppendUserMessage  if there is a user's message, before anything is loaded
//	Regenerate         in the place of both, to answer a stored message again
//	Get                if the request names its thread, CreateThread did not just make it, and
//	                   the request brings no Messages
//	AppendRound        with HistoryOptions.EachRound, before each model call after the first
//	ThreadArtifacts    when a tool asks for artifacts of earlier turns: see [ArtifactLister]
//	AppendResults      at the end, if an agent ran or the run failed, unless it failed before the
//	                   conversation was loaded
//	(unlock)           after that
//
// A thread that the request does not name gets the id that CreateThread returns;
// without CreateThread, but with Get, a fresh one; without both it has none. A
// method that fails ends the run with its error: before any model is asked, but
// for AppendRound; of AppendResults, beside the results. A run of a [Journal] that
// is resumed calls LockThread, ThreadHead and AppendResults alone: the other calls
// are done, and Get's answer is in the journal, unless it was more than 256 kB;
// then Get is called again, and ThreadHead is not. One agent on its own is kept
// exactly as a network of one.
//
// Each request says which side keeps the conversation. The server: the request
// names the thread alone. The client: it sends Messages with it, and nothing is
// loaded. Both: the first request of a session loads, later ones send the client's
// copy. New messages are stored in all three cases. A client that sends Messages
// keeps the state as well: the thread's stays unchanged, unless the request brings
// State or the thread is new.
//
// Methods are called in a goroutine of their own, one at a time for one run, any
// number for others. Each must heed its context, which ends after
// [Limits].HistoryTimeout, CommitTimeout for AppendResults, and with the run;
// LockThread's ends with the run. A call that does not return then is abandoned,
// and one that panics fails; the run ends in both cases. Requests and turns are
// copies, which an adapter may keep and change; the values it returns are shared
// and never changed. [Step] works in them.
type (
	// ThreadCreator makes sure a thread exists.
	ThreadCreator interface {
		// CreateThread makes the thread that req names if it does not exist, and one
		// of a fresh id if req names none. The given id stays, whatever is returned.
		// An empty id for a thread that req does not name is an error of code
		// internal. created says that the thread is new, so that there is nothing to
		// load.
		CreateThread(ctx context.Context, req *HistoryRequest) (thread string, created bool, err error)
	}

	// ThreadOpener makes sure a thread exists and stores the user's message in it, in one
	// commit. It is used instead of a [ThreadCreator] and a [UserMessageAppender], where
	// an adapter has all three and the run has a message: an adapter that wraps another
	// and replaces one of their methods wraps this one too, or leaves it out.
	ThreadOpener interface {
		// OpenThread does for req what CreateThread and then AppendUserMessage do: both
		// or, if it fails, neither.
		OpenThread(ctx context.Context, req *HistoryRequest) (OpenedThread, error)
	}

	// UserMessageAppender stores the user's message, as a commit of its own.
	UserMessageAppender interface {
		// AppendUserMessage stores req.Input. A message id that the thread has
		// already is not stored twice, whatever the message says. It returns the
		// thread's head; an empty one guards nothing.
		AppendUserMessage(ctx context.Context, req *HistoryRequest) (head string, err error)
	}

	// HistoryLoader reads a thread.
	HistoryLoader interface {
		// Get returns the thread's messages in conversation order, with or without
		// the message just stored; an unknown thread is empty, not an error, and so
		// is nil. A message that occurs twice is taken once, at its first place. A
		// message that is nil, of no known role or with a part that is nil, and a
		// thread or tenant that is not the one asked for, end the run with code
		// data_loss.
		Get(ctx context.Context, req *HistoryRequest) (*Loaded, error)
	}

	// ResultAppender stores the turn of a run.
	ResultAppender interface {
		// AppendResults stores a turn in one commit, guarded by turn.Head. Of a run
		// that failed it gets everything that was finished; Status then says so.
		// Storing the turn of one run again does nothing. Another turn of a run that
		// has one, which the ids of its messages tell, is stored too or an error of
		// code already_exists, not dropped. The context is not canceled with the
		// run's.
		AppendResults(ctx context.Context, req *HistoryRequest, turn *Turn) error
	}

	// RoundAppender stores the messages of a run while it runs. It is used with
	// [HistoryOptions].EachRound only.
	RoundAppender interface {
		// AppendRound stores the messages that round brings and that the thread
		// does not have, in one commit guarded by round.Head, and returns the
		// thread's head. If it has all of them it does nothing, whatever the head.
		// AppendResults gets them once more at the end, with the rest of the turn.
		AppendRound(ctx context.Context, req *HistoryRequest, round *Round) (head string, err error)
	}

	// HeadReader tells a thread's head without its messages. A run that is resumed
	// asks it whether the thread has moved on: the messages that it had loaded are
	// in the journal.
	HeadReader interface {
		// ThreadHead returns the head of the thread, "" if there is no thread.
		ThreadHead(ctx context.Context, req *HistoryRequest) (head string, err error)
	}

	// ThreadLocker makes racing turns on one thread wait for each other.
	ThreadLocker interface {
		// LockThread waits for the thread, or for the branch of it that req names. It
		// fails with code resource_exhausted when too many wait already and with ctx's
		// error when that ends first. If req.Racing is neither empty nor [RaceWait],
		// it does not wait: code conflict if another turn has the thread.
		LockThread(ctx context.Context, req *HistoryRequest) (unlock func(), err error)
	}
)

// OpenedThread is a thread with the user's message as its last.
type OpenedThread struct {
	Thread  string // its id: the given one, or a fresh one
	Created bool   // the thread is new, so that there is nothing to load
	Head    string // after the message; "" guards nothing
}

// HistoryRequest names the thread, and the run that asks for it.
type HistoryRequest struct {
	Tenant  string
	Thread  string // "" when the run named none and none is created yet
	Branch  string // of the thread, that a [Brancher] made; "" is its own line
	Run     string
	Resumes string // the run that this one resumes; "" for none
	Network string
	Input   *Message // the user's message of this run; may be nil
	SoFar   *SoFar   // the messages, the results, the agents and the state of the run; nil outside one
	Racing  Racing   // for LockThread

	// Fence is the owner's number of a run that is in the adapter's own journal
	// (see [Journal]), and 0 for any other: an adapter refuses to store the results
	// of an owner whose number is not the run's any more, with code conflict.
	Fence int64
}

// Loaded is a stored thread.
type Loaded struct {
	Messages []*Message
	State    json.RawMessage // custom state; nil if none was stored
	Head     string

	// Providers are the states of context providers, by key: those of the thread's
	// last turn that had any.
	Providers map[string]json.RawMessage

	// Tenant and Thread say whose it is, as the adapter found it stored beside
	// the messages. The host refuses a thread other than the one it asked for; empty
	// ones it cannot check.
	Tenant string
	Thread string

	// Of an agent thread: by what id its model's service keeps the conversation,
	// and how many of Messages, from the first, that has.
	conversation string
	known        int
}

// Turn holds what one run stores at its end.
type Turn struct {
	Head      string // the head after the user's message; "" guards nothing
	Results   []*Result
	State     json.RawMessage // nil when it must not be stored
	Artifacts []Artifact

	// Providers are the states of all context providers, by key; empty if nothing is
	// kept any more, and nil when those of the thread must stay unchanged. A failed
	// turn has those from before it. An adapter gives them back in Loaded.
	Providers map[string]json.RawMessage

	Status FinishReason
	Error  *Error // why it failed
	Usage  Usage

	// Entries are to be stored in the commit of the turn, if the adapter stores turns in
	// their store; an adapter of another store ignores them.
	Entries []TurnEntry

	// Of an agent thread: whether it had the input before, whether a model has
	// answered, by what id its service keeps the conversation, and the messages
	// that it has.
	inputKept    bool
	inputNamed   bool // the input has an id of its client's
	answered     bool
	conversation string
	known        map[string]bool
}

// Completed reports whether the turn was completed, without a question.
func (t *Turn) Completed() bool {
	switch t.Status {
	case chat.FinishFailed, chat.FinishCanceled, chat.FinishInterrupted:
		return false
	}
	return t.Error == nil && len(t.Results) > 0
}

// Round holds the messages that a run has added since it last stored any: answers
// with the results of their tools, no call left open.
type Round struct {
	Head     string // the head as the run left it; "" guards nothing
	Messages []*Message
}

// Messages returns the messages of all results in order.
func (t *Turn) Messages() []*Message {
	var out []*Message
	for _, r := range t.Results {
		out = append(out, r.Messages...)
	}
	return out
}

// HistoryOptions are the optional parts of a history.
type HistoryOptions struct {
	// Processors are applied to the loaded messages, before the network's and the
	// agent's.
	Processors []Processor

	// EachRound stores the messages of each round of an agent, its answer with the
	// results of its tools, before the next model call, so that a process that dies
	// loses one round and not the turn. It needs a [RoundAppender]. Stored rounds
	// stay: a Finish hook is too late to change them, and a network with
	// DiscardOnFailure is refused. A run in a [Journal] stores no rounds: its steps
	// are there.
	EachRound bool

	// Racing is how turns race on one thread, of requests that do not say: wait by
	// default. Any other needs a [ThreadLocker], and RaceBranch a [Brancher].
	Racing Racing
}

// History is a history adapter with its abilities found. It is immutable and
// may serve any number of networks.
type History struct {
	name       string // the adapter's type
	processors []Processor
	eachRound  bool
	racing     Racing

	createThread func(context.Context, *HistoryRequest) (string, bool, error)
	appendUser   func(context.Context, *HistoryRequest) (string, error)
	openThread   func(context.Context, *HistoryRequest) (OpenedThread, error) // nil unless it has the two above
	get          func(context.Context, *HistoryRequest) (*Loaded, error)
	appendResult func(context.Context, *HistoryRequest, *Turn) error
	appendRound  func(context.Context, *HistoryRequest, *Round) (string, error)
	threadHead   func(context.Context, *HistoryRequest) (string, error)
	lock         func(context.Context, *HistoryRequest) (func(), error)
	journal      Journal
	artifacts    func(context.Context, *HistoryRequest) ([]ArtifactRef, error)
	readTurn     func(context.Context, *HistoryRequest) (*StoredTurn, error)
	regenerate   func(context.Context, *HistoryRequest, string) (string, error)
	branch       func(context.Context, *HistoryRequest, string) (string, error)
}

// NewHistory returns a history kept by adapter. Code invalid_argument if the
// adapter has none of the four methods, or lacks one that an option needs.
func NewHistory(adapter any, opts *HistoryOptions) (*History, error) {
	h := &History{name: fmt.Sprintf("%T", adapter)}
	if opts != nil {
		h.processors = append(h.processors, opts.Processors...)
		h.eachRound, h.racing = opts.EachRound, opts.Racing
	}
	if a, ok := adapter.(ThreadCreator); ok {
		h.createThread = a.CreateThread
	}
	if a, ok := adapter.(UserMessageAppender); ok {
		h.appendUser = a.AppendUserMessage
	}
	if a, ok := adapter.(ThreadOpener); ok && h.createThread != nil && h.appendUser != nil {
		h.openThread = a.OpenThread
	}
	if a, ok := adapter.(HistoryLoader); ok {
		h.get = a.Get
	}
	if a, ok := adapter.(ResultAppender); ok {
		h.appendResult = a.AppendResults
	}
	if a, ok := adapter.(RoundAppender); ok {
		h.appendRound = a.AppendRound
	}
	if a, ok := adapter.(HeadReader); ok {
		h.threadHead = a.ThreadHead
	}
	if a, ok := adapter.(ArtifactLister); ok {
		h.artifacts = a.ThreadArtifacts
	}
	if a, ok := adapter.(TurnReader); ok {
		h.readTurn = a.ReadTurn
	}
	if a, ok := adapter.(ThreadLocker); ok {
		h.lock = a.LockThread
	}
	if a, ok := adapter.(Regenerator); ok {
		h.regenerate = a.Regenerate
	}
	if a, ok := adapter.(Brancher); ok {
		h.branch = a.Branch
	}
	if a, ok := adapter.(Journal); ok {
		h.journal = a
	}
	if h.createThread == nil && h.appendUser == nil && h.get == nil && h.appendResult == nil {
		return nil, Errorf(InvalidArgument, "history adapter %T", adapter).
			WithHint("it needs at least one of CreateThread, AppendUserMessage, Get and AppendResults")
	}
	if h.eachRound && h.appendRound == nil {
		return nil, Errorf(InvalidArgument, "history adapter %T cannot store each round", adapter).
			WithHint("it needs AppendRound; leave EachRound out to store a turn at its end")
	}
	if err := h.checkRacing(h.racing); err != nil {
		return nil, err
	}
	return h, nil
}

// checkDiscard refuses a network with DiscardOnFailure whose history stores each
// round.
func (h *History) checkDiscard(n *Network) error {
	if h == nil || !h.eachRound || !n.opts.DiscardOnFailure {
		return nil
	}
	return Errorf(InvalidArgument, "network %q discards what a failed run leaves, and its history stores each round", n.name).
		WithHint("choose one of DiscardOnFailure and EachRound")
}
