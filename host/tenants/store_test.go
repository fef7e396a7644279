package tenants_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/testdriver"
	"github.com/agenthost/agenthost/internal/testhost"
)

func open(t testing.TB, d kv.Driver, opts *tenants.Options) *tenants.Store {
	t.Helper()
	s, err := tenants.Open(t.Context(), d, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func create(t testing.TB, s *tenants.Store, id string, p tenants.Plan) *tenants.Tenant {
	t.Helper()
	got, err := s.Create(t.Context(), id, &tenants.Spec{Name: "The " + id, Plan: p})
	if err != nil {
		t.Fatalf("Create(%q): %v", id, err)
	}
	return got
}

// settings are what a Store sets, by tenant.
type settings struct {
	mu      sync.Mutex
	plans   map[string]*usage.Plan
	plugins map[string]*plugin.Tenant
	reset   []string
}

func (s *settings) SetPlan(id string, p *usage.Plan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plans == nil {
		s.plans = map[string]*usage.Plan{}
	}
	s.plans[id] = p
	return nil
}

func (s *settings) SetTenant(id string, t *plugin.Tenant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plugins == nil {
		s.plugins = map[string]*plugin.Tenant{}
	}
	s.plugins[id] = t
	return nil
}

func (s *settings) ResetTenant(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.plugins, id)
	s.reset = append(s.reset, id)
	return nil
}

func (s *settings) resets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reset)
}

func (s *settings) of(id string) (*usage.Plan, *plugin.Tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plans[id], s.plugins[id]
}

func TestTenantIsKept(t *testing.T) {
	d := testdriver.New(t)
	s := open(t, d, nil)
	made := create(t, s, "acme", full())
	if made.Status != tenants.Active || made.Revision == 0 || made.Created.IsZero() {
		t.Errorf("Create = %+v", made)
	}
	again := open(t, d, nil)
	got, err := again.Get(t.Context(), "acme")
	if err != nil || got.Revision != made.Revision || got.Name != "The acme" || got.Plan.Run != made.Plan.Run {
		t.Errorf("Get = %+v, %v", got, err)
	}
	if p, ok := again.Plan("acme"); !ok || p.Usage.Rate != 60 {
		t.Errorf("Plan = %+v, %t", p, ok)
	}
	_, err = s.Create(t.Context(), "acme", nil)
	wantCode(t, "Create again", err, fault.AlreadyExists)
	_, err = s.Get(t.Context(), "other")
	wantCode(t, "Get of another", err, fault.NotFound)
	for _, id := range []string{"", host.DefaultTenant, "agenthost/tenants", "a\x00"} {
		_, err := s.Create(t.Context(), id, nil)
		wantCode(t, fmt.Sprintf("Create(%q)", id), err, fault.InvalidArgument)
	}
}

func TestPlanFillsEveryPart(t *testing.T) {
	set := &settings{}
	s := open(t, testdriver.New(t), &tenants.Options{Ledger: set, Plugins: set})
	create(t, s, "acme", full())
	u, p := set.of("acme")
	if u == nil || len(u.Limits) != 2 || u.Rate != 60 {
		t.Errorf("the ledger has %+v", u)
	}
	if p == nil || len(p.Plugins) != 2 || !p.Grants["search"].Model || p.Limits.KVBytes != 1<<20 {
		t.Errorf("the runtime has %+v", p)
	}
	if l := s.Limits("acme"); l.MaxToolCalls != 3 {
		t.Errorf("Limits = %+v", l)
	}
	if !s.Allows("acme", "support") || s.Allows("acme", "billing") || s.Allows("other", "support") {
		t.Error("Allows is not the plan's")
	}
}

