//go:build linux

package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agenthost/agenthost/host/chat"
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

// Resources are those of a process.
type Resources struct {
	Goroutines, Files int
	Memory            int64 // resident bytes
}

func (r Resources) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d MB", r.Goroutines, r.Files, r.Memory>>20)
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

// serverProcess is a process of agenthost serve.
type serverProcess struct {
	url    string
	cmd    *exec.Cmd
	ended  chan struct{}
	killed atomic.Bool
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

// start starts a server on the data.
func (s *serverSoak) start() error {
	cmd := exec.Command(s.opts.Program, "serve", s.opts.Dir, "--data", s.opts.Data, "--listen", "127.0.0.1:0", "--metrics")
	var log bytes.Buffer
	cmd.Stderr = &log
	if os.Getenv(logVariable) != "" {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &serverProcess{cmd: cmd, ended: make(chan struct{})}
	timer := time.AfterFunc(serverStart, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), " at http://"); ok {
			p.url = "http://" + url
			go func() {
				_, _ = io.Copy(io.Discard, out)
				_ = cmd.Wait()
				close(p.ended)
			}()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.server = p
			return nil
		}
	}
	_ = cmd.Wait()
	return fmt.Errorf("the server does not start:\n%s", &log)
}

// kill kills the process as nothing but kill -9 does.
func (p *serverProcess) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// end ends the process as its operator would.
func (p *serverProcess) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(serverStart):
		p.kill()
		return errors.New("the server does not end")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the server ends with exit code %d", code)
	}
	return nil
}

// makeKey makes a key of the tenant, while the server runs.
func (s *serverSoak) makeKey() error {
	out, err := exec.Command(s.opts.Program, "key", "create", "--tenant", serverTenant, "--name", "soak", "--data", s.opts.Data).Output()
	s.key = strings.TrimSpace(string(out))
	return err
}

// phase has clients send requests for a time, while faults come.
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
	for deadline := time.Now().Add(duration); failed == nil && time.Now().Before(deadline) && ctx.Err() == nil; {
		if time.Since(logged) > 30*time.Second {
			logged = time.Now()
			s.count(func(f *ServerFigures) { s.opts.Logf("so far: %v", f) })
		}
		time.Sleep(s.opts.Every/2 + time.Duration(random.Int64N(int64(s.opts.Every))))
		switch kind := random.IntN(100); {
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

// fillDevice fills the device for a while.
func (s *serverSoak) fillDevice() error {
	path := filepath.Join(s.opts.Device, "ballast")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close(); _ = os.Remove(path) }()
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return err
	}
	if room := int64(st.Bavail)*st.Bsize - ballastLeaves; room > 0 {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, room); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
	time.Sleep(deviceFull)
	return nil
}

// quiet waits until a process without load has given its resources back, as far as it does,
// and returns its resources. With before it reports those that are left behind.
func (s *serverSoak) quiet(ctx context.Context, before *Resources) (r Resources, err error) {
	s.http.CloseIdleConnections()
	var goroutines []int
	for since := time.Now(); ; {
		if r, err = s.resources(ctx); err != nil {
			return r, err
		}
		goroutines = append(goroutines, r.Goroutines)
		steady := len(goroutines) > 5 && slices.Max(goroutines[len(goroutines)-5:]) == r.Goroutines
		if steady && (before == nil || len(left(*before, r)) == 0) || time.Since(since) > quietLimit {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	if before != nil {
		for _, line := range left(*before, r) {
			s.broke("%s", line)
		}
	}
	return r, nil
}

// left describes the resources that a process has beyond those that it may have after a load.
func left(before, after Resources) (lines []string) {
	if after.Goroutines > before.Goroutines+moreGoroutines {
		lines = append(lines, fmt.Sprintf("%d goroutines became %d", before.Goroutines, after.Goroutines))
	}
	if after.Files > before.Files+moreFiles {
		lines = append(lines, fmt.Sprintf("%d open files became %d", before.Files, after.Files))
	}
	if after.Memory > 2*before.Memory+moreMemory {
		lines = append(lines, fmt.Sprintf("%d MB became %d MB", before.Memory>>20, after.Memory>>20))
	}
	return lines
}

// resources asks the server for its resources.
func (s *serverSoak) resources(ctx context.Context) (r Resources, err error) {
	p := s.current()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		return r, err
	}
	req.Close = true
	resp, err := s.http.Do(req)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_goroutines":
			r.Goroutines = int(value)
		case "process_open_fds":
			r.Files = int(value)
		case "process_resident_memory_bytes":
			r.Memory = int64(value)
		}
	}
	if r.Goroutines == 0 || r.Files == 0 || r.Memory == 0 {
		return r, fmt.Errorf("the server's metrics do not say what it has: %v", r)
	}
	return r, nil
}

