//go:build unix

package soak

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
)

// hostVariable is the environment variable that makes a process a host: its
// configuration as JSON.
const hostVariable = "AGENTHOST_SOAK_HOST"

const (
	tenant = "acme"
	// maxModelWait is the most that the model waits before an answer, so that faults come
	// between the steps of runs as well.
	maxModelWait = 40 * time.Millisecond
	// effectTimeout is how long the ledger may take.
	effectTimeout = 10 * time.Second
)

// hostConfig configures the process of a host.
type hostConfig struct {
	Name   string
	Store  string // the address of a database, or a directory
	Ledger string // the URL
	Lease  time.Duration
	Clock  time.Duration // how far its clock is ahead of the machine's
	// Project is a directory with a configuration from which the host is built; empty for
	// one that is built of the packages.
	Project string
}

// startRequest asks a host to start a run.
type startRequest struct {
	Turn, Thread string
	Durable      bool
}

// reply describes a run to a client.
type reply struct {
	Status runs.Status
	Events int64
	Code   host.Code
	Error  string
}

// IsHost reports whether the process was started as a host.
func IsHost() bool { return os.Getenv(hostVariable) != "" }

// Serve is the process of a host: it prints the address at which it serves clients, and
// ends with its standard input.
func Serve(ctx context.Context) error {
	var config hostConfig
	if err := json.Unmarshal([]byte(os.Getenv(hostVariable)), &config); err != nil {
		return err
	}
	p := &hostProcess{config: config}
	build := p.join
	if config.Project != "" {
		build = p.load
	}
	if err := build(ctx); err != nil {
		return err
	}
	clients, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/start", p.start)
	mux.HandleFunc("/wait", p.wait)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(clients) }()
	fmt.Println("ready " + clients.Addr().String())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
	drain, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	_ = p.registry.Drain(drain)
	return p.close()
}

// openStore opens a database or a directory.
func openStore(ctx context.Context, address string) (kv.Driver, error) {
	if isDirectory(address) {
		return badgerkv.Open(address, nil)
	}
	return pgkv.Open(ctx, address, nil)
}

func isDirectory(address string) bool { return strings.HasPrefix(address, "/") }

// hostProcess is the host of a process.
type hostProcess struct {
	config   hostConfig
	target   host.Target
	registry *runs.Registry
	close    func() error
}

// logger returns the logger of the host.
func (p *hostProcess) logger() *slog.Logger {
	if os.Getenv(logVariable) == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("host", p.config.Name)
}

// join builds the host of the packages.
func (p *hostProcess) join(ctx context.Context) error {
	driver, err := openStore(ctx, p.config.Store)
	if err != nil {
		return err
	}
	identity, err := cluster.NewIdentity()
	if err != nil {
		return err
	}
	peers, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	logger := p.logger()
	member, err := cluster.New(driver, &cluster.Options{
		ID: p.config.Name, Lease: p.config.Lease, Address: peers.Addr().String(), Identity: identity, Logger: logger,
		Now: func() time.Time { return time.Now().Add(p.config.Clock) },
	})
	if err != nil {
		return err
	}
	store := threads.New(driver, &threads.Options{Locks: cluster.NewLocks(member)})
	history, err := host.NewHistory(store, nil)
	if err != nil {
		return err
	}
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: hosttest.ModelFunc(answer), Tools: []*host.Tool{
		host.NewTool("book", "Books; may be called again.", p.effect, &host.ToolOptions{Idempotent: true}),
		host.NewTool("charge", "Charges once.", p.effect, nil),
	}})
	if err != nil {
		return err
	}
	journal := runs.NewJournal(store, member)
	h, err := host.New(&host.Options{History: history, Journal: journal, Logger: logger})
	if err != nil {
		return err
	}
	p.registry, err = runs.New(h, &runs.Options{
		Journal: journal, Logger: logger,
		Target: func(string) (host.Target, error) { return agent, nil },
	})
	if err != nil {
		return err
	}
	p.target = agent
	p.close = func() error {
		_ = p.registry.Close()
		_ = member.Close()
		return driver.Close()
	}
	if err := p.registry.ServePeers(peers); err != nil {
		return err
	}
	return p.registry.Join(ctx)
}

// answer is the model: it calls a tool, and then repeats its result.
func answer(ctx context.Context, req *llm.Request) hosttest.Reply {
	select {
	case <-time.After(rand.N(maxModelWait)):
	case <-ctx.Done():
		return hosttest.Fail(ctx.Err())
	}
	var turn string
	for _, m := range req.Messages {
		if m.Role == chat.User {
			turn = strings.TrimPrefix(m.Text(), askPrefix)
		}
	}
	last := req.Messages[len(req.Messages)-1]
	if results := last.ToolResults(); len(results) > 0 {
		result := "unknown"
		if text, err := json.Marshal(last); err == nil && bytes.Contains(text, []byte(paid)) {
			result = paid
		}
		return hosttest.Say(answerPrefix + turn + ": " + result)
	}
	tool := "charge"
	if repeated(turn) {
		tool = "book"
	}
	return hosttest.Call(tool, fmt.Sprintf(`{"turn":%q}`, turn))
}

// repeated reports whether the tool of a turn is idempotent.
func repeated(turn string) bool { return strings.HasSuffix(turn, "b") }

// effect is the handler of the tools.
func (p *hostProcess) effect(ctx context.Context, call *host.Call, in struct {
	Turn string `json:"turn"`
}) (string, error) {
	body, err := json.Marshal(Effect{Turn: in.Turn, Key: call.IdempotencyKey, Host: p.config.Name})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, effectTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.config.Ledger, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	// http sends a request that can be read again a second time when the connection was
	// closed; the ledger would count two calls.
	req.GetBody = nil
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusNoContent {
		return "", host.Errorf(host.Unavailable, "the ledger answered %s", res.Status)
	}
	return paid, nil
}

// load builds the host of a configuration, as a user of the command does.
func (p *hostProcess) load(ctx context.Context) error {
	loaded, err := project.Load(ctx, p.config.Project, &project.Options{Data: p.config.Store, Logger: p.logger(), Replaceable: true})
	if err != nil {
		return err
	}
	p.registry, p.close = loaded.Runs(), loaded.Close
	p.target, err = loaded.Target("")
	return err
}

func (p *hostProcess) start(w http.ResponseWriter, r *http.Request) {
	var in startRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	run, err := p.registry.Start(r.Context(), p.target, &host.Request{
		Tenant: tenant, Run: in.Turn, Thread: in.Thread, Text: askPrefix + in.Turn, Durable: in.Durable,
	}, nil)
	answerClient(w, run, err)
}

func (p *hostProcess) wait(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), waitTimeout)
	defer cancel()
	run, err := p.registry.Wait(ctx, tenant, r.URL.Query().Get("run"))
	answerClient(w, run, err)
}

func answerClient(w http.ResponseWriter, run *runs.Run, err error) {
	var out reply
	if err != nil {
		out.Code, out.Error = cmp.Or(host.CodeOf(err), host.Internal), err.Error()
	}
	if run != nil {
		out.Status, out.Events = run.Status, run.Events
	}
	_ = json.NewEncoder(w).Encode(out)
}
