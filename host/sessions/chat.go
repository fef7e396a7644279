package sessions

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/threads"
)

// Client is the service of a [Chat]: [Service.For] in the same process, a
// [Remote] over HTTP.
type Client interface {
	// Turn runs a turn: see [Service.Turn].
	Turn(ctx context.Context, req *Request) iter.Seq2[host.Event, error]
	// Snapshot reads a snapshot: see [Service.Snapshot].
	Snapshot(ctx context.Context, req *SnapshotRequest) (*Snapshot, error)
}

// BackgroundClient is an optional interface of a [Client], for turns in the
// background. Both [Service.For] and a [Remote] implement it.
type BackgroundClient interface {
	// Wait waits for a turn in the background to end: see [Service.Wait].
	Wait(ctx context.Context, req *SnapshotRequest) (*Snapshot, error)
	// Abort asks one to end: see [Service.Abort].
	Abort(ctx context.Context, snapshot string) (Status, error)
	// Detach moves a running turn to the background: see [Service.Detach].
	Detach(ctx context.Context, snapshot string) (Status, error)
}

// For returns the service as a tenant's client.
func (s *Service) For(tenant string) Client { return tenantsClient{s, tenant} }

type tenantsClient struct {
	service *Service
	tenant  string
}

func (c tenantsClient) Turn(ctx context.Context, req *Request) iter.Seq2[host.Event, error] {
	own := *req
	own.Tenant = c.tenant
	return c.service.Turn(ctx, &own)
}

func (c tenantsClient) Snapshot(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	own := *req
	own.Tenant = c.tenant
	return c.service.Snapshot(ctx, &own)
}

func (c tenantsClient) Wait(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	own := *req
	own.Tenant = c.tenant
	return c.service.Wait(ctx, &own)
}

func (c tenantsClient) Abort(ctx context.Context, snapshot string) (Status, error) {
	return c.service.Abort(ctx, c.tenant, snapshot)
}

func (c tenantsClient) Detach(ctx context.Context, snapshot string) (Status, error) {
	return c.service.Detach(ctx, c.tenant, snapshot)
}

// Start says where a chat begins. The zero Start is a new session.
type Start struct {
	// Session follows a session: each turn continues from the session's last
	// completed turn, also if another chat ran that turn.
	Session string
	// Snapshot continues from a snapshot, and then on the chat's own branch.
	Snapshot string
	// State or Sealed is a session that the client keeps.
	State  *Session
	Sealed json.RawMessage
}

// Chat is a client's end of a session. It knows what to send with the next turn,
// whether the server or the client keeps the session, and has a live copy of the
// session, up to the last event of the running turn. A turn that fails, or whose
// connection is lost, leaves the copy unchanged. One turn runs at a time; the
// rest may be used meanwhile.
type Chat struct {
	client     Client
	background BackgroundClient // nil if the client does not implement it
	busy       chan struct{}    // held by the turn

	mu       sync.Mutex
	managed  Managed // empty until it is known
	session  string
	snapshot string // the next turn continues from it
	branch   bool   // the chat follows its own snapshots, and not the session
	failed   string // the snapshot of the last turn, if it failed
	detached string // the snapshot of the last turn in the background
	running  string // that of the turn that runs, when it has begun
	sealed   json.RawMessage
	stale    bool // the host's session is ahead of the copy
	settled  copied
	live     copied
}

// copied is a chat's copy of a session.
type copied struct {
	agent     string
	custom    *host.Document // nil if never set
	messages  []*host.Message
	first     int
	artifacts []Artifact
	waiting   string

	checkpoint *runevent.Checkpoint
	providers  map[string]json.RawMessage
}

// Artifact is an artifact as a chat knows it. A nil Artifact has not come over
// the connection: it can be read by its digest.
type Artifact struct {
	threads.ArtifactInfo
	Artifact *host.Artifact `json:"artifact,omitempty"`
}

