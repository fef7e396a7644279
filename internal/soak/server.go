//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// How the server is driven.
const (
	requestLimit  = 90 * time.Second // in which a request has an answer, or its server was killed
	serverStart   = 60 * time.Second
	modelDown     = 2 * time.Second
	deviceFull    = 2 * time.Second
	configLength  = time.Second // for which a configuration is one that cannot be taken
	quietLimit    = time.Minute // for the goroutines and files of what has ended to go
	slowPiece     = 64          // bytes that a slow client reads at once
	slowPause     = 20 * time.Millisecond
	serverTenant  = "acme"
	ballastLeaves = 1 << 20 // bytes of a device that is full

	leastTurns = 10 // that a phase completes, with one crash of the plugin
)

// The most that may remain after a load, beyond the resources before it.
const (
	moreGoroutines = 20
	moreFiles      = 16        // the store keeps files of its tables open
	moreMemory     = 100 << 20 // bytes, over twice as much as before
)

// ServerOptions configure [RunServer].
type ServerOptions struct {
	Program string // the command agenthost
	Dir     string // empty; for the configuration
	Data    string // empty; for the data
	Device  string // a small device that has Data, and that is filled; empty if that is not done
	Clients int
	Seed    uint64

	Duration time.Duration
	Every    time.Duration // the mean time between two faults

	Logf func(format string, args ...any)
}

// ServerFigures are the counts of a soak of a server.
type ServerFigures struct {
	Kills, Outages, Full, Reloads, BadConfigurations int // faults

	Requests, Acked, Refused, Cut, Killed int            // requests; turns completed, requests refused, streams ended early, requests whose server was killed
	Crashes                               int            // of the plugin
	Codes                                 map[string]int // of refused requests and failed runs

	Before, After Resources // of the last process: before the load that it had without kills, and after it

	Broken []string // promises: what is lost, doubled, unanswered or left behind
}

func (f *ServerFigures) String() string {
	return fmt.Sprintf("%d kills, %d outages of the model, %d times a full device, %d reloads, %d configurations that cannot be taken; %d requests: %d turns completed, %d refused, %d streams ended early, %d when the server was killed, %d crashes of the plugin; codes %v; before the load %v, after it %v: %d promises broken",
		f.Kills, f.Outages, f.Full, f.Reloads, f.BadConfigurations, f.Requests, f.Acked, f.Refused, f.Cut, f.Killed, f.Crashes, f.Codes, f.Before, f.After, len(f.Broken))
}

// serverSoak is the state of [RunServer].
type serverSoak struct {
	opts  *ServerOptions
	model *unsteadyModel
	key   string
	http  *http.Client
	names atomic.Int64

	mu      sync.Mutex
	figures ServerFigures
	server  *serverProcess
	acked   map[string]string // thread of each completed turn
	pending map[string]string // thread and turn of each durable run that has begun and was not seen to end
}

// unsteadyModel is a scripted model that is not always there.
type unsteadyModel struct {
	handler http.Handler
	down    atomic.Bool
}

// ServeHTTP implements [http.Handler]: a model that is down closes the connection.
func (m *unsteadyModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.down.Load() {
		panic(http.ErrAbortHandler)
	}
	m.handler.ServeHTTP(w, r)
}

// serverConfiguration has an agent that answers, and one whose plugin traps at each call.
const serverConfiguration = `version: 1
default: clerk
agents:
  clerk:
    instructions: Answer. This is version %d.
    model: server
  broken:
    instructions: Answer.
    model: server
    processors: [{use: traps}]
models:
  server:
    provider: openai
    name: scripted
    base_url: %s
plugins:
  traps:
    path: builtin:toolcallfilter
    limits: {instructions: 40000}
`

