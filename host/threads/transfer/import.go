package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/stateblob"
)

// Causes of import errors, each in the chain of an error of code invalid_argument.
var (
	// ErrTrailing: a document has content after its end, such as a second conversation.
	ErrTrailing = errors.New("there is more after the end")
	// ErrNoThread: neither the source nor [ImportOptions] names the thread.
	ErrNoThread = errors.New("what is read does not say which thread it is")
)

// Source is a conversation that comes from elsewhere, in pieces, so that a long
// one is never held whole. [NewSource] reads the forms that [Export]
// writes; a form of another system is another Source.
type Source interface {
	// Items yields the pieces of the conversation: first an Item.Thread, if the source has
	// one; the messages in their order; the snapshots, the first turn's first; state;
	// artifacts; uploads. An error comes last. It is called once.
	Items() iter.Seq2[Item, error]
}

// Item is a piece of a conversation: one of its fields, but for State and
// Providers, which may stand together, and beside a Snapshot.
type Item struct {
	// Thread has the id, title, times and metadata of the thread. The other fields
	// are counted by the import.
	Thread *threads.Thread
	// Message is the next message. A message without an id gets one that is derived
	// from it and the messages before it, so that it has the same id next time.
	Message *host.Message
	// Snapshot is the snapshot of the next turn. Its From and To are positions in
	// the messages that came before.
	Snapshot *threads.Snapshot
	// State is the thread's custom state now or, beside a Snapshot, after that turn.
	// It may be left out of a Snapshot that names the same state as the one before.
	// As an array of two it is the custom state and the states of context providers.
	State json.RawMessage
	// Providers are the states of context providers, by their keys: now, after a
	// State if there is one, or beside a Snapshot after that turn.
	Providers map[string]json.RawMessage
	Artifact  *host.Artifact
	Upload    *Upload
}

// Upload is something that messages or artifacts refer to by [Ref.URL]. Content is
// read to its end before the next item is asked for.
type Upload struct {
	Digest  string // SHA-256 in hex
	Content io.Reader
}

// ImportOptions are the optional parts of an import.
type ImportOptions struct {
	// Thread is the id to import under; default: the one that the source has.
	Thread string
	// Progress is called with the number of messages that were read, every so
	// often. nil is not called.
	Progress func(messages int)
}

// Imported is the result of an import.
type Imported struct {
	Thread *threads.Thread `json:"thread"`
	// Messages and Turns are how many the thread did not have before.
	Messages int `json:"messages"`
	Turns    int `json:"turns"`
	// Created says that there was no such thread.
	Created bool `json:"created"`
}

// The bounds of an import.
const (
	// MaxImportItemBytes is the largest message, state or artifact in a file.
	MaxImportItemBytes = 64 << 20
	// importBatch and importBytes bound one commit of an import.
	importBatch = 256
	importBytes = 1 << 20
	// maxImportArtifacts bounds the list that is held until the end.
	maxImportArtifacts = 100_000
)

// Import stores a conversation that comes from elsewhere. It may be repeated:
// messages that the thread has are not stored again, and the next import
// completes an interrupted one. The thread must not hold another conversation:
// where it and the source differ in a message or a turn that both have, nothing
// is stored. A thread that has grown since keeps its later messages and turns.
//
// It commits some hundred messages at a time, so that a thread which is being
// imported can be read up to the last commit. If the source turns out to be bad,
// a thread that this call has made is removed again.
//
// Code already_exists if the thread holds another conversation, conflict if
// another writer changes it meanwhile, invalid_argument for an item that cannot
// be stored and if neither the source nor opts names a thread. Errors of the
// source are returned unchanged.
func Import(ctx context.Context, tenant *threads.Tenant, src Source, opts *ImportOptions) (*Imported, error) {
	if opts == nil {
		opts = &ImportOptions{}
	}
	im := &importer{tenant: tenant, opts: *opts, runs: map[string]bool{}}
	defer im.close()
	err := im.all(ctx, src)
	if err == nil {
		err = im.finish(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, im.undo(ctx))
	}
	im.out.Thread = im.to.Moment().Thread()
	return &im.out, nil
}

// importer is one import.
type importer struct {
	tenant *threads.Tenant
	opts   ImportOptions
	out    Imported

	to      *threads.Restoring // nil before it began
	id      string             // of the thread
	from    threads.Thread     // as the source describes it
	started bool               // by a thread or a message of the source

	messages int    // of the source so far
	turns    int    // of the source so far
	last     string // id of the last message
	lastTo   int    // where the last turn ends

	stored      func() (*host.Message, error, bool) // the thread's messages when the import began
	stopStored  func()
	storedTurns func() (*threads.Snapshot, error, bool)
	stopTurns   func()

	batch      []*host.Message // not stored yet
	batchBytes int
	turnBatch  []threads.RestoredTurn // not stored yet
	runs       map[string]bool
	state      json.RawMessage
	stateOf    string // digest of the last snapshot's state, as the source has it
	artifacts  []threads.ArtifactInfo
}

func (im *importer) close() {
	if im.stopStored != nil {
		im.stopStored()
		im.stopTurns()
	}
}

