package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/metrics"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
)

// defaultDrain is the time of runs to end after SIGTERM.
const defaultDrain = 10 * time.Second

type serveFlags struct {
	data                cli.DataFlag
	listen, socket      string
	certificate, key    string // files
	behindProxy, verify bool
	metrics, registered bool
	origins             []string
	proxies             []string // addresses and networks
	tokens              tokenFlags
	model               string
	drain               time.Duration
}

// NewServe returns the command agenthost serve.
func NewServe(t *ui.Terminal, projects *open.Projects) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve PROJECT",
		Short: "Serve a project over HTTP",
		Long: `Serve a project over HTTP until SIGTERM or ctrl-C: runs, threads and usage,
each tenant with keys of its own. GET /v1/openapi.json describes the routes.

Every request needs a key: agenthost key create --tenant NAME makes one, also while
the server runs. With --jwt-issuer a JWT of that OpenID Connect provider is as good: its
claims name the tenant and the scopes. An address that other machines reach wants --tls-cert and --tls-key,
or --behind-proxy if a proxy on the way has the certificate.

Saved plugins, grants, tenants, prices and MCP servers are taken as in agenthost dev, and the same commands
steer the host. SIGTERM and ctrl-C end it: no run begins any more, GET /ready answers
503, durable runs are handed over to other hosts of a database, and the others have
--drain to end.`,
		Example: `  agenthost serve shop --data ./data
  agenthost key create --tenant acme --data ./data`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if err := f.check(); err != nil {
				return cli.UsageError(err, c.CommandPath())
			}
			return serve(c.Context(), t, projects, list[0], &f)
		},
	}
	flags := c.Flags()
	flags.Var(&f.data, "data", cli.DataUsage("where threads, keys and all else are kept (required)"))
	flags.StringVar(&f.listen, "listen", defaultListen, "the address to listen at, HOST:PORT; port 0 is a free one")
	flags.StringVar(&f.certificate, "tls-cert", "", "a file with the certificates of the server, in PEM")
	flags.StringVar(&f.key, "tls-key", "", "the file with the key of the certificate, in PEM")
	flags.BoolVar(&f.behindProxy, "behind-proxy", false, "a proxy has the certificate, and adds X-Forwarded-For")
	flags.StringSliceVar(&f.proxies, "proxy", nil, "with --behind-proxy: an address or network of proxies, whose X-Forwarded-For is believed (default: this machine's)")
	flags.StringSliceVar(&f.origins, "origin", nil, "an origin whose browser pages may call the API, such as https://app.example.com")
	f.tokens.add(c)
	flags.BoolVar(&f.metrics, "metrics", false, "serve GET /metrics for Prometheus, to everyone who reaches the address")
	flags.BoolVar(&f.registered, "registered", false, "serve only tenants that agenthost tenant create has made, whatever key a request has")
	flags.DurationVar(&f.drain, "drain", defaultDrain, "how long runs may take to end after SIGTERM")
	flags.BoolVar(&f.verify, "verify", false, "read every file of --data before it is used, and refuse it if one is damaged (always done after a crash)")
	flags.StringVar(&f.model, "model", "", "a model for every agent: a configured one, or a real one by its name (needs OPENAI_API_KEY or OPENAI_BASE_URL)")
	flags.StringVar(&f.socket, "socket", "", control.SocketUsage("the control socket")+" (default: "+control.SocketName+" in --data)")
	projects.AddWaitLock(flags)
	open.CompleteFlag(c, "model", (*project.File).Models)
	return c
}

