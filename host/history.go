package host

import (
	"context"
	"encoding/json"
)

// A history adapter keeps conversations. It is any value with at least one of
// the methods of [ThreadCreator], [HistoryLoader], [UserMessageAppender] and
// [ResultAppender]: which ones it has is found once, by [NewHistory]. The
// names are AgentKit's.
type (
	// ThreadCreator makes sure a thread exists.
	ThreadCreator interface {
		// CreateThread is called first in each run, also when the run names its
		// thread: then that id stays, whatever is returned. created says that the
		// thread is new, so that there is nothing to load.
		CreateThread(ctx context.Context, req *HistoryRequest) (thread string, created bool, err error)
	}

	// UserMessageAppender stores the user's message, as a commit of its own.
	UserMessageAppender interface {
		// AppendUserMessage stores req.Input. A message id that the thread has
		// already is not stored twice. It returns the thread's head.
		AppendUserMessage(ctx context.Context, req *HistoryRequest) (head string, err error)
	}

	// HistoryLoader reads a thread.
	HistoryLoader interface {
		// Get returns the thread's messages in conversation order, with or without
		// the message just stored; an unknown thread is empty, not an error. It is
		// not called when the client sent its own messages, nor for a thread that
		// CreateThread has just made.
		Get(ctx context.Context, req *HistoryRequest) (*Loaded, error)
	}

	// ResultAppender stores what a run leaves behind.
	ResultAppender interface {
		// AppendResults stores a turn in one commit, guarded by turn.Head. It is
		// called once for each run in which an agent ran, and for each that failed
		// after the conversation was loaded: Status then says so. Storing the turn
		// of one run again does nothing. The context is not cancelled with the
		// run's.
		AppendResults(ctx context.Context, req *HistoryRequest, turn *Turn) error
	}

	// ThreadLocker makes racing turns on one thread wait for each other.
	ThreadLocker interface {
		// LockThread waits for the thread. It fails with code resource_exhausted
		// when too many wait already and with ctx's error when that ends first.
		LockThread(ctx context.Context, req *HistoryRequest) (unlock func(), err error)
	}
)

// HistoryRequest says whose history is asked for.
type HistoryRequest struct {
	Tenant  string
	Thread  string // "" when the run named none and none is created yet
	Run     string
	Network string
	Input   *Message // the user's message of this run; may be nil
}

// Loaded is a thread as it was stored.
type Loaded struct {
	Messages []*Message
	State    json.RawMessage // custom state; nil if none was stored
	Head     string
}

// Turn is what one run leaves behind.
type Turn struct {
	Head      string // the head as it was after the user's message; "" guards nothing
	Results   []*Result
	State     json.RawMessage // nil when it must not be stored
	Artifacts []Artifact
	Status    FinishReason
	Error     *Error // why it failed
	Usage     Usage
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
	// Processors are applied to what is loaded before the network's and the
	// agent's.
	Processors []Processor
}

// History is a history adapter with its abilities found. It is immutable and
// may serve any number of networks.
type History struct {
	processors []Processor

	createThread func(context.Context, *HistoryRequest) (string, bool, error)
	appendUser   func(context.Context, *HistoryRequest) (string, error)
	get          func(context.Context, *HistoryRequest) (*Loaded, error)
	appendResult func(context.Context, *HistoryRequest, *Turn) error
	lock         func(context.Context, *HistoryRequest) (func(), error)
}

// NewHistory returns a history kept by adapter. Code invalid_argument if the
// adapter has none of the four methods.
func NewHistory(adapter any, opts *HistoryOptions) (*History, error) {
	h := &History{}
	if opts != nil {
		h.processors = append(h.processors, opts.Processors...)
	}
	if a, ok := adapter.(ThreadCreator); ok {
		h.createThread = a.CreateThread
	}
	if a, ok := adapter.(UserMessageAppender); ok {
		h.appendUser = a.AppendUserMessage
	}
	if a, ok := adapter.(HistoryLoader); ok {
		h.get = a.Get
	}
	if a, ok := adapter.(ResultAppender); ok {
		h.appendResult = a.AppendResults
	}
	if a, ok := adapter.(ThreadLocker); ok {
		h.lock = a.LockThread
	}
	if h.createThread == nil && h.appendUser == nil && h.get == nil && h.appendResult == nil {
		return nil, Errorf(InvalidArgument, "history adapter %T", adapter).
			WithHint("it needs at least one of CreateThread, AppendUserMessage, Get and AppendResults")
	}
	return h, nil
}