// NewChat returns a chat. It says nothing before the first turn, or [Chat.Load].
// Code invalid_argument if start names several things.
func NewChat(client Client, start *Start) (*Chat, error) {
	if start == nil {
		start = &Start{}
	}
	c := &Chat{client: client, busy: make(chan struct{}, 1), session: start.Session, snapshot: start.Snapshot,
		branch: start.Snapshot != "", sealed: start.Sealed}
	c.background, _ = client.(BackgroundClient)
	kept := start.State != nil || len(start.Sealed) > 0
	if kept && (start.Session != "" || start.Snapshot != "") || start.State != nil && len(start.Sealed) > 0 {
		return nil, host.Errorf(host.InvalidArgument, "a chat begins with a session that is kept here, or with the names of one that is kept by the host")
	}
	if kept {
		c.managed = ByClient
	}
	c.stale = start.Session != "" || start.Snapshot != ""
	if start.State != nil {
		if err := c.take(start.State, nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// take makes a session the chat's copy. The caller holds c.mu, or is the only
// owner of c.
func (c *Chat) take(state *Session, artifacts []threads.ArtifactInfo) error {
	got := copied{agent: state.Agent, messages: slices.Clone(state.Messages), first: state.First, waiting: state.Waiting, checkpoint: state.Checkpoint, providers: state.Providers}
	if len(state.Custom) > 0 {
		var err error
		if got.custom, err = host.ReadDocument(state.Custom); err != nil {
			return err
		}
	}
	for i := range state.Artifacts {
		a := &state.Artifacts[i]
		got.artifacts = append(got.artifacts, Artifact{threads.ArtifactInfo{Name: a.Name}, a})
	}
	for _, info := range artifacts {
		got.artifacts = append(got.artifacts, Artifact{info, nil})
	}
	if state.ID != "" {
		c.session = state.ID
	}
	c.settled, c.live = got, got
	return nil
}

// Load replaces the chat's copy by the host's session. It does nothing for a
// session that the client keeps. Code not_found if the host has no such session.
func (c *Chat) Load(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	defer c.end()
	return c.load(ctx)
}

func (c *Chat) load(ctx context.Context) error {
	c.mu.Lock()
	req := &SnapshotRequest{Session: c.session}
	if c.branch {
		req.Snapshot = c.snapshot
	}
	client := c.managed == ByClient || req.Session == "" && req.Snapshot == ""
	c.mu.Unlock()
	if client {
		return nil
	}
	snap, err := c.client.Snapshot(ctx, req)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.managed, c.snapshot = ByServer, snap.ID
	state := snap.State
	if state == nil { // it runs, in the background
		state = &Session{ID: snap.Session, Agent: snap.Agent}
	}
	c.stale = !snap.Status.Settled()
	return c.take(state, snap.Artifacts)
}

// begin waits for the turn that runs.
func (c *Chat) begin(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.AsError(fault.ContextError(ctx))
	}
}

func (c *Chat) end() { <-c.busy }

// Say is a client's input to a turn. The zero Say retries the last turn.
type Say struct {
	Text    string
	Input   *host.Message
	Answers []host.Answer // to the questions of the last turn
	Detach  bool
	// Detachable lets [Chat.Detach] put the turn into the background while it runs.
	Detachable bool
}

// Chunk is one thing that happened in a turn.
type Chunk struct {
	host.Event
	// Custom is the custom state after this event, if it has changed it; nil
	// otherwise.
	Custom *host.Document
}

// Send says a text and returns how the turn ended. An output with an error is
// returned beside it.
func (c *Chat) Send(ctx context.Context, text string) (*Output, error) {
	return c.Do(ctx, &Say{Text: text})
}

// Do is [Chat.Stream] without the stream.
func (c *Chat) Do(ctx context.Context, say *Say) (*Output, error) {
	for chunk, err := range c.Stream(ctx, say) {
		if err != nil {
			return nil, err
		}
		if d, ok := chunk.Data.(*TurnEnded); ok {
			if d.Error != nil {
				return &d.Output, d.Error
			}
			return &d.Output, nil
		}
	}
	return nil, host.Errorf(host.Internal, "the turn ended without an output")
}

// Stream runs a turn and yields its events; a [TurnEnded] comes last. The chat's
// copy follows the events. An error means that the turn did not begin or that
// its connection was lost: then the copy is unchanged, and the next turn first
// loads the host's session. Leaving the loop cancels the turn.
func (c *Chat) Stream(ctx context.Context, say *Say) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if say == nil {
			say = &Say{}
		}
		if err := c.begin(ctx); err != nil {
			yield(Chunk{}, err)
			return
		}
		defer c.end()
		if c.isStale() {
			if err := c.load(ctx); err != nil && host.CodeOf(err) != host.NotFound {
				yield(Chunk{}, err)
				return
			}
		}
		c.stream(ctx, say, yield)
	}
}