func TestUnregisteredTenantsAreAdmitted(t *testing.T) {
	set := &settings{}
	d := testdriver.New(t)
	s := open(t, d, &tenants.Options{Ledger: set, Plugins: set, Unregistered: true})
	if err := s.Admit("acme"); err != nil || !s.Allows("acme", "billing") {
		t.Errorf("without a record: Admit = %v", err)
	}
	if granted, has := s.PluginGrants("acme", "search"); !has || granted != nil {
		t.Errorf("without a record: PluginGrants = %+v, %t", granted, has)
	}
	create(t, s, "acme", full())
	if err := s.Admit("acme"); err != nil || s.Allows("acme", "billing") {
		t.Errorf("with a record: Admit = %v, or the plan does not count", err)
	}
	if _, err := s.Suspend(t.Context(), "acme", ""); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "Admit of a suspended tenant", s.Admit("acme"), fault.PermissionDenied)
	if _, p := set.of("acme"); p != nil {
		t.Errorf("a suspended tenant has %+v", p)
	}
	records := tenants.NewRecords(d)
	if n, err := records.Find(t.Context(), "acme"); err != nil || n != 1 {
		t.Errorf("Find = %d, %v", n, err)
	}
	if err := records.Erase(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if n, err := records.Find(t.Context(), "acme"); err != nil || n != 0 {
		t.Errorf("Find after Erase = %d, %v", n, err)
	}
	for limit := time.Now().Add(time.Minute); set.resets() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nobody learns that the record has gone")
		}
	}
	wantCode(t, "Admit of a tenant whose record has just gone", s.Admit("acme"), fault.PermissionDenied)
	set.mu.Lock()
	defer set.mu.Unlock()
	if len(set.reset) != 1 || set.reset[0] != "acme" || set.plans["acme"] != nil {
		t.Errorf("reset %q, plan %+v", set.reset, set.plans["acme"])
	}
}

// Requests that began before a deletion write nothing of the tenant behind it, on a host
// that admits tenants without records.
func TestADeletedTenantIsNotAdmittedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, kv.NewMemory(), &tenants.Options{Unregistered: true})
		defer s.Close()
		create(t, s, "acme", full())
		for _, id := range []string{"acme", "without-a-record"} {
			if err := s.Erase(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			wantCode(t, "Admit behind the deletion of "+id, s.Admit(id), fault.PermissionDenied)
			if _, has := s.PluginGrants(id, "search"); has || s.Allows(id, "billing") {
				t.Errorf("%s has plugins or targets behind its deletion", id)
			}
		}
		if err := s.Admit("other"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		time.Sleep(16 * time.Minute)
		if err := s.Admit("without-a-record"); err != nil {
			t.Errorf("a quarter of an hour later: %v", err)
		}
		if err := s.Erase(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		create(t, s, "acme", full())
		if err := s.Admit("acme"); err != nil {
			t.Errorf("created again: %v", err)
		}
	})
}

func TestPlanSaysWhatAPluginIsGranted(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	create(t, s, "acme", full())
	create(t, s, "free", tenants.Plan{})
	create(t, s, "late", full())
	if _, err := s.Suspend(t.Context(), "late", "unpaid"); err != nil {
		t.Fatal(err)
	}
	if got, has := s.PluginGrants("acme", "search"); !has || got == nil || !got.Model || got.KV != plugin.Read {
		t.Errorf("search of acme: %+v, %t", got, has)
	}
	if got, has := s.PluginGrants("free", "search"); !has || got != nil {
		t.Errorf("search of a tenant whose plan names no plugins: %+v, %t", got, has)
	}
	for _, of := range [][2]string{{"acme", "other"}, {"late", "search"}, {"nemo", "search"}} {
		if _, has := s.PluginGrants(of[0], of[1]); has {
			t.Errorf("tenant %s has plugin %s", of[0], of[1])
		}
	}
}

