package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/threads"
)

func saidIn(t *testing.T, s *threads.Store, tenant, thread, text string) {
	t.Helper()
	m := host.UserText(text)
	if _, err := s.AppendUserMessage(t.Context(), &host.HistoryRequest{Tenant: tenant, Thread: thread, Run: host.NewID(), Input: m}); err != nil {
		t.Fatal(err)
	}
}

func threadsOf(t *testing.T, s *threads.Store, tenant string) string {
	t.Helper()
	page, err := s.For(tenant).List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, info := range page.Threads {
		ids = append(ids, info.ID)
	}
	return strings.Join(ids, " ")
}

// Each tenant keeps what the configuration says of it, from the first hour after
// it is said.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := threads.New(kv.NewMemory(), nil)
		r := &retention{threads: s, logger: slog.New(slog.DiscardHandler), partitions: func(context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for _, name := range []string{"acme", "globex", "initech", "other"} {
					if !yield(name, nil) {
						return
					}
				}
			}
		}}
		r.take(&configfile.Config{
			AnyTenant: configfile.Tenant{Retention: configfile.Retention{MaxAge: configfile.Duration(48 * time.Hour)}},
			Tenants: map[string]configfile.Tenant{
				"acme":    {Retention: configfile.Retention{MaxThreads: 2}},
				"globex":  {Retention: configfile.Retention{MaxBytes: 20_000}},
				"initech": {}, // keeps all
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.run(ctx) })
		for day := range 4 {
			for _, tenant := range []string{"acme", "globex", "initech", "other"} {
				saidIn(t, s, tenant, fmt.Sprint("day", day), strings.Repeat("x", 8000))
			}
			time.Sleep(24 * time.Hour)
		}
		time.Sleep(retentionEvery)
		synctest.Wait()
		for tenant, want := range map[string]string{"acme": "day3 day2", "globex": "day3 day2", "initech": "day3 day2 day1 day0", "other": "day3"} {
			if got := threadsOf(t, s, tenant); got != want {
				t.Errorf("%s keeps %q, want %q", tenant, got, want)
			}
		}
		r.take(&configfile.Config{AnyTenant: configfile.Tenant{Retention: configfile.Retention{MaxThreads: 1}}})
		time.Sleep(retentionEvery)
		synctest.Wait()
		if got := threadsOf(t, s, "initech"); got != "day3" {
			t.Errorf("initech keeps %q after the configuration has changed, want day3", got)
		}
		cancel()
		running.Wait()
	})
}

// A host takes the configuration of another one while its retention begins.
func TestAConfigurationIsTakenWhileTheRetentionBegins(t *testing.T) {
	l := steerable(t, func(string, ...any) {})
	dir := strings.TrimSuffix(l.project.config.Name, configfile.FileName)
	writeProjectFile(t, dir, configfile.FileName, strings.Replace(liveConfig("kv: read"), "acme: {plugins: []}", "acme: {retention: {max_threads: 7}}", 1))
	var begins sync.WaitGroup
	begins.Go(func() { l.project.retention.begin(func() *retention { return newRetention(l.project) }) })
	l.reconfigure(t.Context())
	begins.Wait()
	if got := l.project.retention.begun.of("acme").MaxThreads; got != 7 {
		t.Errorf("acme keeps %d threads, want the 7 that were saved", got)
	}
}

// What fails for one tenant is said, and holds up no other.
func TestRetentionGoesOn(t *testing.T) {
	s := threads.New(kv.NewMemory(), nil)
	for i := range 3 {
		saidIn(t, s, "acme", fmt.Sprint("t", i), "hi")
	}
	var log bytes.Buffer
	r := &retention{threads: s, logger: slog.New(slog.NewTextHandler(&log, nil)), partitions: func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			_ = yield(strings.Repeat("x", 1000), nil) && yield("acme", nil) && yield("", errors.New("the disk is gone"))
		}
	}}
	r.take(&configfile.Config{AnyTenant: configfile.Tenant{Retention: configfile.Retention{MaxThreads: 1}}})
	r.sweep(t.Context())
	if got := threadsOf(t, s, "acme"); got != "t2" {
		t.Errorf("acme keeps %q, want t2", got)
	}
	for _, want := range []string{"1000 bytes long", "threads=2", "the disk is gone"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log is %s, want %q in it", &log, want)
		}
	}
}

// What a configuration says is what a data directory keeps.
func TestRetentionOfAConfiguration(t *testing.T) {
	dir := t.TempDir()
	writeProjectFile(t, dir, "agenthost.yaml", `version: 1
agents: {clerk: {}}
models: {m: {provider: scripted, rules: rules.yaml}}
any_tenant: {retention: {max_threads: 1}}
tenants:
  acme: {retention: {max_threads: 2, max_age: 720h, max_bytes: 1GB}}
`)
	writeProjectFile(t, dir, "rules.yaml", "rules: []\n")
	c, err := ReadFile(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), c, &Options{Data: filepath.Join(dir, "data"), Replaceable: true, Getenv: func(name string) string {
		return map[string]string{"AGENTHOST_CACHE": dir}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "other"} {
		for i := range 3 {
			saidIn(t, a.threads, tenant, fmt.Sprint("t", i), "hi")
		}
	}
	newRetention(a).sweep(t.Context())
	if acme, other := threadsOf(t, a.threads, "acme"), threadsOf(t, a.threads, "other"); acme != "t2 t1" || other != "t2" {
		t.Errorf("acme keeps %q and other %q, want t2 t1 and t2", acme, other)
	}
	a.StartRetention() // and ends with the app
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	writeProjectFile(t, dir, "agenthost.yaml", "version: 1\nagents: {clerk: {}}\ntenants: {acme: {retention: {max_threads: -1}}}\n")
	if c, err = ReadFile(nil, dir); err == nil {
		err = c.c.CheckRetention()
	}
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "max_threads is -1") {
		t.Errorf("a negative number of threads: %v", err)
	}
}
