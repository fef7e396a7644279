package plugin_test

// Scenario: a Go guest calls the host operations through the plugin kit.

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/runevent"
)

// page is a fetcher that answers everything that is granted.
type page struct{ asked []*egress.Request }

func (p *page) Fetch(_ context.Context, req *egress.Request) (*egress.Response, error) {
	p.asked = append(p.asked, req)
	return &egress.Response{Status: 200, Headers: []egress.Header{{Name: "x-a", Value: "b"}}, Body: []byte("a page")}, nil
}

type oneModel struct{ model host.Model }

func (m oneModel) Model(context.Context, string, string) (host.Model, error) { return m.model, nil }

// jobList keeps jobs until the test looks.
type jobList struct{ jobs []*host.Job }

func (q *jobList) Enqueue(_ context.Context, job *host.Job) (string, error) {
	q.jobs = append(q.jobs, job)
	return "1", nil
}

// The kit's functions and the host's operations meet in a Go guest.
func TestGuestOperationsInRuns(t *testing.T) {
	fetcher, queue := &page{}, &jobList{}
	rt := newRuntime(t, &plugin.Options{
		Fetcher: fetcher, Queue: queue, Models: oneModel{hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("a sum") })},
	})
	wasm := buildGuest(t, "host/plugin/testdata/guests/operations")
	all := plugin.Permissions{
		KV: plugin.Write, Model: true, Queue: true, HTTP: []plugin.HTTPAccess{{Host: "api.example.com"}},
		Secrets: []plugin.SecretAccess{{Name: "KEY", Hosts: []string{"api.example.com"}}},
	}
	granted := load(t, rt, "operations", wasm, &plugin.LoadOptions{Granted: all})
	denied := load(t, rt, "denied", wasm, nil)
	for _, row := range []struct{ tool, want, denied string }{
		{"count", `"n1"`, "kv=read"},
		{"fetch", `"200 b a page"`, "is not granted"},
		{"ask", `"a sum"`, `"model"`},
		{"later", `null`, `"queue"`},
		{"once", `"unavailable {\"receipt\":2} {\"receipt\":2} 2"`, ""},
		{"draw", `"300000 image/svg+xml"`, ""},
	} {
		t.Run(row.tool, func(t *testing.T) {
			done := event[*runevent.ToolFinished](t, runTool(t, granted, row.tool, `{}`))
			if done.IsError || string(done.Content) != row.want {
				t.Errorf("granted, the tool answers %s, want %s", done.Content, row.want)
			}
			if row.denied == "" {
				return
			}
			done = event[*runevent.ToolFinished](t, runTool(t, denied, row.tool, `{}`))
			if !done.IsError || !strings.Contains(sentence(t, done), row.denied) {
				t.Errorf("denied, the tool answers %s, want an error that says %q", done.Content, row.denied)
			}
		})
	}
	if len(fetcher.asked) != 1 || fetcher.asked[0].Tenant != "acme" || fetcher.asked[0].Headers[0].Secret != "KEY" {
		t.Errorf("the fetcher was asked %+v", fetcher.asked)
	}
	if len(queue.jobs) != 1 {
		t.Fatalf("%d jobs wait, want 1", len(queue.jobs))
	}
	if err := rt.HandleJob(t.Context(), queue.jobs[0]); err != nil {
		t.Errorf("the job: %v", err)
	}
	if done := event[*runevent.ToolFinished](t, runTool(t, granted, "count", `{}`)); string(done.Content) != `"n3"` {
		t.Errorf("after the job the count is %s, want n3", done.Content)
	}
	used := granted.Usage("acme").Used
	if used.KV != plugin.Write || !used.Model || !used.Queue || len(used.HTTP) != 1 || len(used.Secrets) != 1 {
		t.Errorf("used %+v", used)
	}
}
