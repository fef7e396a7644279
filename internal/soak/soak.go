//go:build unix

package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runs"
)

// logVariable is the environment variable that has the hosts write their logs.
const logVariable = "AGENTHOST_SOAK_LOG"

const (
	startTimeout = 5 * time.Second // of a client's request to start a run
	waitTimeout  = 2 * time.Second // of its request to wait for one
	readyTimeout = time.Minute     // of a process that starts
	endLimit     = time.Minute     // of a process that ends
	turnLimit    = 2 * time.Minute // for which a client asks for a turn
	settleLimit  = 3 * time.Minute // for the ends of runs after the faults: a host tries one again each minute
	settlePoll   = 500 * time.Millisecond
	turnsAThread = 40

	progressLimit = 5 * time.Minute // that a test takes longer while too little has happened to say anything

	slowest    = 200 * time.Millisecond // a delay on the way to or from the database
	lowestRate = 20_000                 // bytes a second of a connection with it
)

// Options configure [Run].
type Options struct {
	Store   string    // the address of a database, or a directory, which one host alone can have
	Command *exec.Cmd // starts a process that calls [Serve]
	Hosts   int
	Clients int // two have each thread
	Lease   time.Duration
	Seed    uint64

	Duration time.Duration // until the faults end
	Faults   int           // kills and pauses until they end; 0 is no bound
	Every    time.Duration // the mean time between two faults

	Cut   func() error // ends connections to the database; nil if that is not done
	Crash func() error // crashes the database and starts it again; nil if that is not done
	Proxy *Proxy       // on the way to the database, which it makes slow; nil if that is not done

	// Project is an empty directory for a configuration, from which the hosts are built as
	// the command builds them; empty for hosts that are built of the packages. The clocks
	// of these differ by up to an hour.
	Project string

	Logf func(format string, args ...any)
}

// Figures count the faults.
type Figures struct {
	Kills, Pauses, Cuts, Crashes, Slow int
	Elapsed                            time.Duration
}

func (f *Figures) String() string {
	return fmt.Sprintf("%d kills, %d pauses, %d times connections cut, %d crashes of the database, %d times a slow network", f.Kills, f.Pauses, f.Cuts, f.Crashes, f.Slow)
}

// Total returns the number of signals to processes.
func (f *Figures) Total() int { return f.Kills + f.Pauses }

// soak is the state of [Run].
type soak struct {
	opts    *Options
	ledger  *Ledger
	url     string
	slots   []*slot
	names   atomic.Int64
	figures Figures
	stop    chan struct{} // closed when no further turn begins
	started atomic.Int64  // processes
}

// slot is the place of a host: a process follows the other.
type slot struct {
	busy    sync.Mutex // held while the process is killed or paused
	mu      sync.Mutex
	process *process
}