// Wait waits for the chat's last turn in the background to end, replaces the
// chat's copy by the host's session, and returns the turn's snapshot, which says
// how the turn ended. It also waits for a turn of the chat that runs meanwhile.
// Code failed_precondition if no turn of the chat was detached, unimplemented if
// the client is no [BackgroundClient].
func (c *Chat) Wait(ctx context.Context) (*Snapshot, error) {
	id, err := c.lastDetached("wait for it")
	if err != nil {
		return nil, err
	}
	snap, err := c.background.Wait(ctx, &SnapshotRequest{Snapshot: id})
	if err != nil {
		return nil, err
	}
	if err := c.Load(ctx); err != nil && host.CodeOf(err) != host.NotFound { // a first turn that failed leaves nothing to load
		return snap, err
	}
	return snap, nil
}

// Abort asks the chat's last turn in the background to end, and returns its status:
// see [Service.Abort]. Codes are also those of [Chat.Wait].
func (c *Chat) Abort(ctx context.Context) (Status, error) {
	id, err := c.lastDetached("abort it")
	if err != nil {
		return "", err
	}
	return c.background.Abort(ctx, id)
}

// Detach puts the turn that runs into the background, if it was said with Detachable:
// its stream ends, and [Chat.Wait] waits for it. Code failed_precondition if no turn
// runs; the others are those of [Service.Detach].
func (c *Chat) Detach(ctx context.Context) (Status, error) {
	c.mu.Lock()
	background, running := c.background, c.running
	c.mu.Unlock()
	switch {
	case background == nil:
		return "", host.Errorf(host.Unimplemented, "the client %T knows of no turns in the background", c.client)
	case running == "":
		return "", host.Errorf(host.FailedPrecondition, "the chat has no turn that runs")
	}
	return background.Detach(ctx, running)
}

// lastDetached returns the snapshot of the last turn in the background.
func (c *Chat) lastDetached(doing string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.background == nil:
		return "", host.Errorf(host.Unimplemented, "the client %T knows of no turns in the background", c.client)
	case c.detached == "":
		return "", host.Errorf(host.FailedPrecondition, "the chat has no turn in the background to %s", doing).WithHint("say something with Detach")
	}
	return c.detached, nil
}

func (c *Chat) isStale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stale
}

func (c *Chat) stream(ctx context.Context, say *Say, yield func(Chunk, error) bool) {
	ended := false
	defer func() {
		if !ended {
			c.lost()
		}
	}()
	req, input := c.request(say)
	if input != nil {
		c.add(input)
	}
	next := int64(0)
	for ev, err := range c.client.Turn(ctx, req) {
		if err == nil && ev.Seq != next {
			err = host.Errorf(host.DataLoss, "event %d comes where event %d should", ev.Seq, next)
		}
		next++
		var custom *host.Document
		if err == nil {
			custom, ended, err = c.follow(ev)
		}
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		if !yield(Chunk{ev, custom}, nil) {
			return
		}
	}
	if !ended {
		yield(Chunk{}, host.Errorf(host.Unavailable, "the connection was lost before the turn ended").WithHint("load the chat to see what became of it"))
	}
}

// request returns the request of a turn, and its message.
func (c *Chat) request(say *Say) (*Request, *host.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req := &Request{Input: say.Input, Answers: say.Answers, Detach: say.Detach, Detachable: say.Detachable}
	if say.Text != "" {
		req.Input = host.UserText(say.Text)
	}
	switch {
	case c.managed == ByClient && len(c.sealed) > 0:
		req.Sealed = c.sealed
	case c.managed == ByClient:
		req.State = c.state(&c.settled)
	default:
		req.Session = c.session
		if c.branch {
			req.Snapshot = c.snapshot
			if req.Input == nil && len(req.Answers) == 0 && c.failed != "" {
				req.Snapshot = c.failed
			}
		}
	}
	return req, req.Input
}

func (c *Chat) add(m *host.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live.messages = append(slices.Clip(c.live.messages), m)
}