// client has turns on threads of its own, one after the other, until stop. It leaves a
// thread whose durable run it did not see end: a turn that comes before a run has continued
// ends the run.
func (s *serverSoak) client(ctx context.Context, stop <-chan struct{}, own string, random *rand.Rand) {
	for turn, number := 0, 0; ; turn++ {
		if turn == turnsAThread {
			turn, number = 0, number+1
		}
		thread := fmt.Sprintf("%s-%d", own, number)
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		name := fmt.Sprintf("n%d", s.names.Add(1))
		switch kind := random.IntN(10); {
		case kind < 3:
			s.turn(ctx, thread, name, startBody{Target: "clerk"}, "application/json", false)
		case kind < 5:
			s.turn(ctx, thread, name, startBody{Target: "clerk"}, "text/event-stream", false)
		case kind < 6:
			s.turn(ctx, thread, name, startBody{Target: "clerk"}, "text/event-stream", true)
		case kind < 8:
			s.turn(ctx, thread, name, startBody{Target: "broken"}, "application/json", false)
		default:
			s.turn(ctx, thread, name, startBody{Target: "clerk", Durable: true}, "", false)
			if s.waits(thread) {
				turn, number = -1, number+1
			}
		}
	}
}

// waits reports whether a durable run of a thread was not seen to end.
func (s *serverSoak) waits(thread string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, turn := range s.pending {
		if strings.HasPrefix(turn, thread+" ") {
			return true
		}
	}
	return false
}

// startBody is the body of a request that starts a run.
type startBody struct {
	Text    string `json:"text"`
	Thread  string `json:"thread"`
	Target  string `json:"target"`
	Durable bool   `json:"durable,omitempty"`
}

// runBody is a run in an answer, or a problem.
type runBody struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Events int64  `json:"events"`
	Code   string `json:"code"`
	Error  *struct {
		Code string `json:"code"`
	} `json:"error"`
}

// turn has one turn. accept is what the client wants: the run when it has ended, its events,
// or, if it is empty, no more than that the run is accepted.
func (s *serverSoak) turn(ctx context.Context, thread, name string, body startBody, accept string, slow bool) {
	p := s.current()
	s.count(func(f *ServerFigures) { f.Requests++ })
	body.Text, body.Thread = askPrefix+name, thread
	resp, raw, err := s.ask(ctx, p, http.MethodPost, "/v1/runs", body, accept, slow)
	if err != nil {
		s.noAnswer(p, name, err)
		return
	}
	var run runBody
	if accept == "text/event-stream" && resp.StatusCode == http.StatusOK {
		s.endOfStream(thread, name, raw)
		return
	}
	if err := json.Unmarshal(raw, &run); err != nil {
		s.broke("turn %s: the answer %d is no JSON: %.200q", name, resp.StatusCode, raw)
		return
	}
	switch {
	case resp.StatusCode == http.StatusAccepted:
		if run.Events > 0 { // otherwise it waits, and nothing of it is stored
			s.mu.Lock()
			s.pending[run.ID] = thread + " " + name
			s.mu.Unlock()
		}
		s.follow(ctx, run.ID, 5)
	case resp.StatusCode != http.StatusOK:
		s.count(func(f *ServerFigures) { f.Refused++; f.Codes[fmt.Sprint(resp.StatusCode, " ", run.Code)]++ })
		if resp.StatusCode >= 500 && run.Code != "unavailable" && run.Code != "internal" && run.Code != "deadline_exceeded" || run.Code == "" {
			s.broke("turn %s: it is refused with %d %.300s", name, resp.StatusCode, raw)
		}
	default:
		s.ended(thread, name, &run, body.Target)
	}
}

// ended notes the end of a run.
func (s *serverSoak) ended(thread, name string, run *runBody, target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case run.Status == "completed":
		s.figures.Acked++
		s.acked[name] = thread
	case run.Error != nil:
		s.figures.Codes["run "+run.Error.Code]++
		if target == "broken" {
			s.figures.Crashes++
		}
	default:
		s.figures.Codes["run "+run.Status]++
	}
}

// endOfStream notes how a stream of events ended.
func (s *serverSoak) endOfStream(thread, name string, raw []byte) {
	if !bytes.Contains(raw, []byte("event: run.finished")) {
		s.count(func(f *ServerFigures) { f.Cut++ })
		return
	}
	last := raw[bytes.LastIndex(raw, []byte("event: run.finished")):]
	run := runBody{Status: "failed"}
	if bytes.Contains(last, []byte(`"finish_reason":"stop"`)) {
		run.Status = "completed"
	}
	s.ended(thread, name, &run, "")
}

// noAnswer notes a request without an answer, which only a killed server may leave.
func (s *serverSoak) noAnswer(p *serverProcess, name string, err error) {
	if p.killed.Load() {
		s.count(func(f *ServerFigures) { f.Killed++ })
		time.Sleep(50 * time.Millisecond)
		return
	}
	select {
	case <-p.ended: // which is a promise of its own: see phase
	case <-time.After(time.Second):
		s.broke("turn %s: the server lives and does not answer: %v", name, err)
	}
}

