package project

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/pgkvtest"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testguest"
)

// peer is one of several hosts of a database, with a directory of its own.
type peer struct {
	*Project
	reload *Reloader
	dir    string

	mu   sync.Mutex
	said []string
}

func (p *peer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, fmt.Sprintf(format, args...))
}

func (p *peer) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "\n")
}

// digest returns the digest of the plugin's version that serves; "" if none does.
func (p *peer) digest(id string) string {
	if s := p.Runtime().Slot(id); s != nil && s.Current() != nil {
		return s.Current().Digest()
	}
	return ""
}

// startPeer starts a host with a configuration and the module of a test guest.
func startPeer(t *testing.T, address, version, config, guest string) *peer {
	t.Helper()
	p := &peer{dir: t.TempDir()}
	cache := testcode.Project(t)
	writeProjectFile(t, p.dir, "agenthost.yaml", config)
	writeProjectFile(t, p.dir, "rules.yaml", "rules: [{match: {}, reply: {text: hi}}]\n")
	writeProjectFile(t, p.dir, "guest.wasm", string(testguest.Modules()[guest]))
	var err error
	p.Project, err = Load(t.Context(), p.dir, &Options{Data: address, Version: version, Replaceable: true, Getenv: func(name string) string {
		if name == "AGENTHOST_CACHE" {
			return cache
		}
		return ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	p.reload = NewReloader(p.Project, p.say)
	stop, err := p.reload.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.OnClose(func() error { stop(); return nil })
	p.reload.Watch()
	return p
}

// soon waits until ok, which is promised within a second.
func soon(t *testing.T, what string, p *peer, ok func() bool) {
	t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > time.Minute { // longer than the promise, for machines that are slow
			t.Fatalf("%s: not after %s; the host says:\n%s", what, time.Since(begun), p.all())
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("%s after %s", what, time.Since(begun).Round(time.Millisecond))
}

// cutNotifications ends the connections that listen, again and again until stop.
func cutNotifications(t *testing.T) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
				pgkvtest.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen %' and datname = current_database() and application_name like 'test_kv_"+fmt.Sprint(os.Getpid())+"%'")
			}
		}
	})
	return func() { close(done); cutting.Wait() }
}