// follow makes the copy follow an event.
func (c *Chat) follow(ev host.Event) (custom *host.Document, ended bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch d := ev.Data.(type) {
	case *runevent.RunStarted:
		if d.Thread != "" { // a store keeps it, under this name also if the rest is lost
			c.managed, c.session = ByServer, d.Thread
			c.running = SnapshotID(d.Thread, ev.Run)
		}
	case *runevent.StatePatched:
		doc := c.live.custom
		if doc == nil {
			if doc, err = host.ReadDocument(json.RawMessage("{}")); err != nil {
				return nil, false, err
			}
		}
		if doc, err = doc.Patch(d.Ops); err != nil {
			return nil, false, host.Errorf(host.DataLoss, "a change of the state does not fit: %w", err)
		}
		c.live.custom = doc
		return doc, false, nil
	case *runevent.MessageDone:
		if d.Message == nil {
			return nil, false, nothingIn(ev)
		}
		c.live.messages = append(slices.Clip(c.live.messages), d.Message)
	case *runevent.ArtifactMade:
		if d.Artifact == nil {
			return nil, false, nothingIn(ev)
		}
		c.live.artifacts = putCopied(slices.Clone(c.live.artifacts), d.Artifact)
	case *TurnEnded:
		if slices.Contains(d.Messages, nil) {
			return nil, false, nothingIn(ev)
		}
		err := c.settle(&d.Output)
		return nil, err == nil, err
	}
	return nil, false, nil
}

// nothingIn refuses events that no host sends.
func nothingIn(ev host.Event) error {
	return host.Errorf(host.DataLoss, "event %d, %s, has nothing in it", ev.Seq, ev.Data.Type())
}

// putCopied adds an artifact to a chat's list: a named one replaces the one of its
// name.
func putCopied(list []Artifact, a *host.Artifact) []Artifact {
	made := Artifact{threads.ArtifactInfo{Name: a.Name}, a}
	for i := range list {
		if a.Name != "" && list[i].Name == a.Name {
			list[i] = made
			return list
		}
	}
	return append(list, made)
}

// settle updates the copy from the output of a turn. The caller holds c.mu.
func (c *Chat) settle(out *Output) error {
	c.running = ""
	c.session = out.Session
	if out.State != nil || len(out.Sealed) > 0 {
		c.managed, c.sealed = ByClient, out.Sealed
		if out.State == nil {
			c.live = c.settled
			return nil
		}
		return c.take(out.State, nil)
	}
	if c.managed == ByClient { // it could not be shown: what there was is still good
		c.live = c.settled
		return nil
	}
	c.managed = ByServer
	before := c.snapshot
	c.snapshot, c.failed = out.Snapshot, ""
	if out.Error != nil || out.FinishReason == FinishDetached {
		c.live, c.failed = c.settled, out.Turn
		c.stale = out.FinishReason == FinishDetached || out.Snapshot != before
		if out.FinishReason == FinishDetached {
			c.snapshot, c.failed, c.detached = before, "", out.Snapshot
			if c.branch {
				c.snapshot = out.Snapshot
			}
		}
		return nil
	}
	c.live.messages = append(slices.Clip(c.settled.messages), out.Messages...)
	c.settled, c.stale = c.live, out.Parent != before
	return nil
}

// lost restores the copy from before the turn.
func (c *Chat) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.running = c.settled, ""
	c.stale = c.managed != ByClient && (c.session != "" || c.snapshot != "")
}

// State returns the chat's present copy of the session. Artifacts that have not
// come over the connection are in [Chat.Artifacts] alone.
func (c *Chat) State() *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state(&c.live)
}

func (c *Chat) state(from *copied) *Session {
	out := &Session{ID: c.session, Agent: from.agent, Messages: slices.Clone(from.messages), First: from.first, Waiting: from.waiting, Checkpoint: from.checkpoint, Providers: maps.Clone(from.providers)}
	if from.custom != nil && from.custom.Size() > len("{}") {
		out.Custom = from.custom.JSON()
	}
	for _, a := range from.artifacts {
		if a.Artifact != nil {
			out.Artifacts = append(out.Artifacts, *a.Artifact)
		}
	}
	return out
}

// Artifacts returns the session's artifacts as the chat knows them.
func (c *Chat) Artifacts() []Artifact {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.live.artifacts)
}

// Session returns the session's id; empty before the first turn of a new one.
func (c *Chat) Session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Snapshot returns the snapshot that the next turn continues from, if the host
// keeps the session.
func (c *Chat) Snapshot() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snapshot
}

// Sealed returns the session to be kept, where it is sealed.
func (c *Chat) Sealed() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sealed
}
