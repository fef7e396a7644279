package runcmd

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/metrics"
	"github.com/agenthost/agenthost/host/plugin"
)

// The bounds of a server's connections. The API has deadlines of its own for bodies and
// answers.
const (
	defaultListen     = "127.0.0.1:8080"
	closeTimeout      = 5 * time.Second // for the last answers, after the runs have ended
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxStreams        = 250              // of one connection of HTTP/2
	pingAfter         = 15 * time.Second // without a frame of HTTP/2; one that is not answered in the same time ends the connection
)

// webServer is the part of a host that listens at a TCP address.
type webServer struct {
	listener    net.Listener
	certificate *certificate // nil without TLS
	host        *liveHost    // set once the host can be reached
	drain       time.Duration
	manager     serviceManager
}

// listenAt opens an address, with TLS if there is a certificate.
func listenAt(ctx context.Context, address string, c *certificate) (*webServer, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "listen at %s: %w", address, err).WithHint("end the process that has the address, or give another --listen")
	}
	if c != nil {
		l = tls.NewListener(l, c.config())
	}
	return &webServer{listener: l, certificate: c}, nil
}

// url returns the address for people.
func (w *webServer) url() string {
	if w.certificate != nil {
		return "https://" + w.listener.Addr().String()
	}
	return "http://" + w.listener.Addr().String()
}

// serve answers requests until the function until returns, the context of the function
// having ended if the listener has failed. Then no run begins any more, and the others
// have the time of drain; connections are closed within closeTimeout after them.
func (w *webServer) serve(ctx context.Context, handler http.Handler, until func(context.Context) error) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)} // it would log each client that leaves
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		if err := server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(host.Errorf(host.Unavailable, "the listener at %s failed: %w", w.listener.Addr(), err))
		}
	}()
	stop := w.reloadOnHangup(inner)
	defer stop()
	w.manager.notify("READY=1")
	stopWatchdog := w.manager.startWatchdog()
	defer stopWatchdog()
	err := until(inner)
	w.manager.notify("STOPPING=1")
	if ctx.Err() == nil && inner.Err() != nil {
		return context.Cause(inner)
	}
	w.drainRuns(ctx)
	end, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	if server.Shutdown(end) != nil {
		_ = server.Close()
	}
	<-failed
	return err
}

// drainRuns ends the host's runs while requests are still answered.
func (w *webServer) drainRuns(ctx context.Context) {
	w.host.draining.Store(true)
	if ctx.Err() != nil { // by a signal
		w.host.say("ending: no run begins any more, and those that run have %s", w.drain)
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.drain)
	defer cancel()
	if w.host.app.Runs().Drain(drain) != nil {
		w.host.say("some runs did not end in %s, and were canceled", w.drain)
	}
}

// reloadOnHangup takes the certificate, the configuration and the plugins again when the
// process receives SIGHUP, until stop is called.
func (w *webServer) reloadOnHangup(ctx context.Context) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-signals:
			case <-ended:
				return
			}
			if err := w.certificate.load(); err != nil {
				w.host.say("%s", err)
				w.host.say("the certificate stays as it was")
			}
			w.host.reload.Refresh(ctx)
			w.host.say("the files are read again")
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
		<-done
	}
}

// untilDone waits until ctx ends.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// certificate is the certificate of a server, which its files replace while it serves.
type certificate struct {
	file, key string
	pair      atomic.Pointer[tls.Certificate]
}

// readCertificate reads the certificate of two files in PEM; without them it is nil.
func readCertificate(file, key string) (*certificate, error) {
	if file == "" {
		return nil, nil
	}
	c := &certificate{file: file, key: key}
	return c, c.load()
}

// load reads the files. What cannot be read changes nothing.
func (c *certificate) load() error {
	if c == nil {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.file, c.key)
	if err != nil {
		return host.Errorf(host.InvalidArgument, "read the certificate and its key: %w", err).WithHint("--tls-cert and --tls-key are files in PEM that belong together")
	}
	c.pair.Store(&pair)
	return nil
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
		MinVersion:     tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}
}

func isLoopback(name string) bool {
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// lateRuntime is the runtime of a project that is opened after its meter is made.
type lateRuntime struct {
	runtime atomic.Pointer[plugin.Runtime]
}

// UsageReport implements the Plugins of package metrics.
func (l *lateRuntime) UsageReport() *plugin.UsageReport {
	if rt := l.runtime.Load(); rt != nil {
		return rt.UsageReport()
	}
	return &plugin.UsageReport{}
}

// Slots implements the Plugins of package metrics.
func (l *lateRuntime) Slots() []*plugin.Slot {
	if rt := l.runtime.Load(); rt != nil {
		return rt.Slots()
	}
	return nil
}

var _ metrics.Plugins = (*lateRuntime)(nil)