func (im *importer) all(ctx context.Context, src Source) error {
	for item, err := range src.Items() {
		if err != nil {
			return err
		}
		if err := im.item(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

func (im *importer) item(ctx context.Context, item Item) error {
	if item.Thread != nil {
		if im.started {
			return host.Errorf(host.InvalidArgument, "import: the thread does not come first")
		}
		im.from = *item.Thread
		return im.begin(ctx)
	}
	if err := im.begin(ctx); err != nil {
		return err
	}
	switch {
	case item.Message != nil:
		return im.message(ctx, item.Message)
	case item.Snapshot != nil:
		state, err := stateblob.Normalize(item.State, item.Providers)
		if err != nil {
			return err
		}
		return im.snapshot(ctx, item.Snapshot, state)
	case item.State != nil:
		return im.stateNow(item.State, item.Providers)
	case item.Providers != nil:
		return im.stateNow(im.state, item.Providers)
	case item.Artifact != nil:
		return im.artifact(ctx, item.Artifact)
	case item.Upload != nil:
		return im.upload(ctx, item.Upload)
	}
	return host.Errorf(host.InvalidArgument, "import: an item of the source is empty")
}

// begin makes the thread, or opens the one there is.
func (im *importer) begin(ctx context.Context) error {
	if im.started {
		return nil
	}
	im.started = true
	id := im.opts.Thread
	if id == "" {
		id = im.from.ID
	}
	if id == "" {
		return host.Errorf(host.InvalidArgument, "import: %w", ErrNoThread).WithHint("name one")
	}
	var err error
	if im.to, err = im.tenant.Restore(ctx, id, &im.from); err != nil {
		return err
	}
	im.id, im.out.Created = id, im.to.Created()
	im.stored, im.stopStored = pull3(im.to.Moment().Messages(ctx))
	im.storedTurns, im.stopTurns = pull3(im.to.Moment().Snapshots(ctx))
	return nil
}

// pull3 is iter.Pull2 with its results in one function's order.
func pull3[T any](seq iter.Seq2[T, error]) (next func() (T, error, bool), stop func()) {
	return iter.Pull2(seq)
}

// others is the error of a thread that holds another conversation than the source.
func (im *importer) others(format string, args ...any) error {
	return host.Errorf(host.AlreadyExists, "import thread %q: "+format, append([]any{im.id}, args...)...).
		WithHint("what it has is as it was; import under another id")
}

func (im *importer) message(ctx context.Context, m *host.Message) error {
	if im.turns > 0 {
		return host.Errorf(host.InvalidArgument, "import thread %q: a message comes after the turns", im.id)
	}
	m = im.withID(m)
	at := im.messages
	im.messages, im.last = at+1, m.ID
	if have, err, ok := im.stored(); err != nil {
		return err
	} else if ok {
		if have.ID != m.ID {
			return im.others("it has another message %d than what is read", at)
		}
		return nil
	}
	im.batch = append(im.batch, m)
	im.batchBytes += messageSize(m)
	if len(im.batch) < importBatch && im.batchBytes < importBytes {
		return nil
	}
	return im.flush(ctx)
}

// messageSize is about how much of a commit a message takes.
func messageSize(m *host.Message) int { return len(m.AppendJSON(nil)) }

// withID returns the message with an id and a time.
func (im *importer) withID(m *host.Message) *host.Message {
	if m.ID != "" && !m.CreatedAt.IsZero() {
		return m
	}
	m = m.Clone()
	if m.ID == "" {
		sum := sha256.Sum256(m.AppendJSON([]byte(im.last + "\n")))
		m.ID = "import-" + hex.EncodeToString(sum[:16])
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = time.Now().UTC()
	}
	return m
}

// flush stores the messages that were read and are not stored.
func (im *importer) flush(ctx context.Context) error {
	if im.opts.Progress != nil {
		im.opts.Progress(im.messages)
	}
	if len(im.batch) == 0 {
		return nil
	}
	if err := im.to.AppendMessages(ctx, im.batch); err != nil {
		return err
	}
	im.out.Messages += len(im.batch)
	im.batch, im.batchBytes = nil, 0
	return nil
}

func (im *importer) flushAll(ctx context.Context) error {
	if err := im.flush(ctx); err != nil {
		return err
	}
	return im.flushTurns(ctx)
}

// endsHere reports whether the thread has as many messages and turns as were
// read. A thread with more keeps its own state and artifacts.
func (im *importer) endsHere() bool {
	now := im.to.Moment().Thread()
	return now.Messages == im.messages && now.Turns == im.turns
}

// finish stores the remaining messages and turns, and the present state and artifacts.
func (im *importer) finish(ctx context.Context) error {
	if err := im.begin(ctx); err != nil {
		return err
	}
	if err := im.flushAll(ctx); err != nil || !im.endsHere() {
		return err
	}
	have, err := im.to.Moment().Artifacts(ctx)
	if err != nil {
		return err
	}
	if len(have) > 0 && !slices.Equal(have, im.artifacts) {
		return im.others("it has other artifacts than what is read")
	}
	if len(have) > 0 {
		return im.to.Finish(ctx, im.state, nil)
	}
	return im.to.Finish(ctx, im.state, im.artifacts)
}

// undo removes a thread that this import has made, if no other writer has used it.
func (im *importer) undo(ctx context.Context) error {
	if im.to == nil {
		return nil
	}
	return im.to.Undo(context.WithoutCancel(ctx))
}