func (s *slot) get() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Run drives hosts, and returns the faults and the broken promises. Its error is that of
// the driver itself, such as a host that does not start.
func Run(ctx context.Context, opts *Options) (*Figures, *Report, error) {
	s := &soak{opts: opts, ledger: NewLedger(), stop: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: s.ledger, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	s.url = "http://" + listener.Addr().String()
	if opts.Project != "" {
		stop, err := writeProject(ctx, opts.Project)
		if err != nil {
			return nil, nil, err
		}
		defer stop()
	}
	defer s.killAll()
	for range opts.Hosts {
		s.slots = append(s.slots, &slot{})
	}
	for _, slot := range s.slots {
		if err := s.begin(slot); err != nil {
			return nil, nil, err
		}
	}
	began := time.Now()
	var clients sync.WaitGroup
	for i := range opts.Clients {
		clients.Go(func() { s.client(ctx, i) })
	}
	err = s.breakThings(ctx)
	close(s.stop)
	clients.Wait()
	s.figures.Elapsed = time.Since(began)
	if err == nil {
		err = s.settle(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, slot := range s.slots {
		if err := slot.get().end(); err != nil {
			return nil, nil, err
		}
	}
	stored, err := s.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &s.figures, Check(s.ledger.Turns(), s.ledger.Effects(), stored), nil
}

// begin starts the process of a slot.
func (s *soak) begin(at *slot) error {
	number := s.started.Add(1)
	config, err := json.Marshal(hostConfig{
		Name: fmt.Sprint("h", number), Store: s.opts.Store, Ledger: s.url, Lease: s.opts.Lease, Project: s.opts.Project,
		Clock: time.Duration(number%3-1) * time.Hour,
	})
	if err != nil {
		return err
	}
	// Each attempt is a process: the database may be down.
	for since := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		p, err := startProcess(s.opts.Command, hostVariable+"="+string(config))
		if err == nil {
			at.mu.Lock()
			at.process = p
			at.mu.Unlock()
			return nil
		}
		if time.Since(since) > readyTimeout {
			return err
		}
	}
}

func (s *soak) killAll() {
	for _, slot := range s.slots {
		if p := slot.get(); p != nil {
			p.kill()
		}
	}
}

// process is the process of a host.
type process struct {
	cmd     *exec.Cmd
	in      io.Closer
	address string
	http    *http.Client
	ended   func() error // waits for the end
}

func startProcess(command *exec.Cmd, env string) (*process, error) {
	cmd := exec.Command(command.Path, command.Args[1:]...)
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, http: &http.Client{Transport: &http.Transport{}}, ended: sync.OnceValue(cmd.Wait)}
	timer := time.AfterFunc(readyTimeout, p.kill)
	defer timer.Stop()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	address, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ready {
		rest, _ := io.ReadAll(lines)
		p.kill()
		return nil, fmt.Errorf("a host does not start: it says %q", line+string(rest))
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	p.address = address
	return p, nil
}

// kill ends the process at once, also one that is paused. It may be called twice.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.ended()
	p.http.CloseIdleConnections()
}

// end ends the process as its user would.
func (p *process) end() error {
	_ = p.in.Close()
	timer := time.AfterFunc(2*endLimit, p.kill)
	defer timer.Stop()
	p.http.CloseIdleConnections()
	return p.ended()
}

// ask sends a request to the host.
func (p *process) ask(ctx context.Context, timeout time.Duration, path string, body any) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.address+path, bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	res, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	var out reply
	return &out, json.NewDecoder(res.Body).Decode(&out)
}

// continues reports whether further faults are made: until the deadline or until there were
// enough, and at most progressLimit longer while there was none.
func (s *soak) continues(deadline time.Time) bool {
	n := s.figures.Total()
	if n == 0 {
		return time.Now().Before(deadline.Add(progressLimit))
	}
	return time.Now().Before(deadline) && (s.opts.Faults == 0 || n < s.opts.Faults)
}

// breakThings makes faults until there were enough, and waits until their hosts are back. A
// fault waits until more turns were acknowledged than faults were made: on a machine that is
// busy with other things, hosts that are killed faster than they start show nothing.
func (s *soak) breakThings(ctx context.Context) error {
	random := rand.New(rand.NewPCG(s.opts.Seed, 0))
	var running sync.WaitGroup
	var mu sync.Mutex
	var failed error
	deadline := time.Now().Add(s.opts.Duration)
	for logged := time.Now(); s.continues(deadline); {
		if time.Since(logged) > 30*time.Second {
			logged = time.Now()
			s.opts.Logf("%s so far; %d turns", &s.figures, s.names.Load())
		}
		select {
		case <-ctx.Done():
			running.Wait()
			return ctx.Err()
		case <-time.After(s.opts.Every/2 + time.Duration(random.Int64N(int64(s.opts.Every)))):
		}
		if s.ledger.Acked() <= s.figures.Total() {
			continue // the hosts keep up with the faults, however slow the machine is
		}
		at, kind, length := s.slots[random.IntN(len(s.slots))], random.IntN(100), s.pause(random)
		var fault func() error
		switch {
		case kind < 3 && s.opts.Crash != nil:
			s.figures.Crashes++
			if err := s.opts.Crash(); err != nil {
				return err
			}
			continue
		case kind < 12 && s.opts.Cut != nil:
			s.figures.Cuts++
			if err := s.opts.Cut(); err != nil {
				return err
			}
			continue
		case kind < 16 && s.opts.Proxy != nil:
			mu.Lock() // the goroutines below compare Slow
			s.figures.Slow++
			slow := s.figures.Slow
			s.opts.Proxy.Slow(s.slowness(random))
			mu.Unlock()
			running.Go(func() {
				time.Sleep(length)
				mu.Lock()
				defer mu.Unlock()
				if slow == s.figures.Slow { // no other has begun
					s.opts.Proxy.Slow(nil)
				}
			})
			continue
		case !at.busy.TryLock():
			continue
		case kind < 60:
			s.figures.Kills++
			fault = func() error {
				at.get().kill()
				return s.begin(at)
			}
		default:
			s.figures.Pauses++
			fault = func() error {
				p := at.get()
				if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					return err
				}
				time.Sleep(length)
				return p.cmd.Process.Signal(syscall.SIGCONT)
			}
		}
		running.Go(func() {
			defer at.busy.Unlock()
			if err := fault(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		})
	}
	running.Wait()
	return failed
}