func TestChangesApplyHereAtOnceAndElsewhereInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := kv.NewMemory()
		set, otherSet := &settings{}, &settings{}
		s, other := open(t, d, &tenants.Options{Ledger: set, Plugins: set}), open(t, d, &tenants.Options{Ledger: otherSet, Plugins: otherSet})
		var mu sync.Mutex
		var seen []string
		if err := other.Watch(func(t *tenants.Tenant) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf("%s %s %d", t.ID, t.Status, t.Plan.Usage.Rate))
		}); err != nil {
			t.Fatal(err)
		}
		create(t, s, "acme", tenants.Plan{})
		if _, err := s.Change(t.Context(), "acme", func(t *tenants.Tenant) error { t.Plan.Usage.Rate = 7; return nil }); err != nil {
			t.Fatal(err)
		}
		if u, _ := set.of("acme"); u == nil || u.Rate != 7 {
			t.Errorf("the ledger here has %+v", u)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if u, p := otherSet.of("acme"); u == nil || u.Rate != 7 || p == nil || p.Plugins != nil {
			t.Errorf("elsewhere: %+v, %+v", u, p)
		}
		if err := other.Admit("acme"); err != nil {
			t.Error(err)
		}
		if _, err := s.Suspend(t.Context(), "acme", "unpaid"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, "Admit here", s.Admit("acme"), fault.PermissionDenied)
		time.Sleep(time.Second)
		synctest.Wait()
		wantCode(t, "Admit elsewhere", other.Admit("acme"), fault.PermissionDenied)
		if _, p := otherSet.of("acme"); p != nil {
			t.Errorf("a suspended tenant has plugins: %+v", p)
		}
		// Far more changes than the row of changes has.
		for i := range 600 {
			if _, err := s.Change(t.Context(), "acme", func(t *tenants.Tenant) error { t.Plan.Usage.Rate = i + 10; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Erase(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		create(t, s, "late", tenants.Plan{})
		time.Sleep(time.Second)
		synctest.Wait()
		if _, ok := other.Plan("acme"); ok || other.Admit("late") != nil {
			t.Error("changes beyond the row of changes were missed")
		}
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(seen, "; "); got != "acme active 7; acme suspended 7; late active 0; acme deleting 0" && got != "acme active 7; acme suspended 7; acme deleting 0; late active 0" {
			t.Errorf("the watcher saw %s", got)
		}
	})
}

func TestListIsByCursor(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	for i := range 7 {
		create(t, s, fmt.Sprintf("t%d", i), tenants.Plan{})
	}
	var got []string
	for after := ""; ; {
		page, next, err := s.List(t.Context(), after, 3)
		if err != nil || len(page) > 3 {
			t.Fatalf("List = %d, %v", len(page), err)
		}
		for _, p := range page {
			got = append(got, p.ID)
		}
		if after = next; next == "" {
			break
		}
	}
	if s := strings.Join(got, " "); s != "t0 t1 t2 t3 t4 t5 t6" {
		t.Errorf("listed %s", s)
	}
	_, _, err := s.List(t.Context(), "", tenants.MaxListLimit+1)
	wantCode(t, "a large page", err, fault.InvalidArgument)
}

func TestHostsChangeOneTenantAtOnce(t *testing.T) {
	d := testdriver.New(t)
	create(t, open(t, d, nil), "acme", tenants.Plan{})
	var wg sync.WaitGroup
	for range 3 {
		s := open(t, d, nil)
		wg.Go(func() {
			for range 5 {
				if _, err := s.Change(t.Context(), "acme", func(t *tenants.Tenant) error { t.Plan.Usage.Rate++; return nil }); err != nil {
					t.Errorf("Change: %v", err)
				}
			}
		})
	}
	wg.Wait()
	got, err := open(t, d, nil).Get(t.Context(), "acme")
	if err != nil || got.Plan.Usage.Rate != 15 {
		t.Errorf("Get = %+v, %v", got, err)
	}
}

func TestChangeKeepsTheOtherFields(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	create(t, s, "acme", tenants.Plan{})
	got, err := s.Change(t.Context(), "acme", func(t *tenants.Tenant) error {
		t.ID, t.Status, t.Name = "other", tenants.Deleting, "Acme"
		return nil
	})
	if err != nil || got.ID != "acme" || got.Status != tenants.Active || got.Name != "Acme" {
		t.Errorf("Change = %+v, %v", got, err)
	}
	refused := errors.New("refused")
	if _, err := s.Change(t.Context(), "acme", func(*tenants.Tenant) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("Change: %v", err)
	}
	_, err = s.Change(t.Context(), "acme", func(t *tenants.Tenant) error { t.Plan.Usage.Rate = -1; return nil })
	wantCode(t, "a bad plan", err, fault.InvalidArgument)
	_, err = s.Change(t.Context(), "other", func(*tenants.Tenant) error { return nil })
	wantCode(t, "another tenant", err, fault.NotFound)
}

// blocking is a model that answers when its context ends.
func blocking(asked chan<- struct{}) *hosttest.Model {
	return hosttest.ModelFunc(func(ctx context.Context, _ *llm.Request) hosttest.Reply {
		asked <- struct{}{}
		<-ctx.Done()
		return hosttest.Reply{Err: ctx.Err()}
	})
}

func TestSuspendingCancelsRuns(t *testing.T) {
	asked := make(chan struct{}, 2)
	var s *tenants.Store
	registry := &lateRuns{}
	s = open(t, testdriver.New(t), &tenants.Options{Runs: registry})
	h := testhost.New(t, &host.Options{Model: blocking(asked), Ledger: s.Guard(nil), TenantLimits: s.Limits})
	live, err := runs.New(h, &runs.Options{StartWait: time.Minute}) // for a refusal on a busy machine
	if err != nil {
		t.Fatal(err)
	}
	registry.Registry = live
	defer func() {
		if err := live.Close(); err != nil {
			t.Error(err)
		}
	}()
	agent := testhost.NewAgent(t, "a", nil)
	create(t, s, "acme", tenants.Plan{})
	create(t, s, "other", tenants.Plan{})
	ids := map[string]string{}
	for _, tenant := range []string{"acme", "other"} {
		r, err := live.Start(t.Context(), agent, &host.Request{Tenant: tenant, Text: "hello"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ids[tenant] = r.ID
		<-asked
	}
	if _, err := s.Suspend(t.Context(), "acme", "unpaid"); err != nil {
		t.Fatal(err)
	}
	if r, err := live.Wait(t.Context(), "acme", ids["acme"]); fault.CodeOf(err) != fault.Canceled || r.Status != runs.Canceled {
		t.Errorf("the run of the suspended tenant: %+v, %v", r, err)
	}
	if r, err := live.Get(t.Context(), "other", ids["other"]); err != nil || r.Status != runs.Running {
		t.Errorf("the run of another tenant: %+v, %v", r, err)
	}
	_, err = live.Start(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hello"}, nil)
	wantCode(t, "a run of the suspended tenant", err, fault.PermissionDenied)
	if _, err := s.Activate(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if _, err = live.Start(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hello"}, nil); err != nil {
		t.Errorf("a run after the suspension: %v", err)
	}
	<-asked
}

// lateRuns is a registry that is made after the Store, whose guard its host needs.
type lateRuns struct{ *runs.Registry }

func TestModelsAreThePlans(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	create(t, s, "acme", tenants.Plan{Models: []string{"small"}})
	for model, ok := range map[string]bool{"small": true, "large": false} {
		h := testhost.New(t, &host.Options{Model: hosttest.NewModel(hosttest.Reply{Text: "ok"}).Named(model), Ledger: s.Guard(nil)})
		agent := testhost.NewAgent(t, "a", nil)
		_, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hello"})
		if ok && err != nil || !ok && fault.CodeOf(err) != fault.PermissionDenied {
			t.Errorf("model %s: %v", model, err)
		}
		_, err = h.Run(t.Context(), agent, &host.Request{Tenant: "unknown", Text: "hello"})
		wantCode(t, "a tenant that there is not", err, fault.PermissionDenied)
	}
}

func TestGuardKeepsTheLedgerBelow(t *testing.T) {
	d := testdriver.New(t)
	ledger, err := usage.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, d, &tenants.Options{Ledger: ledger})
	create(t, s, "acme", tenants.Plan{Usage: usage.Plan{Limits: []usage.Limit{{Resource: usage.Tokens, Amount: 10}}}})
	h := testhost.New(t, &host.Options{Model: hosttest.NewModel(hosttest.Reply{Text: "ok"}), Ledger: s.Guard(ledger)})
	agent := testhost.NewAgent(t, "a", nil)
	_, err = h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: strings.Repeat("many words ", 100)})
	wantCode(t, "a run beyond the plan's tokens", err, fault.ResourceExhausted)
	if err := ledger.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// eraser is the deletion of a store without files.
type eraser struct {
	parts  []erasure.Part
	failed error
	calls  int
}

func (e *eraser) Delete(ctx context.Context, id string) error {
	if e.calls++; e.failed != nil {
		return e.failed
	}
	for _, p := range e.parts {
		if err := p.Erase(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func TestInterruptedDeletionIsCompleted(t *testing.T) {
	d := testdriver.New(t)
	s := open(t, d, nil)
	create(t, s, "acme", tenants.Plan{})
	create(t, s, "other", tenants.Plan{})
	failing := &eraser{failed: errors.New("the process was killed")}
	if err := s.Delete(t.Context(), "acme", failing); !errors.Is(err, failing.failed) {
		t.Fatalf("Delete: %v", err)
	}
	again := open(t, d, nil)
	wantCode(t, "Admit", again.Admit("acme"), fault.PermissionDenied)
	for doing, err := range map[string]error{
		"Activate": second(again.Activate(t.Context(), "acme")),
		"Change":   second(again.Change(t.Context(), "acme", func(*tenants.Tenant) error { return nil })),
	} {
		wantCode(t, doing, err, fault.FailedPrecondition)
	}
	_, err := again.Create(t.Context(), "acme", nil)
	wantCode(t, "Create", err, fault.AlreadyExists)
	works := &eraser{parts: []erasure.Part{again}}
	if err := again.ResumeDeletions(t.Context(), works); err != nil || works.calls != 1 {
		t.Fatalf("ResumeDeletions: %v after %d calls", err, works.calls)
	}
	if n, err := again.Find(t.Context(), "acme"); n != 0 || err != nil {
		t.Errorf("Find = %d, %v", n, err)
	}
	if n, err := again.Find(t.Context(), "other"); n != 1 || err != nil {
		t.Errorf("Find of another tenant = %d, %v", n, err)
	}
	create(t, again, "acme", tenants.Plan{})
	if err := again.Admit("acme"); err != nil {
		t.Errorf("the id is not free: %v", err)
	}
	wantCode(t, "Delete of no tenant", again.Delete(t.Context(), "nobody", works), fault.NotFound)
}

// slow is a driver whose caller is held up behind the next commit to the partition of tenants.
type slow struct {
	kv.Driver
	meanwhile func()
}

func (d *slow) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	results := d.Driver.Commit(ctx, txs...)
	if fn := d.meanwhile; fn != nil && txs[0].Partition == "agenthost/tenants" {
		d.meanwhile = nil
		fn()
	}
	return results
}

// A host that is held up behind its own write reads another host's in the meantime, and
// does not put its own in the place of that.
func TestAnOlderWriteDoesNotTakeThePlaceOfALaterOne(t *testing.T) {
	for name, held := range map[string]struct {
		write, meanwhile func(t *testing.T, s *tenants.Store)
		served           bool
	}{
		"a change, and a deletion": {
			func(t *testing.T, s *tenants.Store) {
				if _, err := s.Change(t.Context(), "acme", func(t *tenants.Tenant) error { t.Name = "Acme"; return nil }); err != nil {
					t.Error(err)
				}
			},
			func(t *testing.T, s *tenants.Store) {
				if err := s.Delete(t.Context(), "acme", &eraser{}); err != nil {
					t.Error(err)
				}
			}, false,
		},
		"a deletion, and another tenant of the id": {
			func(t *testing.T, s *tenants.Store) {
				if err := s.Erase(t.Context(), "acme"); err != nil {
					t.Error(err)
				}
			},
			func(t *testing.T, s *tenants.Store) { create(t, s, "acme", tenants.Plan{}) }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := kv.NewMemory()
				of := &slow{Driver: d}
				s, other := open(t, of, nil), open(t, d, nil)
				create(t, s, "acme", tenants.Plan{})
				time.Sleep(2 * time.Second)
				of.meanwhile = func() {
					held.meanwhile(t, other)
					time.Sleep(2 * time.Second) // in which the host reads the changes of others
				}
				held.write(t, s)
				if err := s.Admit("acme"); (err == nil) != held.served {
					t.Errorf("Admit = %v, want that the tenant is served: %t", err, held.served)
				}
			})
		})
	}
}

// erasing is the deletion of a store without files that calls meanwhile first.
type erasing struct {
	eraser
	meanwhile func(id string)
}

func (e *erasing) Delete(ctx context.Context, id string) error {
	e.meanwhile(id)
	return e.eraser.Delete(ctx, id)
}

// An administrator deletes a tenant again while a host resumes deletions, and then creates
// another tenant of that id.
func TestResumeLeavesATenantThatWasCreatedAgain(t *testing.T) {
	d := testdriver.New(t)
	s, other := open(t, d, nil), open(t, d, nil)
	failing := &eraser{failed: errors.New("the process was killed")}
	for _, id := range []string{"acme", "globex"} {
		create(t, s, id, tenants.Plan{})
		if err := s.Delete(t.Context(), id, failing); !errors.Is(err, failing.failed) {
			t.Fatalf("Delete: %v", err)
		}
	}
	works := &erasing{eraser: eraser{parts: []erasure.Part{s}}}
	works.meanwhile = func(id string) {
		if id != "acme" {
			t.Errorf("tenant %q is deleted, which was created again", id)
			return
		}
		if err := other.Delete(t.Context(), "globex", &eraser{parts: []erasure.Part{other}}); err != nil {
			t.Fatal(err)
		}
		create(t, other, "globex", tenants.Plan{})
	}
	if err := s.ResumeDeletions(t.Context(), works); err != nil {
		t.Errorf("ResumeDeletions: %v", err)
	}
	for id, want := range map[string]int{"acme": 0, "globex": 1} {
		if n, err := other.Find(t.Context(), id); n != want || err != nil {
			t.Errorf("Find(%s) = %d, %v, want %d", id, n, err, want)
		}
	}
}

func second(_ *tenants.Tenant, err error) error { return err }

func TestDeletionIsProved(t *testing.T) {
	d := testdriver.New(t)
	store, ok := kv.Unchecked(d).(kv.Eraser)
	if !ok {
		t.Skip("the driver erases no partitions")
	}
	s := open(t, d, nil)
	create(t, s, "acme", tenants.Plan{})
	own := kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(kv.OwnKey("invoice"), []byte("of acme"))}}
	if _, err := kv.Apply(t.Context(), d, own); err != nil {
		t.Fatal(err)
	}
	deletion := erasure.New(store, s)
	if err := s.Delete(t.Context(), "acme", deletion); err != nil {
		t.Fatal(err)
	}
	report, err := deletion.Prove(t.Context(), "acme")
	if err != nil || !report.Gone {
		t.Errorf("Prove = %+v, %v", report, err)
	}
}

func TestExportIsLinesOfJSON(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	create(t, s, "acme", tenants.Plan{Models: []string{"small"}})
	var out bytes.Buffer
	err := s.Export(t.Context(), "acme", &out, tenants.Exporter{Part: "numbers", Export: func(context.Context, string) iter.Seq2[any, error] {
		return func(yield func(any, error) bool) { _ = yield(1, nil) && yield(nil, errors.New("broken")) }
	}})
	if err == nil {
		t.Error("Export returns no error of an exporter")
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"part":"tenant","data":{"id":"acme"`) || lines[1] != `{"part":"numbers","data":1}` {
		t.Errorf("Export wrote %q", lines)
	}
}
