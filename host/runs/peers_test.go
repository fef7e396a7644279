package runs_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
)

// newPeer returns a node that other nodes reach.
func newPeer(t *testing.T, driver kv.Driver, id string, release <-chan struct{}) (*node, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := cluster.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{driver: &pausing{Driver: driver}}
	n.join(t, &cluster.Options{ID: id, Address: listener.Addr().String(), Identity: identity}, release)
	if err := n.registry.ServePeers(listener); err != nil {
		t.Fatal(err)
	}
	return n, listener.Addr().String()
}

// seqs reads the events of a run from a number to its end.
func seqs(t *testing.T, n *node, run string, from int64) (out []int64, err error) {
	t.Helper()
	for ev, err := range n.registry.Events(t.Context(), "acme", run, from) {
		if err != nil {
			return out, err
		}
		out = append(out, ev.Seq)
	}
	return out, nil
}

func TestARunIsReadThroughAnotherHost(t *testing.T) {
	t.Parallel()
	store := kv.NewMemory()
	release := make(chan struct{})
	a, _ := newPeer(t, store, "a", release)
	b, _ := newPeer(t, store, "b", nil)
	for _, id := range []string{"", "chosen"} { // one that names its host, and one of a client
		run, err := a.registry.Start(t.Context(), a.agent, &host.Request{Tenant: "acme", Run: id, Text: "go"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range a.registry.Events(t.Context(), "acme", run.ID, 0) { // its thread is known then
			break
		}
		if run, err = a.registry.Get(t.Context(), "acme", run.ID); err != nil {
			t.Fatal(err)
		}
		got, err := b.registry.Get(t.Context(), "acme", run.ID)
		if err != nil || got.Status != runs.Running || got.ID != run.ID || got.Thread != run.Thread || !got.Started.Equal(run.Started) {
			t.Errorf("Get through b: %+v, %v; want %+v", got, err, run)
		}
		if _, err := b.registry.Get(t.Context(), "other", run.ID); host.CodeOf(err) != host.NotFound {
			t.Errorf("another tenant's Get through b: %v", err)
		}
	}
	page, err := b.registry.List(t.Context(), &runs.ListRequest{Tenant: "acme", Status: runs.Running, Limit: 1})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != "chosen" || page.Next == "" {
		t.Errorf("the first page through b: %+v, %v; want the last started", page, err)
	}
	page, err = b.registry.List(t.Context(), &runs.ListRequest{Tenant: "acme", Cursor: page.Next})
	if err != nil || len(page.Runs) != 1 || page.Next != "" {
		t.Errorf("the second page through b: %+v, %v", page, err)
	}

	type read struct {
		seqs []int64
		err  error
	}
	whole, part := make(chan read, 1), make(chan read, 1)
	go func() { s, err := seqs(t, b, "chosen", 0); whole <- read{s, err} }()
	go func() { s, err := seqs(t, b, "chosen", 3); part <- read{s, err} }()
	close(release)
	got := <-whole
	own, err := seqs(t, a, "chosen", 0)
	if err != nil || got.err != nil || len(own) < 10 || !slices.Equal(got.seqs, own) {
		t.Errorf("events through b: %v, %v; of a: %v, %v", got.seqs, got.err, own, err)
	}
	if got := <-part; got.err != nil || !slices.Equal(got.seqs, own[3:]) {
		t.Errorf("events from number 3 through b: %v, %v", got.seqs, got.err)
	}
	if run, err := b.registry.Wait(t.Context(), "acme", "chosen"); err != nil || run.Status != runs.Completed {
		t.Errorf("Wait through b: %+v, %v", run, err)
	}
}

// The run has more events at once than its host keeps for a reader.
func TestARunThatIsTooFastForItsReaderIsWaitedForThroughAnotherHost(t *testing.T) {
	t.Parallel()
	store := kv.NewMemory()
	release := make(chan struct{})
	a, _ := newPeer(t, store, "a", nil)
	b, _ := newPeer(t, store, "b", nil)
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		<-release
		return hosttest.Say(strings.Repeat("word ", 10*runs.DefaultKept))
	})
	run, err := a.registry.Start(t.Context(), newAgent(t, "fast", &host.AgentOptions{Model: model}), &host.Request{Tenant: "acme", Text: "go"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		got, err := b.registry.Wait(t.Context(), "acme", run.ID)
		if err == nil && got.Status != runs.Completed {
			err = fmt.Errorf("the run is %s", got.Status)
		}
		waited <- err
	}()
	for range b.registry.Events(t.Context(), "acme", run.ID, 0) { // Wait has asked as well
		break
	}
	close(release)
	if err := <-waited; err != nil {
		t.Errorf("Wait through b: %v", err)
	}
}

func TestARunIsCanceledThroughAnotherHost(t *testing.T) {
	t.Parallel()
	store := kv.NewMemory()
	a, _ := newPeer(t, store, "a", nil)
	b, _ := newPeer(t, store, "b", nil)
	run, err := a.registry.Start(t.Context(), a.agent, &host.Request{Tenant: "acme", Text: "go"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.registry.Cancel(t.Context(), "other", run.ID); host.CodeOf(err) != host.NotFound {
		t.Errorf("another tenant's Cancel through b: %v", err)
	}
	if _, err := b.registry.Cancel(t.Context(), "acme", run.ID); err != nil {
		t.Fatal(err)
	}
	ended, err := a.registry.Wait(t.Context(), "acme", run.ID)
	if host.CodeOf(err) != host.Canceled || ended.Status != runs.Canceled {
		t.Errorf("the run: %+v, %v; want it canceled", ended, err)
	}
	if through, err := b.registry.Wait(t.Context(), "acme", run.ID); host.CodeOf(err) != host.Canceled || through.Status != runs.Canceled {
		t.Errorf("Wait through b: %+v, %v", through, err)
	}
	var last error
	for _, last = range b.registry.Events(t.Context(), "acme", run.ID, 0) {
	}
	if host.CodeOf(last) != host.Canceled {
		t.Errorf("the events end with %v through b", last)
	}
}

// A caller that is in no record of the store gets no answer.
func TestMembersAloneConnect(t *testing.T) {
	t.Parallel()
	store := kv.NewMemory()
	_, address := newPeer(t, store, "a", nil)
	stranger, err := cluster.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := cluster.New(kv.NewMemory(), &cluster.Options{Identity: stranger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	for name, config := range map[string]*tls.Config{"of another cluster": other.ServerTLS(), "without a certificate": {}} {
		config = config.Clone()
		config.InsecureSkipVerify = true
		config.VerifyPeerCertificate = nil
		conn, err := tls.Dial("tcp", address, config)
		if err == nil {
			_, _ = conn.Write([]byte("GET /run?tenant=acme&run=x HTTP/1.1\r\nHost: a\r\n\r\n"))
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		if err == nil {
			t.Errorf("a caller %s got an answer", name)
		}
	}
}

func TestServePeersNeedsAnIdentity(t *testing.T) {
	t.Parallel()
	n := newNode(t, kv.NewMemory(), "a", nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if err := n.registry.ServePeers(listener); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("ServePeers: %v, want failed_precondition", err)
	}
}