// slowness returns how slow the network is made: each piece of data is late, or the rate is
// low.
func (s *soak) slowness(random *rand.Rand) *Slowness {
	if random.IntN(2) == 0 {
		return &Slowness{Delay: slowest}
	}
	return &Slowness{Rate: lowestRate}
}

// pause returns how long a host is paused: more than half of the pauses are
// shorter than its lease.
func (s *soak) pause(random *rand.Rand) time.Duration {
	longest := s.opts.Lease / 2
	if random.IntN(2) == 0 {
		longest = 3 * s.opts.Lease
	}
	return time.Duration(random.Int64N(int64(longest)))
}

// client has turns, one after the other, until the faults end. It shares its threads with
// another client.
func (s *soak) client(ctx context.Context, number int) {
	random := rand.New(rand.NewPCG(s.opts.Seed, uint64(number)+1))
	for turn := 0; ; turn++ {
		select {
		case <-s.stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		t := Turn{Thread: fmt.Sprintf("t%d-%d", number/2, turn/turnsAThread), Durable: random.IntN(4) > 0}
		t.Name = fmt.Sprintf("n%d", s.names.Add(1))
		if random.IntN(2) == 0 {
			t.Name += "b"
		}
		t.Repeated = repeated(t.Name)
		s.ledger.Ask(t)
		p := s.slots[random.IntN(len(s.slots))].get()
		out, err := p.ask(ctx, startTimeout, "/start", startRequest{Turn: t.Name, Thread: t.Thread, Durable: t.Durable})
		if err == nil && out.Code == "" && out.Events > 0 {
			s.ledger.Note(t.Name, func(t *Turn) { t.Begun = true })
		}
		s.follow(ctx, random, t, p)
	}
}

// follow asks any host about a run until it has ended, or no host has known it for two
// leases: one that another host has to take over is unavailable.
func (s *soak) follow(ctx context.Context, random *rand.Rand, t Turn, p *process) {
	var unknown time.Time // since when the run is not found
	for since := time.Now(); ctx.Err() == nil && time.Since(since) < turnLimit; p = s.slots[random.IntN(len(s.slots))].get() {
		out, err := p.ask(ctx, 2*waitTimeout, "/wait?run="+url.QueryEscape(t.Name), nil)
		switch {
		case err == nil && out.Status == runs.Completed:
			s.ledger.Ack(t.Name)
			return
		case err == nil && out.Status != "" && out.Status.Ended():
			s.ledger.Note(t.Name, func(t *Turn) { t.Ended, t.Why = string(out.Status)+" "+string(out.Code), out.Error })
			if out.Status != runs.Failed {
				return
			}
			fallthrough // another host may have a durable run, which this one has lost
		case err == nil && out.Code == host.NotFound:
			if unknown.IsZero() {
				unknown = time.Now()
			}
			if !t.Durable || time.Since(unknown) > 2*s.opts.Lease {
				return
			}
		default:
			unknown = time.Time{}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.Int64N(int64(100 * time.Millisecond)))):
		}
	}
}

// settle waits until no durable run is open in the store, or the time for that is over.
func (s *soak) settle(ctx context.Context) error {
	if isDirectory(s.opts.Store) {
		return nil // a host has it
	}
	look, err := newLook(ctx, s.opts.Store)
	if err != nil {
		return err
	}
	defer look.close()
	for since := time.Now(); time.Since(since) < settleLimit; time.Sleep(settlePoll) {
		open, err := look.openRuns(ctx, s.ledger.Turns())
		maps.DeleteFunc(open, func(_ string, run OpenRun) bool { return run.Asks })
		if err != nil || len(open) == 0 {
			return err
		}
	}
	return nil
}

// read returns what the store has. No host has it any more.
func (s *soak) read(ctx context.Context) (*Stored, error) {
	look, err := newLook(ctx, s.opts.Store)
	if err != nil {
		return nil, err
	}
	defer look.close()
	turns := s.ledger.Turns()
	out := &Stored{}
	if out.Threads, err = look.messages(ctx, turns); err != nil {
		return nil, err
	}
	out.Open, err = look.openRuns(ctx, turns)
	return out, err
}
