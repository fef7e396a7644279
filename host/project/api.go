package project

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/idempotency"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/sessions"
)

// AddParts adds all parts of a project to the options of an API: its runs, threads, sessions,
// memories, uploaded plugins, usage and audit log, for tenants as far as their plans allow.
// The API has the caller's own authentication, or that of keys after [AddCredentials].
// Sessions end when the project is closed. Codes are those of [Project.Library].
func AddParts(ctx context.Context, opts *httpapi.Options, p *Project) error {
	view, err := p.ClientView()
	if err != nil {
		return err
	}
	plugins, err := p.Library(ctx)
	if err != nil {
		return err
	}
	services := &sessionServices{project: p, made: map[string]targetSessions{}}
	p.OnClose(services.close)
	opts.Runs, opts.Targets, opts.Threads, opts.Ledger, opts.Audit = p.Runs(), p, p.Threads(), p.Ledger(), p.Audit()
	opts.Memory, opts.Plugins, opts.Sessions = p.Memories(), plugins, services.of
	opts.Idempotency = idempotency.New(p.Data().Driver, nil)
	opts.Allowed = func(_ context.Context, who *keys.Principal, target string) bool {
		return p.Tenants().Allows(who.Tenant, target)
	}
	opts.Responses = responses.New(p.Data().Driver)
	opts.View, opts.Logger = view, p.logger
	server, err := p.MCP()
	if err != nil {
		return err
	}
	opts.MCP = &httpapi.MCP{
		Serve: func(w http.ResponseWriter, r *http.Request, who *keys.Principal) error {
			return server.Serve(w, r, mcpserver.Caller{Tenant: who.Tenant, Key: who.Key, Thread: who.Thread,
				MayRun: who.Has(httpapi.WriteRuns), MayRead: who.Has(httpapi.ReadThreads),
				Answering: recordAnswers(p.Audit(), httpapi.Actor(who), who.Tenant, w.Header().Get("X-Request-Id"))})
		},
		URL: server.URL, AuthorizationServers: server.AuthorizationServers,
	}
	return nil
}

// recordAnswers returns the function that writes to an audit log that a caller answers the
// questions of a run.
func recordAnswers(log *audit.Log, actor, tenant, request string) func(context.Context, string) error {
	return func(ctx context.Context, run string) error {
		_, err := log.Append(ctx, &audit.Entry{
			Actor: actor, Action: "run.answer", Tenant: tenant, Object: "run/" + run, Outcome: "allowed", Request: request,
		})
		return err
	}
}

// AddCredentials adds the keys in a project's data to the options of an API, with the routes of
// administrators, and returns them; their Authenticate is that of the API. They are closed
// with the project. Without an Admit in credentials, which may be nil, tenants are admitted
// as their records say.
func AddCredentials(opts *httpapi.Options, p *Project, credentials *keys.Options) *keys.Store {
	var o keys.Options
	if credentials != nil {
		o = *credentials
	}
	if o.Admit == nil {
		o.Admit = func(_ context.Context, who *keys.Principal) error {
			if who.Admin {
				return nil
			}
			return p.Tenants().Admit(who.Tenant)
		}
	}
	if o.Logger == nil {
		o.Logger = p.logger
	}
	store := keys.New(p.Data().Driver, &o)
	p.OnClose(store.Close)
	opts.Keys = store
	opts.Admin = &httpapi.Admin{Tenants: p.Tenants(), Erasures: p.Erasures(), Exports: p.Exports(store).Exporters()}
	if files := p.Data().Badger(); files != nil {
		opts.Admin.Backup = func(ctx context.Context, w io.Writer) error {
			_, err := files.Backup(ctx, w, nil)
			return err
		}
	}
	return store
}

// sessionServices are the sessions of a project's targets, made when they are first asked for.
type sessionServices struct {
	project *Project

	mu     sync.Mutex
	made   map[string]targetSessions // by the target's name
	former []*sessions.Service       // of targets that a saved plugin has replaced
}

// targetSessions are the sessions of a target.
type targetSessions struct {
	target  host.Target
	service *sessions.Service
}

// of returns the sessions of the present target of a name.
func (s *sessionServices) of(name string) (*sessions.Service, error) {
	target, err := s.project.Target(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.made[target.Name()]
	if before.target == target {
		return before.service, nil
	}
	service, err := s.project.Sessions(target)
	if err != nil {
		return nil, err
	}
	if before.service != nil {
		s.former = append(s.former, before.service)
	}
	s.former = slices.DeleteFunc(s.former, func(s *sessions.Service) bool { return s.Running() == 0 })
	s.made[target.Name()] = targetSessions{target, service}
	return service, nil
}

// close ends the services; the next host continues their turns in the background.
func (s *sessionServices) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, service := range s.former {
		service.Close()
	}
	for _, of := range s.made {
		of.service.Close()
	}
	return nil
}