func TestChangesOfPluginsOnOneHostAreUsedByTheOthers(t *testing.T) {
	for _, how := range []string{"notified", "notifications cut"} {
		t.Run(how, func(t *testing.T) {
			address := pgkvtest.URL(t)
			a, b := startPeer(t, address, "1", liveConfig("kv: read"), "echo"), startPeer(t, address, "1", liveConfig("kv: read"), "echo")
			if how != "notified" {
				defer cutNotifications(t)()
			}
			before := a.digest("guest")
			writeProjectFile(t, a.dir, "other.wasm", string(testguest.Modules()["state-get"]))
			asked := &plugin.Permissions{State: plugin.Read, Messages: true, HTTP: []plugin.HTTPAccess{{Scheme: "https", Host: "example.com"}}}
			if _, err := a.reload.Load(t.Context(), "guest", filepath.Join(a.dir, "other.wasm"), asked); err != nil {
				t.Fatal(err)
			}
			after := a.digest("guest")
			soon(t, "the swap", b, func() bool { return b.digest("guest") == after && after != before })
			if got := b.Runtime().Slot("guest").Granted(); got.State != plugin.Read || !got.Messages {
				t.Errorf("b has granted %+v, want what a was given with the load", got)
			}

			if _, err := a.reload.Rollback(t.Context(), "guest"); err != nil {
				t.Fatal(err)
			}
			soon(t, "the rollback", b, func() bool { return b.digest("guest") == before })

			writeProjectFile(t, a.dir, "agenthost.yaml", strings.Replace(liveConfig("kv: write"), "acme: {plugins: []}", "globex: {plugins: [], budget: {tokens: 1}}", 1)+
				"prices: {version: v2, models: {scripted: {input: 1}}}\n")
			a.reload.Refresh(t.Context())
			soon(t, "the grant", b, func() bool { return b.Runtime().Slot("guest").Granted().KV == plugin.Write })
			soon(t, "the tenant", b, func() bool { _, own := b.Runtime().Tenant("globex"); return own })
			soon(t, "the budget", b, func() bool {
				_, err := b.Run(t.Context(), &host.Request{Tenant: "globex", Text: "a question that takes more than one token"})
				return host.CodeOf(err) == host.ResourceExhausted
			})
			soon(t, "the price", b, func() bool {
				if _, err := b.Run(t.Context(), &host.Request{Tenant: "initech", Text: "hi"}); err != nil {
					t.Fatal(err)
				}
				records, _, err := b.Ledger().Export(t.Context(), "initech", "", 0, 100)
				return err == nil && slices.ContainsFunc(records, func(r usage.Record) bool { return r.PriceVersion == "v2" })
			})
			if _, own := b.Runtime().Tenant("acme"); own {
				t.Error("b still has settings of acme, which a's configuration has not")
			}

			if _, err := a.reload.Unload(t.Context(), "guest"); err != nil {
				t.Fatal(err)
			}
			soon(t, "the end of the plugin", b, func() bool { return b.digest("guest") == "" })
			if _, err := b.reload.Load(t.Context(), "guest", filepath.Join(b.dir, "guest.wasm"), nil); err != nil {
				t.Fatal(err)
			}
			soon(t, "a load on the other host", a, func() bool { return a.digest("guest") == before })
			if _, err := a.reload.Load(t.Context(), "second", filepath.Join(a.dir, "guest.wasm"), nil); err != nil {
				t.Fatal(err)
			}
			soon(t, "a new plugin", b, func() bool { return b.digest("second") == before })
		})
	}
}

// A host that starts while another one lives uses what that one has, and says so.
func TestHostsOfDifferentConfigurationsOrVersionsSayWhichAndAgree(t *testing.T) {
	address := pgkvtest.URL(t)
	a := startPeer(t, address, "1.0", liveConfig("kv: read"), "echo")
	second := strings.Replace(liveConfig(""), "clerk:", "seller:", 1)
	b := startPeer(t, address, "1.1", second, "state-get")
	said := b.all()
	for _, text := range []string{"host " + a.Member().ID() + " runs version 1.0 of the program, and this one 1.1", "differs from the configuration of host " + a.Member().ID() + " in: agents, plugins.",
		`plugin "guest": this host's configuration has the version with digest`} {
		if !strings.Contains(said, text) {
			t.Errorf("b does not say %q, but:\n%s", text, said)
		}
	}
	if b.digest("guest") != a.digest("guest") {
		t.Error("the hosts use different versions of a plugin")
	}
	if got := b.Runtime().Slot("guest").Granted(); got.KV != plugin.Read {
		t.Errorf("b has granted %+v, want what a has", got)
	}
}

// A version that was loaded stays when the only host starts again, unless its configuration
// has another module than before.
func TestALoadedVersionIsUsedAfterARestart(t *testing.T) {
	address := pgkvtest.URL(t)
	a := startPeer(t, address, "1", liveConfig("kv: read"), "echo")
	writeProjectFile(t, a.dir, "other.wasm", string(testguest.Modules()["quiet"]))
	base := a.digest("guest")
	if _, err := a.reload.Load(t.Context(), "guest", filepath.Join(a.dir, "other.wasm"), nil); err != nil {
		t.Fatal(err)
	}
	loaded := a.digest("guest")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b := startPeer(t, address, "1", liveConfig("kv: read"), "echo")
	if got := b.digest("guest"); got != loaded || got == base {
		t.Errorf("after a restart the version %s serves, want the loaded %s", short(got), short(loaded))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c := startPeer(t, address, "1", liveConfig("kv: read"), "trap")
	if got := c.digest("guest"); got == loaded || got == base {
		t.Errorf("the version %s serves, want that of the changed configuration", short(got))
	}
}
