package main

// Scenario: a server is killed while a durable run waits for its model, and starts again.

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// waitingModel writes a project to a directory whose model says on asked that it was asked,
// and answers once answers is closed.
func waitingModel(t *testing.T, dir string) (asked chan struct{}, answers chan struct{}) {
	t.Helper()
	handler, err := scriptedmodel.New(&scriptedmodel.Options{Otherwise: func(*scriptedmodel.Conversation) *scriptedmodel.Reply {
		return &scriptedmodel.Reply{Text: "it is zebrafinch"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	asked, answers = make(chan struct{}, 10), make(chan struct{})
	models := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-answers:
			handler.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(models.Close)
	text := fmt.Sprintf("version: 1\nagents: {clerk: {instructions: Answer., model: m}}\nmodels: {m: {provider: openai, name: m, base_url: %s/v1}}\n", models.URL)
	if err := os.WriteFile(filepath.Join(dir, "agenthost.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return asked, answers
}

func TestADurableRunContinuesAfterItsServerWasKilled(t *testing.T) {
	dir := t.TempDir()
	asked, answers := waitingModel(t, dir)
	m := newMachine(t, filepath.Join(dir, "data"))
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0")
	defer http.DefaultClient.CloseIdleConnections()
	key := m.key(t)
	s.wants(202, `"durable":true`, key, "POST", "/v1/runs", `{"text":"the secret","thread":"t1","durable":true}`, "Prefer", "respond-async")
	<-asked
	if err := s.c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.c.Wait()

	again := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0")
	<-asked
	close(answers)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(again.wants(200, "the secret", key, "GET", "/v1/threads/t1/messages", ""), "zebrafinch") {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the run has not ended")
		}
	}
	again.end()
}

// Decisions 9, 10 and 44: a command asks for the thread before a server has started again.
func TestACommandComesAfterTheDurableRunOfAKilledServer(t *testing.T) {
	dir := t.TempDir()
	asked, answers := waitingModel(t, dir)
	m := newMachine(t, filepath.Join(dir, "data"))
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0")
	defer http.DefaultClient.CloseIdleConnections()
	s.wants(202, `"durable":true`, m.key(t), "POST", "/v1/runs", `{"text":"first","thread":"t1","durable":true}`, "Prefer", "respond-async")
	<-asked
	if err := s.c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.c.Wait()

	close(answers)
	m.run(t, 0, "run", dir, "second", "--thread", "t1", "--tenant", "acme")
	shown := m.run(t, 0, "thread", "show", "t1", "--tenant", "acme")
	at := 0
	for _, want := range []string{"first", "zebrafinch", "second", "zebrafinch"} {
		i := strings.Index(shown[at:], want)
		if i < 0 {
			t.Fatalf("the thread lacks %q after %q:\n%s", want, shown[:at], shown)
		}
		at += i + len(want)
	}
	if got := m.run(t, 0, "thread", "runs", "--tenant", "acme"); strings.Contains(got, "open") {
		t.Errorf("a run is left: %s", got)
	}
}