// ask sends a request and reads its answer.
func (s *serverSoak) ask(ctx context.Context, p *serverProcess, method, path string, body any, accept string, slow bool) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, nil, err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, in)
	if err != nil {
		return nil, nil, err
	}
	req.GetBody = nil // a request that is sent twice would be two turns
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	if accept == "" && body != nil {
		req.Header.Set("Prefer", "respond-async")
	} else if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if !slow {
		raw, err := io.ReadAll(resp.Body)
		return resp, raw, err
	}
	var raw bytes.Buffer
	for {
		_, err := io.CopyN(&raw, resp.Body, slowPiece)
		if errors.Is(err, io.EOF) {
			return resp, raw.Bytes(), nil
		}
		if err != nil {
			return resp, raw.Bytes(), err
		}
		time.Sleep(slowPause)
	}
}

// follow asks for a durable run until it has ended, at most so many times.
func (s *serverSoak) follow(ctx context.Context, id string, times int) (known bool) {
	for i := range times {
		if i > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		resp, raw, err := s.ask(ctx, s.current(), http.MethodGet, "/v1/runs/"+id, nil, "", false)
		var run runBody
		if err != nil || json.Unmarshal(raw, &run) != nil {
			continue
		}
		if known = resp.StatusCode == http.StatusOK; !known || run.Status == "running" {
			continue
		}
		s.mu.Lock()
		turn, began := s.pending[id]
		delete(s.pending, id)
		s.mu.Unlock()
		if thread, name, _ := strings.Cut(turn, " "); began {
			s.ended(thread, name, &run, "clerk")
		}
		return true
	}
	return known
}

// endRuns waits for the ends of the durable runs that have begun. One that the server does
// not know has ended some time ago: its turn is in its thread.
func (s *serverSoak) endRuns(ctx context.Context) error {
	for since := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		s.mu.Lock()
		ids := make(map[string]string, len(s.pending))
		for id, turn := range s.pending {
			ids[id] = turn
		}
		s.mu.Unlock()
		running := 0
		for id := range ids {
			if s.follow(ctx, id, 1) {
				running++
			}
		}
		if running == 0 || time.Since(since) > quietLimit {
			return ctx.Err()
		}
	}
}

// checkThreads compares the threads with the acknowledged turns.
func (s *serverSoak) checkThreads(ctx context.Context) error {
	threads := map[string]*storedThread{}
	read := func(thread string) (t *storedThread, err error) {
		if t = threads[thread]; t == nil {
			t, err = s.readThread(ctx, thread)
			threads[thread] = t
		}
		return t, err
	}
	for name, thread := range s.acked {
		t, err := read(thread)
		if err != nil {
			return err
		}
		if t.asks[name] != 1 || t.answers[name] != 1 {
			s.broke("turn %s of thread %s: it was completed, and the thread has it %d times with %d answers", name, thread, t.asks[name], t.answers[name])
		}
	}
	for id, turn := range s.pending {
		thread, name, _ := strings.Cut(turn, " ")
		t, err := read(thread)
		if err != nil {
			return err
		}
		if t.turns[id] == "" {
			s.broke("turn %s of thread %s: its durable run began and never ended; the thread has it %d times with %d answers", name, thread, t.asks[name], t.answers[name])
		}
	}
	for thread, t := range threads {
		for name, n := range t.asks {
			if n > 1 || t.answers[name] > 1 {
				s.broke("turn %s of thread %s is there %d times with %d answers", name, thread, n, t.answers[name])
			}
		}
	}
	return nil
}

// storedThread counts the messages of each turn in a thread.
type storedThread struct {
	asks, answers map[string]int
	turns         map[string]string // their statuses, by run
}

func (s *serverSoak) readThread(ctx context.Context, thread string) (*storedThread, error) {
	resp, raw, err := s.ask(ctx, s.current(), http.MethodGet, "/v1/threads/"+thread+"/messages?limit=1000", nil, "", false)
	if err != nil {
		return nil, err
	}
	var page struct {
		Messages  []*chat.Message `json:"messages"`
		Snapshots []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal(raw, &page); err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read thread %s: %d %.300s", thread, resp.StatusCode, raw)
	}
	t := &storedThread{asks: map[string]int{}, answers: map[string]int{}, turns: map[string]string{}}
	for _, m := range page.Messages {
		if name, ok := strings.CutPrefix(m.Text(), askPrefix); ok && m.Role == chat.User {
			t.asks[name]++
		}
		if text, ok := strings.CutPrefix(m.Text(), answerPrefix); ok {
			name, _, _ := strings.Cut(text, ": ")
			t.answers[name]++
		}
	}
	for _, snapshot := range page.Snapshots {
		t.turns[snapshot.ID] = snapshot.Status
	}
	return t, nil
}

// listenFor serves a handler on a port of this machine until Close.
func listenFor(handler http.Handler) (server *http.Server, url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return server, "http://" + listener.Addr().String(), nil
}