// check refuses flags that do not go together, and addresses that would send keys in
// the clear.
func (f *serveFlags) check() error {
	name, _, err := net.SplitHostPort(f.listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen %q is no address: write HOST:PORT, such as %s", f.listen, defaultListen)
	case !f.data.Given():
		return errors.New("--data is required: the directory or database with the tenants' keys and threads")
	case (f.certificate == "") != (f.key == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case f.certificate != "" && f.behindProxy:
		return errors.New("--behind-proxy says that the proxy has the certificate: it takes no --tls-cert")
	case len(f.proxies) > 0 && !f.behindProxy:
		return errors.New("--proxy names the proxies of --behind-proxy: give both")
	case f.drain <= 0:
		return fmt.Errorf("--drain %s is no time to end in", f.drain)
	case !isLoopback(name) && f.certificate == "" && !f.behindProxy:
		return fmt.Errorf("--listen %s is reached by other machines, and keys would be sent in the clear: give --tls-cert and --tls-key, or --behind-proxy", f.listen)
	}
	_, err = f.proxyNetworks()
	return cmp.Or(err, f.tokens.check())
}

// proxyNetworks returns the networks of the proxies.
func (f *serveFlags) proxyNetworks() ([]netip.Prefix, error) {
	if len(f.proxies) == 0 {
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, nil
	}
	var list []netip.Prefix
	for _, text := range f.proxies {
		network, err := netip.ParsePrefix(text)
		if a, single := netip.ParseAddr(text); err != nil && single == nil {
			network, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("--proxy %q is neither an address nor a network: write 10.0.0.5 or 10.0.0.0/8", text)
		}
		list = append(list, network)
	}
	return list, nil
}

func serve(ctx context.Context, t *ui.Terminal, projects *open.Projects, name string, f *serveFlags) (err error) {
	c, err := open.ReadProject(name)
	if err != nil {
		return err
	}
	if err := open.CheckChangeable(c); err != nil {
		return err
	}
	certificate, err := readCertificate(f.certificate, f.key)
	if err != nil {
		return err
	}
	web, err := listenAt(ctx, f.listen, certificate)
	if err != nil {
		return err
	}
	defer func() { _ = web.listener.Close() }() // the server closes it, too
	plugins := &lateRuntime{}
	collected := metrics.New(&metrics.Options{Plugins: plugins})
	opts := projects.Options()
	opts.Data, opts.Verify, opts.Model, opts.Replaceable, opts.Meter = f.data.Text(), f.verify, f.model, true, collected
	opts.Registered = f.registered
	a, err := project.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	plugins.runtime.Store(a.Runtime())
	socket, err := localSocket(f.socket, &f.data, a)
	if err != nil {
		return err
	}
	live, err := newLiveHost(ctx, a, &f.data, socket, t.Logger(), t.Say)
	if err != nil {
		return err
	}
	api, err := f.keyedAPI(live, collected)
	if err != nil {
		return err
	}
	live.reload.Watch()
	stop := live.reload.Poll(ctx)
	defer stop()
	web.host, web.drain, web.manager = live, f.drain, serviceManager{opts.Getenv}
	f.announce(t, a, name, web.url())
	return web.serve(ctx, api, untilDone)
}

// keyedAPI returns the API for the holders of keys, of tenants and of administrators.
func (f *serveFlags) keyedAPI(h *liveHost, collected *metrics.Collector) (*httpapi.API, error) {
	opts := h.api
	tokens, err := f.tokens.verifier()
	if err != nil {
		return nil, err
	}
	store := project.AddCredentials(&opts, h.app, &keys.Options{Address: f.address(h.say), Tokens: tokens, Logger: opts.Logger})
	opts.Origins = f.origins
	served := *opts.MCP
	served.OnlyLoopback = f.onlyLoopback()
	opts.MCP = &served
	if f.metrics {
		opts.Metrics, opts.Observe = collected.Handler(&metrics.ViewOptions{Process: true}), []httpapi.Observe{collected.Request}
	}
	return httpapi.New(store.Authenticate, &opts)
}

// onlyLoopback reports whether every client is on this machine.
func (f *serveFlags) onlyLoopback() bool {
	name, _, err := net.SplitHostPort(f.listen)
	return err == nil && isLoopback(name) && !f.behindProxy
}

// address returns the function that finds the address of a request's sender; nil means
// the address of the connection. It says once that the header of a sender is not believed:
// all clients of a proxy that is not named share its failures.
func (f *serveFlags) address(say func(string, ...any)) func(*http.Request) netip.Addr {
	if !f.behindProxy {
		return nil
	}
	networks, _ := f.proxyNetworks() // check has read them
	sender := keys.ForwardedFor(networks...)
	var told sync.Once
	return func(r *http.Request) netip.Addr {
		address := sender(r)
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && from.Addr().Unmap() == address && r.Header.Get("X-Forwarded-For") != "" {
			told.Do(func() { say("X-Forwarded-For of %s is not believed: it is no proxy of --proxy", address) })
		}
		return address
	}
}

// announce prints where the host is, and what to do next.
func (f *serveFlags) announce(t *ui.Terminal, a *project.Project, name, url string) {
	fmt.Fprintf(t.Out, `Serving %s at %s

Make a key, and send a message:
  KEY=$(%s key create --tenant acme%s)
  curl --json '{"text":"hello"}' -H "Authorization: Bearer $KEY" %s/v1/runs
Clients of MCP connect to %s/mcp with the key.
`, termtext.ShellWord(name), url, ui.Self(), f.data.Words(), url, url)
	if a.Scripted() {
		fmt.Fprintf(t.Out, scriptedFooter, ui.Self(), termtext.ShellWord(name))
	}
}
