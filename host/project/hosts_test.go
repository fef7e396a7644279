package project_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// serve opens the project as a host of a database.
func serve(t *testing.T, address string) *project.Project {
	t.Helper()
	p, err := project.Load(t.Context(), "shop", &project.Options{FS: files, Data: address, Replaceable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestRunsAreInOneRegistryForAllHostsOfADatabase(t *testing.T) {
	address := pgkvtest.URL(t)
	a, b := serve(t, address), serve(t, address)
	target, err := a.Target("")
	if err != nil {
		t.Fatal(err)
	}
	run, err := a.Runs().Start(t.Context(), target, &host.Request{Tenant: "acme", Thread: "t1", Text: "hi", Durable: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Runs().Wait(t.Context(), "acme", run.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Runs().Get(t.Context(), "acme", run.ID); err != nil || got.Status != runs.Completed {
		t.Errorf("Get through b: %+v, %v", got, err)
	}
	events := 0
	for _, err := range b.Runs().Events(t.Context(), "acme", run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		events++
	}
	if int64(events) != run.Events && events < 5 {
		t.Errorf("%d events through b", events)
	}
	// Turns of both hosts on one thread wait for each other.
	done := make(chan error, 8)
	for i := range cap(done) {
		p := []*project.Project{a, b}[i%2]
		go func() {
			_, err := p.Run(t.Context(), &host.Request{Tenant: "acme", Thread: "t1", Text: "hi"})
			done <- err
		}()
	}
	for range cap(done) {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("a turn: %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a turn does not end")
		}
	}
	thread, err := b.Threads().For("acme").Thread(t.Context(), "t1")
	if err != nil || thread.Turns != 9 {
		t.Errorf("the thread has %+v, %v; want 9 turns", thread, err)
	}
}

func TestAProjectInMemoryRegistersRuns(t *testing.T) {
	p := loadInMemory(t)
	target, err := p.Target("")
	if err != nil {
		t.Fatal(err)
	}
	run, err := p.Runs().Start(t.Context(), target, &host.Request{Tenant: "acme", Text: "hi"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if run, err = p.Runs().Wait(t.Context(), "acme", run.ID); err != nil || run.Status != runs.Completed {
		t.Errorf("Wait = %+v, %v", run, err)
	}
}

// A host that is stopped, as by SIGTERM, closes its project.
func TestAClosedProjectHandsItsDurableRunsOver(t *testing.T) {
	asked := make(chan struct{}, 8)
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that a client is gone
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer model.Close()
	fsys := fstest.MapFS{"shop/agenthost.yaml": &fstest.MapFile{Data: []byte("version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: openai, name: slow, base_url: " + model.URL + "/v1}}\n")}}
	address := pgkvtest.URL(t)
	open := func() *project.Project {
		p, err := project.Load(t.Context(), "shop", &project.Options{FS: fsys, Data: address, Replaceable: true})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b := open(), open()
	target, err := a.Target("")
	if err != nil {
		t.Fatal(err)
	}
	run, err := a.Runs().Start(t.Context(), target, &host.Request{Tenant: "acme", Thread: "t1", Text: "hi", Durable: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	began := time.Now()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-asked:
		t.Logf("the other host asks the model after %s", time.Since(began).Round(time.Millisecond))
	case <-time.After(time.Minute): // longer than the promise, for machines that are slow
		t.Fatal("the run is not handed over")
	}
	if got, err := b.Runs().Get(t.Context(), "acme", run.ID); err != nil || got.Status != runs.Running {
		t.Errorf("Get through b: %+v, %v", got, err)
	}
	if _, err := b.Runs().Cancel(t.Context(), "acme", run.ID); err != nil {
		t.Error(err)
	}
	_, _ = b.Runs().Wait(t.Context(), "acme", run.ID) // canceled
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
