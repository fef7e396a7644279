package runcmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/metrics"
	"github.com/agenthost/agenthost/host/project"
)

type devFlags struct {
	run            runFlags
	listen, socket string
}

// NewDev returns the command agenthost dev.
func NewDev(t *ui.Terminal, projects *open.Projects, dirs *open.Data) *cobra.Command {
	var f devFlags
	c := &cobra.Command{
		Use:   "dev PROJECT",
		Short: "Serve a project on this machine while you change its plugins",
		Long: `Serve a project on this machine while you change its plugins: the HTTP API of
agenthost serve, without keys and with GET /metrics, for programs and browser pages of this machine. On a
terminal it is a conversation as well, whose end ends the host; otherwise the host
serves until SIGTERM or ctrl-C.

Saving a plugin, the source in a directory or a .wasm file, puts it into service:
the next turn runs it. If it does not build or load, that is said, and the version
before stays. A turn of the conversation that is running ends on the versions that it
began with. Grants and tenants of the configuration are taken when it is saved.

Requests act for the tenant of --tenant, or the project's. Other commands can steer the
host: agenthost plugin list|load|reload|rollback|unload|top with --data DIR or --socket
PATH. Without --data the socket is in a temporary directory, and is told at the start.`,
		Example: "  agenthost dev shop --data ./data",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if err := f.check(); err != nil {
				return cli.UsageError(err, c.CommandPath())
			}
			return dev(c.Context(), t, projects, list[0], &f)
		},
	}
	flags := c.Flags()
	f.run.add(c, projects, dirs)
	flags.StringVar(&f.listen, "listen", "", "the address to listen at, of this machine alone (default: "+defaultListen+", or a free port if that is taken)")
	flags.StringVar(&f.socket, "socket", "", control.SocketUsage("the control socket")+" (default: "+control.SocketName+" in --data)")
	return c
}

func (f *devFlags) check() error {
	if err := f.run.checkHistory(); err != nil || f.listen == "" {
		return err
	}
	switch name, _, err := net.SplitHostPort(f.listen); {
	case err != nil:
		return fmt.Errorf("--listen %q is no address: write HOST:PORT, such as %s", f.listen, defaultListen)
	case !isLoopback(name):
		return fmt.Errorf("--listen %s is reached by other machines, and dev asks for no key: use agenthost serve", f.listen)
	}
	return nil
}

func dev(ctx context.Context, t *ui.Terminal, projects *open.Projects, projectName string, f *devFlags) (err error) {
	c, err := open.ReadProject(projectName)
	if err != nil {
		return err
	}
	if err := open.CheckChangeable(c); err != nil {
		return err
	}
	web, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = web.listener.Close() }() // the server closes it, too
	plugins := &lateRuntime{}
	collected := metrics.New(&metrics.Options{Plugins: plugins})
	opts := f.run.projectOptions(projects)
	opts.Replaceable, opts.Meter = true, collected
	a, err := project.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	plugins.runtime.Store(a.Runtime())
	s, err := newConversation(t, a, projectName, f.run)
	if err != nil {
		return err
	}
	socket, err := localSocket(f.socket, &f.run.data, a)
	if err != nil {
		return err
	}
	live, err := newLiveHost(ctx, a, &f.run.data, socket, t.Logger(), t.Say)
	if err != nil {
		return err
	}
	api, err := openAPI(live, f.run.tenant, collected)
	if err != nil {
		return err
	}
	s.reload = live.reload
	live.reload.Watch()
	stop := live.reload.Poll(ctx)
	defer stop()
	web.host, web.drain, web.manager = live, defaultDrain, serviceManager{opts.Getenv}
	f.announce(s, web.url(), socket)
	if t.InIsTerminal {
		return web.serve(ctx, api, s.talk)
	}
	return web.serve(ctx, api, untilDone)
}

// open listens at the address of the flag, or else at the default one or a free port.
func (f *devFlags) open(ctx context.Context) (*webServer, error) {
	if f.listen != "" {
		return listenAt(ctx, f.listen, nil)
	}
	web, err := listenAt(ctx, defaultListen, nil)
	if errors.Is(err, syscall.EADDRINUSE) {
		return listenAt(ctx, "127.0.0.1:0", nil)
	}
	return web, err
}

// openAPI returns the API for the programs of this machine, each of which acts for a
// tenant without a key. It refuses requests that pages of other sites make by the
// browser of this machine's user: those with a name of another machine, which such a
// site may have made to mean this one, and those that the browser marks.
func openAPI(h *liveHost, tenant string, collected *metrics.Collector) (http.Handler, error) {
	opts := h.api
	opts.Metrics, opts.Observe = collected.Handler(&metrics.ViewOptions{Process: true}), []httpapi.Observe{collected.Request}
	api, err := httpapi.New(func(*http.Request) (*keys.Principal, error) {
		return &keys.Principal{Tenant: h.app.Tenant(tenant), Scopes: httpapi.Scopes()}, nil
	}, &opts)
	if err != nil {
		return nil, err
	}
	foreign := func(w http.ResponseWriter, _ *http.Request) {
		httpapi.NewProblem(host.Errorf(host.PermissionDenied, "the request is of a page of another site").
			WithHint("agenthost serve has --origin for such pages"), "").Answer(w)
	}
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(foreign))
	guarded := guard.Handler(api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if bare, _, err := net.SplitHostPort(r.Host); err == nil {
			name = bare
		}
		// The guard refuses changes alone; a page may learn from the status of a read, too.
		if !isLoopback(strings.Trim(name, "[]")) || r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			foreign(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	}), nil
}

// announce prints how to use the host.
func (f *devFlags) announce(s *conversation, url, socket string) {
	fmt.Fprintf(s.term.Out, `Serving at %s for this machine, without keys. Send a message, and read the answer as it comes:
  curl --json '{"text":"hello"}' %s/v1/runs
  curl -N --json '{"text":"hello"}' -H 'Accept: text/event-stream' %s/v1/runs
Clients of MCP connect to %s/mcp.
Save a plugin, and the next turn runs it. Steer this host with: %s plugin list%s
`, url, url, url, url, ui.Self(), control.HostWords(&f.run.data, socket))
	if !s.term.InIsTerminal {
		s.footer()
	}
}
