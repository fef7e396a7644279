package sessioncmd

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
)

// Served has the sessions of a project's targets, for clients over a control socket. It
// is safe for concurrent use.
type Served struct {
	app *project.Project

	mu       sync.Mutex
	services map[string]*sessions.Service // by target
	targets  map[string]host.Target       // of each service
	former   []*sessions.Service          // of replaced targets, with turns in the background

	stopWatch context.CancelFunc // nil unless hosts share the store
	watching  sync.WaitGroup
}

// NewServed returns the sessions of a project's targets. The caller closes them.
func NewServed(a *project.Project) *Served {
	return &Served{app: a, services: map[string]*sessions.Service{}, targets: map[string]host.Target{}}
}

// Routes are the local routes of sessions.
func (v *Served) Routes() []control.Route {
	return []control.Route{
		control.Do("session.turn", "Run a turn of a session, and stream its events.", v.turn),
		control.Do("session.snapshot", "Read a snapshot of a session.", v.snapshot),
		control.Do("session.last", "Read how the last turn of a session has ended.", v.last),
		control.Do("session.list", "List the turns in the background.", v.list),
		control.Do("session.status", "Read how far a turn in the background is.", v.status),
		control.Do("session.wait", "Wait for the end of a turn in the background, for a while.", v.wait),
		control.Do("session.abort", "End a turn in the background.", v.abort),
		control.Do("target.list", "List the networks and agents of the configuration.", v.listTargets),
	}
}

// Service returns the sessions of the current target with this name: saving a plugin
// may have replaced the target.
func (v *Served) Service(name string) (*sessions.Service, error) {
	target, err := v.app.Target(name)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.services[target.Name()]; s != nil && v.targets[target.Name()] == target {
		return s, nil
	}
	s, err := v.app.Sessions(target)
	if err != nil {
		return nil, err
	}
	v.retire(v.services[target.Name()])
	v.services[target.Name()], v.targets[target.Name()] = s, target
	return s, nil
}

// retire keeps the service of a replaced target until its turns in the background have
// ended.
func (v *Served) retire(s *sessions.Service) {
	if s != nil {
		v.former = append(v.former, s)
	}
	v.former = slices.DeleteFunc(v.former, func(s *sessions.Service) bool { return s.Running() == 0 })
}

// Close closes the services; the next host continues their turns in the background.
func (v *Served) Close() error {
	if v.stopWatch != nil {
		v.stopWatch()
		v.watching.Wait()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.services {
		s.Close()
	}
	for _, s := range v.former {
		s.Close()
	}
	return nil
}

// turnArgs ask for a turn, and snapshotArgs for a snapshot.
type (
	turnArgs struct {
		Target  string            `json:"target,omitempty"`
		Tenant  string            `json:"tenant,omitempty"`
		Request *sessions.Request `json:"request"`
	}
	snapshotArgs struct {
		Target  string                    `json:"target,omitempty"`
		Tenant  string                    `json:"tenant,omitempty"`
		Request *sessions.SnapshotRequest `json:"request"`
	}
)

func (v *Served) turn(ctx context.Context, args turnArgs) (control.Events, error) {
	s, err := v.Service(args.Target)
	if err != nil {
		return nil, err
	}
	if args.Request == nil {
		return nil, host.Errorf(host.InvalidArgument, "a turn needs a request")
	}
	args.Request.Tenant = v.app.Tenant(args.Tenant)
	return func(yield func(json.RawMessage, error) bool) {
		enc := stream.Own() // whole events: chat --json shows their times
		var frames []stream.Frame
		for ev, err := range s.Turn(ctx, args.Request) {
			if err == nil {
				frames, err = enc.Encode(frames[:0], ev)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, f := range frames {
				if !yield(f.Data, nil) {
					return
				}
			}
		}
	}, nil
}

func (v *Served) listTargets(context.Context, struct{}) ([]string, error) {
	return v.app.Targets(), nil
}

func (v *Served) snapshot(ctx context.Context, args snapshotArgs) (*sessions.Snapshot, error) {
	s, err := v.Service(args.Target)
	if err != nil {
		return nil, err
	}
	if args.Request == nil {
		return nil, host.Errorf(host.InvalidArgument, "a snapshot needs a request")
	}
	args.Request.Tenant = v.app.Tenant(args.Tenant)
	return s.Snapshot(ctx, args.Request)
}

// lastTurnArgs ask how the last turn of a session, or the turn of a snapshot, has
// ended; lastTurn is the answer.
type (
	lastTurnArgs struct {
		Target   string `json:"target,omitempty"`
		Tenant   string `json:"tenant,omitempty"`
		Session  string `json:"session,omitempty"`
		Snapshot string `json:"snapshot,omitempty"`
	}
	lastTurn struct {
		Session string `json:"session"`
		Status  string `json:"status"`
	}
)

func (v *Served) last(ctx context.Context, args lastTurnArgs) (*lastTurn, error) {
	if args.Snapshot == "" {
		t, err := v.app.Threads().For(v.app.Tenant(args.Tenant)).Thread(ctx, args.Session)
		if err != nil {
			return nil, err
		}
		return &lastTurn{args.Session, string(t.Status)}, nil
	}
	s, err := v.Service(args.Target)
	if err != nil {
		return nil, err
	}
	snap, err := s.Snapshot(ctx, &sessions.SnapshotRequest{Tenant: v.app.Tenant(args.Tenant), Session: args.Session, Snapshot: args.Snapshot, WithoutState: true})
	if err != nil {
		return nil, err
	}
	return &lastTurn{snap.Session, string(snap.Status)}, nil
}

// socketClient speaks to the sessions of a running host.
type socketClient struct{ path, target, tenant string }

var _ sessions.Client = socketClient{}

// Turn runs a turn there.
func (c socketClient) Turn(ctx context.Context, req *sessions.Request) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		read := sessions.ReadEvents()
		for raw, err := range control.Stream(ctx, c.path, "session.turn", turnArgs{c.target, c.tenant, req}) {
			var ev host.Event
			if err == nil {
				ev, err = read(raw)
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Snapshot reads a snapshot there.
func (c socketClient) Snapshot(ctx context.Context, req *sessions.SnapshotRequest) (*sessions.Snapshot, error) {
	out := &sessions.Snapshot{}
	if err := control.Call(ctx, c.path, "session.snapshot", snapshotArgs{c.target, c.tenant, req}, out); err != nil {
		return nil, err
	}
	return out, nil
}