// RunServer drives the command agenthost serve with requests over HTTP while it is killed,
// the model is down, the device is full, a plugin crashes at each call, clients read slowly
// and the configuration changes, and returns the figures with the promises that were
// broken: a turn that was said to be completed is in its thread, once; a durable run that
// has begun ends; each request has an answer, unless its server was killed; and the
// goroutines, files and memory of a load are given back after it. Its error is that of the
// driver itself.
func RunServer(ctx context.Context, opts *ServerOptions) (*ServerFigures, error) {
	handler, err := scriptedmodel.New(&scriptedmodel.Options{Otherwise: func(c *scriptedmodel.Conversation) *scriptedmodel.Reply {
		turn := strings.TrimPrefix(c.LastUser(), askPrefix)
		return &scriptedmodel.Reply{Text: answerPrefix + turn + ": " + strings.Repeat(done+" ", 50), Delay: scriptedmodel.Duration(maxModelWait / 2)}
	}})
	if err != nil {
		return nil, err
	}
	s := &serverSoak{opts: opts, model: &unsteadyModel{handler: handler}, acked: map[string]string{}, pending: map[string]string{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: opts.Clients}}}
	s.figures.Codes = map[string]int{}
	models, url, err := listenFor(s.model)
	if err != nil {
		return nil, err
	}
	defer func() { _ = models.Close() }()
	configure := func(text string) error {
		return os.WriteFile(filepath.Join(opts.Dir, "agenthost.yaml"), []byte(text), 0o600)
	}
	version := 0
	reload := func() error {
		version++
		return configure(fmt.Sprintf(serverConfiguration, version, url+"/v1"))
	}
	if err := reload(); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	defer func() { s.current().kill() }()
	if err := s.makeKey(); err != nil {
		return nil, err
	}
	// Most of the time with kills, the rest for one process.
	if err := s.phase(ctx, opts.Duration*6/10, true, configure, reload); err != nil {
		return nil, err
	}
	if s.figures.Before, err = s.quiet(ctx, nil); err != nil {
		return nil, err
	}
	if err := s.phase(ctx, opts.Duration*4/10, false, configure, reload); err != nil {
		return nil, err
	}
	if err := s.endRuns(ctx); err != nil {
		return nil, err
	}
	if s.figures.After, err = s.quiet(ctx, &s.figures.Before); err != nil {
		return nil, err
	}
	if err := s.checkThreads(ctx); err != nil {
		return nil, err
	}
	return &s.figures, s.current().end()
}

func (s *serverSoak) current() *serverProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// count changes the figures.
func (s *serverSoak) count(fn func(f *ServerFigures)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.figures)
}

// broke notes a promise that was broken.
func (s *serverSoak) broke(format string, args ...any) {
	s.count(func(f *ServerFigures) {
		if len(f.Broken) < 100 {
			f.Broken = append(f.Broken, fmt.Sprintf(format, args...))
		}
	})
}

// slow reports whether there were as many faults as completed turns.
func (s *serverSoak) slow() (slow bool) {
	s.count(func(f *ServerFigures) {
		slow = f.Acked <= f.Kills+f.Outages+f.Full+f.Reloads+f.BadConfigurations
	})
	return slow
}

// continues reports whether the clients of a phase send further requests: until its deadline,
// and at most progressLimit longer while too few turns were completed.
func (s *serverSoak) continues(deadline time.Time) (on bool) {
	s.count(func(f *ServerFigures) {
		few := f.Acked < leastTurns || f.Crashes == 0
		on = time.Now().Before(deadline) || few && time.Now().Before(deadline.Add(progressLimit))
	})
	return on
}

// phase has clients send requests for a time, and until enough was done to say anything,
// while faults come. A fault waits until more turns were completed than faults were made: on
// a busy machine a server that is killed faster than it answers shows nothing.
func (s *serverSoak) phase(ctx context.Context, duration time.Duration, kills bool, configure func(string) error, reload func() error) error {
	stop := make(chan struct{})
	var clients sync.WaitGroup
	first := s.names.Load()
	for i := range s.opts.Clients {
		clients.Go(func() {
			s.client(ctx, stop, fmt.Sprintf("t%d-%d", first, i), rand.New(rand.NewPCG(s.opts.Seed, uint64(first)+uint64(i))))
		})
	}
	random := rand.New(rand.NewPCG(s.opts.Seed, uint64(first)<<1|1))
	var failed error
	logged := time.Now()
	for deadline := time.Now().Add(duration); failed == nil && s.continues(deadline) && ctx.Err() == nil; {
		if time.Since(logged) > 30*time.Second {
			logged = time.Now()
			s.count(func(f *ServerFigures) { s.opts.Logf("so far: %v", f) })
		}
		time.Sleep(s.opts.Every/2 + time.Duration(random.Int64N(int64(s.opts.Every))))
		switch kind := random.IntN(100); {
		case s.slow():
		case kind < 40 && kills:
			s.count(func(f *ServerFigures) { f.Kills++ })
			s.current().kill()
			failed = s.start()
		case kind < 60:
			s.count(func(f *ServerFigures) { f.Outages++ })
			s.model.down.Store(true)
			time.Sleep(modelDown)
			s.model.down.Store(false)
		case kind < 75 && s.opts.Device != "":
			s.count(func(f *ServerFigures) { f.Full++ })
			failed = s.fillDevice()
		case kind < 80:
			s.count(func(f *ServerFigures) { f.BadConfigurations++ })
			failed = configure("version: 1\nagents: {clerk: {model: nowhere")
			time.Sleep(configLength)
			failed = errors.Join(failed, reload())
		default:
			s.count(func(f *ServerFigures) { f.Reloads++ })
			failed = reload()
		}
		select {
		case <-s.current().ended:
			if failed == nil {
				s.broke("the server ended by itself: %v", s.current().cmd.ProcessState)
				failed = s.start()
			}
		default:
		}
	}
	close(stop)
	clients.Wait()
	return errors.Join(failed, ctx.Err())
}
