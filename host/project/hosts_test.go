package project_test

import (
	"testing"
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
