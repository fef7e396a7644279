package library_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestAnUploadedVersionServesOnceItIsActive(t *testing.T) {
	d := testdriver.New(t)
	h := newHost(t, d, nil)
	v, err := h.Upload(t.Context(), "acme", "echo", bytes.NewReader(guest("echo")))
	if err != nil {
		t.Fatal(err)
	}
	if v.Name != "guest" || !slices.Equal(v.Tools, []string{"t"}) || v.Bytes != len(guest("echo")) || v.Uploaded.IsZero() {
		t.Errorf("Upload = %+v", v)
	}
	if in, err := plugin.Inspect(guest("echo")); err != nil || in.Digest != v.Digest {
		t.Errorf("the digest is %s, %v", v.Digest, err)
	}
	_, err = h.Lookup("acme", "echo")
	wantCode(t, "Lookup before Activate", err, fault.NotFound)
	p, err := h.Activate(t.Context(), "acme", "echo", v.Digest)
	if err != nil || p.Serving != v.Digest || len(p.Versions) != 1 {
		t.Fatalf("Activate = %+v, %v", p, err)
	}
	if out, err := call(t, h, "acme", "echo"); err != nil || !strings.Contains(out, `"tool":"t"`) {
		t.Errorf("the call answers %q, %v", out, err)
	}
	if raw, err := h.Manifest(t.Context(), "acme", "echo", v.Digest); err != nil || !strings.Contains(string(raw), `"name":"guest"`) {
		t.Errorf("Manifest = %s, %v", raw, err)
	}
	again, err := h.Upload(t.Context(), "acme", "echo", bytes.NewReader(guest("echo")))
	if err != nil || again.Digest != v.Digest || !again.Uploaded.Equal(v.Uploaded) {
		t.Errorf("Upload again = %+v, %v", again, err)
	}
	other := newHost(t, d, nil) // a restart
	if out, err := call(t, other, "acme", "echo"); err != nil || !strings.Contains(out, `"tool":"t"`) {
		t.Errorf("after a restart the call answers %q, %v", out, err)
	}
}

func TestChangesApplyHereAtOnceAndOnOtherHostsSoon(t *testing.T) {
	t.Parallel()
	d := testdriver.New(t)
	var mu sync.Mutex
	changed := map[string]int{}
	a := newHost(t, d, nil)
	b := newHost(t, d, &library.Options{Changed: func(tenant, id string) {
		mu.Lock()
		defer mu.Unlock()
		changed[tenant+"/"+id]++
	}})
	first, second := upload(t, a, "acme", "p", guest("echo")), upload(t, a, "acme", "p", guest("quiet"))
	activate(t, a, "acme", "p", first)
	if serving(a, "acme", "p") != first {
		t.Error("the version does not serve here")
	}
	soon(t, "the first version", func() bool { return serving(b, "acme", "p") == first })
	activate(t, b, "acme", "p", second)
	soon(t, "the second version", func() bool { return serving(a, "acme", "p") == second })
	if _, err := a.Rollback(t.Context(), "acme", "p"); err != nil {
		t.Fatal(err)
	}
	if serving(a, "acme", "p") != first {
		t.Error("the rollback is not here")
	}
	soon(t, "the rollback", func() bool { return serving(b, "acme", "p") == first })
	_, err := b.Rollback(t.Context(), "acme", "p")
	wantCode(t, "Rollback without a version before", err, fault.FailedPrecondition)

	slot, err := b.Lookup("acme", "p")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Deactivate(t.Context(), "acme", "p"); err != nil {
		t.Fatal(err)
	}
	soon(t, "the end of the plugin", func() bool { return serving(b, "acme", "p") == "" })
	if p, err := a.Rollback(t.Context(), "acme", "p"); err != nil || p.Serving != first {
		t.Fatalf("Rollback after Deactivate = %+v, %v", p, err)
	}
	soon(t, "the version before the end", func() bool { return serving(b, "acme", "p") == first })
	if again, err := b.Lookup("acme", "p"); err != nil || again != slot {
		t.Error("the parts that agents have do not serve again")
	}
	if err := a.Remove(t.Context(), "acme", "p"); err != nil {
		t.Fatal(err)
	}
	soon(t, "the removal", func() bool { return b.rt.TenantSlot("acme", "p") == nil })
	if a.rt.TenantSlot("acme", "p") != nil {
		t.Error("the plugin is not removed here")
	}
	if keys := entries(t, d); len(keys) != 1 {
		t.Errorf("after Remove the store has %v", keys)
	}
	mu.Lock()
	defer mu.Unlock()
	if changed["acme/p"] < 5 || len(changed) != 1 {
		t.Errorf("Changed was called for %v", changed)
	}
}

func TestRefusedModulesLeaveNothing(t *testing.T) {
	d := testdriver.New(t)
	h := newHost(t, d, &library.Options{Limits: plugin.Limits{ModuleBytes: 1 << 20, Instructions: 1_000_000, StartInstructions: 1_000_000}})
	for name, want := range map[string]struct {
		code fault.Code
		text string
	}{
		"text":           {fault.InvalidArgument, "module"},
		"empty":          {fault.InvalidArgument, "empty"},
		"cut":            {fault.InvalidArgument, "module"},
		"component":      {fault.FailedPrecondition, "component"},
		"nothing":        {fault.FailedPrecondition, "not a plugin"},
		"mute":           {fault.FailedPrecondition, "manifest"},
		"many-faults":    {fault.InvalidArgument, "agenthost_tool"},
		"foreign":        {fault.InvalidArgument, "env"},
		"describe-loop":  {fault.ResourceExhausted, "nstructions"},
		"describe-error": {fault.Internal, "manifest"},
		"describe-trap":  {fault.Internal, "unreachable"},
	} {
		_, err := h.Upload(t.Context(), "acme", "p", bytes.NewReader(guest(name)))
		wantCode(t, name, err, want.code, want.text)
	}
	_, err := h.Upload(t.Context(), "acme", "p", zeros{})
	wantCode(t, "an endless module", err, fault.InvalidArgument, "ModuleBytes", "1048576")
	broken := errors.New("the line is cut")
	if _, err := h.Upload(t.Context(), "acme", "p", io.MultiReader(bytes.NewReader(guest("echo")), errorReader{broken})); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
	for _, n := range []struct{ tenant, id string }{{"agenthost/x", "p"}, {"a\x00", "p"}, {"acme", ""}, {"acme", "a\nb"}, {"acme", strings.Repeat("x", 201)}} {
		_, err := h.Upload(t.Context(), n.tenant, n.id, bytes.NewReader(guest("echo")))
		wantCode(t, "a bad name", err, fault.InvalidArgument)
	}
	if keys := entries(t, d); len(keys) != 0 {
		t.Errorf("the store has %v", keys)
	}
	if slots := h.rt.Slots(); len(slots) != 0 {
		t.Errorf("the runtime has %d slots", len(slots))
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// A version that fails its trial leaves the one before in service.
func TestAVersionThatFailsItsTrialServesNowhere(t *testing.T) {
	d := testdriver.New(t)
	h := newHost(t, d, nil)
	good := upload(t, h, "acme", "p", guest("echo"))
	bad := upload(t, h, "acme", "p", guest("describe-trap-later"))
	activate(t, h, "acme", "p", good)
	_, err := h.Activate(t.Context(), "acme", "p", bad)
	wantCode(t, "Activate of a version that traps", err, fault.FailedPrecondition, "not taken into service")
	if serving(h, "acme", "p") != good {
		t.Error("the version before does not serve")
	}
	if p, err := h.Get(t.Context(), "acme", "p"); err != nil || p.Serving != good || len(p.Previous) != 0 {
		t.Errorf("the record is %+v, %v", p, err)
	}
	_, err = h.Activate(t.Context(), "acme", "p", "sha256:none")
	wantCode(t, "Activate of no version", err, fault.NotFound)
	_, err = h.Activate(t.Context(), "acme", "other", good)
	wantCode(t, "Activate of no plugin", err, fault.NotFound)
}

func TestAVersionThatAsksForMoreWaitsForAGrantOrConsent(t *testing.T) {
	h := newHost(t, testdriver.New(t), nil)
	modest, asking := upload(t, h, "acme", "p", guest("echo")), upload(t, h, "acme", "p", guest("kv-put"))
	activate(t, h, "acme", "p", modest)
	p, err := h.Get(t.Context(), "acme", "p")
	if err != nil || !slices.Equal(p.Version(asking).Missing, []string{"kv=write"}) || len(p.Version(modest).Missing) != 0 {
		t.Errorf("Get = %+v, %v", p, err)
	}
	_, err = h.Activate(t.Context(), "acme", "p", asking)
	wantCode(t, "Activate", err, fault.PermissionDenied, "kv=write")
	if serving(h, "acme", "p") != modest {
		t.Error("a version serves that was refused")
	}
	if _, err := h.Accept(t.Context(), "acme", "p", asking); err != nil {
		t.Fatal(err)
	}
	if out, err := call(t, h, "acme", "p"); err != nil || !strings.Contains(out, "permission_denied") {
		t.Errorf("without a grant the call answers %q, %v", out, err)
	}
	if p, err := h.Grant(t.Context(), "acme", "p", plugin.Permissions{KV: plugin.Write}); err != nil || p.Granted.KV != plugin.Write || p.Version(asking).Missing != nil {
		t.Fatalf("Grant = %+v, %v", p, err)
	}
	if out, err := call(t, h, "acme", "p"); err != nil || !strings.Contains(out, "revision") {
		t.Errorf("with a grant the call answers %q, %v", out, err)
	}
	if _, err := h.Grant(t.Context(), "acme", "p", plugin.Permissions{}); err != nil {
		t.Fatal(err)
	}
	if out, err := call(t, h, "acme", "p"); err != nil || !strings.Contains(out, "permission_denied") {
		t.Errorf("after the grant was taken back the call answers %q, %v", out, err)
	}
	_, err = h.Grant(t.Context(), "acme", "p", plugin.Permissions{HTTP: []plugin.HTTPAccess{{Scheme: "gopher"}}})
	wantCode(t, "Grant of nonsense", err, fault.InvalidArgument)
}

// Grants have one place, the plan.
func TestThePlanOfATenantIsTheOnePlaceOfItsGrants(t *testing.T) {
	d := testdriver.New(t)
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	store, err := tenants.Open(t.Context(), d, &tenants.Options{Plugins: rt})
	if err != nil {
		t.Fatal(err)
	}
	l, err := library.Open(t.Context(), d, rt, &library.Options{Plans: store})
	if err != nil {
		t.Fatal(err)
	}
	h := &hostOf{l, rt}
	defer h.stop(t)
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = h.Upload(t.Context(), "acme", "p", bytes.NewReader(guest("kv-put")))
	wantCode(t, "Upload for no tenant", err, fault.PermissionDenied)
	if _, err := store.Create(t.Context(), "acme", &tenants.Spec{Plan: tenants.Plan{Plugins: map[string]plugin.Permissions{"p": {KV: plugin.Read}}}}); err != nil {
		t.Fatal(err)
	}
	_, err = h.Upload(t.Context(), "acme", "other", bytes.NewReader(guest("kv-put")))
	wantCode(t, "Upload of a plugin that the plan has not", err, fault.PermissionDenied, `"other"`)
	asking := upload(t, h, "acme", "p", guest("kv-put"))
	_, err = h.Activate(t.Context(), "acme", "p", asking)
	wantCode(t, "Activate", err, fault.PermissionDenied, "kv=write")
	_, err = h.Grant(t.Context(), "acme", "p", plugin.Permissions{KV: plugin.Write})
	wantCode(t, "Grant of more than the plan has", err, fault.PermissionDenied, "kv=write")
	if p, err := h.Grant(t.Context(), "acme", "p", plugin.Permissions{}); err != nil || p.Granted.KV != plugin.Read {
		t.Errorf("Grant within the plan = %+v, %v", p, err)
	}
	if _, err := store.Change(t.Context(), "acme", func(t *tenants.Tenant) error {
		t.Plan.Plugins["p"] = plugin.Permissions{KV: plugin.Write}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	activate(t, h, "acme", "p", asking)
	if out, err := call(t, h, "acme", "p"); err != nil || strings.Contains(out, "permission_denied") {
		t.Errorf("with the plan's grant the call answers %q, %v", out, err)
	}
	if _, err := store.Suspend(t.Context(), "acme", "unpaid"); err != nil {
		t.Fatal(err)
	}
	_, err = h.Lookup("acme", "p")
	wantCode(t, "Lookup of a suspended tenant", err, fault.NotFound)
}

func TestSharedPluginsAreThereForAllTenants(t *testing.T) {
	h := newHost(t, testdriver.New(t), &library.Options{Plans: plans{"limited": {}, "named": {"p": {}}}})
	shared := upload(t, h, "", "p", guest("echo"))
	activate(t, h, "", "p", shared)
	for _, tenant := range []string{"acme", "named", ""} {
		if serving(h, tenant, "p") != shared {
			t.Errorf("tenant %q does not have the shared plugin", tenant)
		}
	}
	if out, err := call(t, h, "acme", "p"); err != nil || !strings.Contains(out, `"tool"`) {
		t.Errorf("the call answers %q, %v", out, err)
	}
	_, err := h.Lookup("limited", "p")
	wantCode(t, "Lookup of a tenant whose plan has not the plugin", err, fault.NotFound)
	_, err = h.Upload(t.Context(), "acme", "p", bytes.NewReader(guest("quiet")))
	wantCode(t, "Upload of a tenant under a shared id", err, fault.AlreadyExists)
	upload(t, h, "acme", "q", guest("quiet"))
	_, err = h.Upload(t.Context(), "", "q", bytes.NewReader(guest("quiet")))
	wantCode(t, "Upload of a shared plugin under a tenant's id", err, fault.AlreadyExists)
	if strings.Contains(err.Error(), "acme") {
		t.Errorf("the error names the tenant: %v", err)
	}
	_, err = h.Get(t.Context(), "acme", "p")
	wantCode(t, "Get of a shared plugin as a tenant's", err, fault.NotFound)
	if err := h.Remove(t.Context(), "acme", "q"); err != nil {
		t.Fatal(err)
	}
	upload(t, h, "", "q", guest("quiet"))
}

func TestLimitsAreNamed(t *testing.T) {
	size := int64(len(marked("echo", "1")))
	d := testdriver.New(t)
	h := newHost(t, d, &library.Options{Versions: 2, Plugins: 2, TenantBytes: 3 * size})
	first := upload(t, h, "acme", "p", marked("echo", "1"))
	upload(t, h, "acme", "p", marked("echo", "2"))
	before := entries(t, d)
	_, err := h.Upload(t.Context(), "acme", "p", bytes.NewReader(marked("echo", "3")))
	wantCode(t, "a third version", err, fault.ResourceExhausted, "Versions")
	upload(t, h, "acme", "q", marked("echo", "1")) // counts once
	upload(t, h, "acme", "q", marked("echo", "3"))
	_, err = h.Upload(t.Context(), "acme", "r", bytes.NewReader(marked("echo", "1")))
	wantCode(t, "a third plugin", err, fault.ResourceExhausted, "Plugins")
	if err := h.Remove(t.Context(), "acme", "q"); err != nil {
		t.Fatal(err)
	}
	if after := entries(t, d); !slices.Equal(before, after) {
		t.Errorf("before the other plugin %v, after its removal %v", before, after)
	}
	upload(t, h, "acme", "q", marked("echo", "4"))
	_, err = h.Upload(t.Context(), "acme", "q", bytes.NewReader(marked("echo", "5")))
	wantCode(t, "a fourth module", err, fault.ResourceExhausted, "TenantBytes")
	upload(t, h, "umbrella", "q", marked("echo", "5")) // the limits are each tenant's
	activate(t, h, "acme", "p", first)
	_, err = h.RemoveVersion(t.Context(), "acme", "p", first)
	wantCode(t, "RemoveVersion of the one that serves", err, fault.FailedPrecondition)
	for _, opts := range []library.Options{{Versions: -1}, {Versions: library.MaxVersionsOfPlugin + 1}, {Plugins: -1}, {TenantBytes: -1}} {
		_, err := library.Open(t.Context(), d, h.rt, &opts)
		wantCode(t, "Open", err, fault.InvalidArgument)
	}
}

func TestUploadsInProgressAreBounded(t *testing.T) {
	h := newHost(t, testdriver.New(t), nil)
	var wg sync.WaitGroup
	var readers []*io.PipeWriter
	for range 4 {
		r, w := io.Pipe()
		readers = append(readers, w)
		wg.Go(func() {
			_, err := h.Upload(t.Context(), "acme", "p", r)
			wantCode(t, "an upload that ends early", err, fault.InvalidArgument)
		})
		if _, err := w.Write([]byte{0}); err != nil { // it is being read
			t.Fatal(err)
		}
	}
	_, err := h.Upload(t.Context(), "acme", "p", bytes.NewReader(guest("echo")))
	wantCode(t, "a fifth upload", err, fault.ResourceExhausted, "in progress")
	upload(t, h, "umbrella", "p", guest("echo"))
	for _, w := range readers {
		_ = w.Close() // a pipe's never fails
	}
	wg.Wait()
	upload(t, h, "acme", "p", guest("echo"))
}

// A plugin is removed while a run holds on to its version, and uploaded again: what serves next
// waits for the end of the one before, which has the id until then.
func TestAPluginThatIsMadeAgainWaitsForItsLastCalls(t *testing.T) {
	t.Parallel()
	h := newHost(t, testdriver.New(t), nil)
	activate(t, h, "acme", "p", upload(t, h, "acme", "p", guest("echo")))
	_, release := h.rt.Pin(t.Context())
	if err := h.Remove(t.Context(), "acme", "p"); err != nil {
		t.Fatal(err)
	}
	again := upload(t, h, "acme", "p", guest("quiet"))
	impatient, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := h.Activate(impatient, "acme", "p", again)
	wantCode(t, "Activate while the version before is held", err, fault.DeadlineExceeded)
	release()
	activate(t, h, "acme", "p", again)
	if got := serving(h, "acme", "p"); got != again {
		t.Errorf("%q serves, want %q", got, again)
	}
}

// unreadable is a store whose modules cannot be read for a while.
type unreadable struct {
	kv.Driver
	broken  atomic.Bool
	refused atomic.Int64
}

func (d *unreadable) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	if rest, ok := r.Prefix.CutPrefix(kv.NewKey("module")); ok && rest != "" && d.broken.Load() {
		d.refused.Add(1)
		return kv.Page{}, kv.ErrUnavailable
	}
	return d.Driver.Scan(ctx, partition, r)
}

// A host that cannot load a version tries again, and serves the one before meanwhile.
func TestAHostTriesAgainWhatItCouldNotLoad(t *testing.T) {
	t.Parallel()
	d := testdriver.New(t)
	slow := &unreadable{Driver: d}
	var said bytes.Buffer
	a := newHost(t, d, nil)
	b := newHost(t, slow, &library.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	first, second := upload(t, a, "acme", "p", guest("echo")), upload(t, a, "acme", "p", guest("quiet"))
	activate(t, a, "acme", "p", first)
	soon(t, "the first version", func() bool { return serving(b, "acme", "p") == first })
	slow.broken.Store(true)
	activate(t, a, "acme", "p", second)
	soon(t, "the first try", func() bool { return slow.refused.Load() > 0 })
	if serving(b, "acme", "p") != first {
		t.Error("the version before does not serve meanwhile")
	}
	slow.broken.Store(false)
	soon(t, "the second version", func() bool { return serving(b, "acme", "p") == second })
	b.stop(t)
	if text := said.String(); !strings.Contains(text, "does not serve as the store says") || !strings.Contains(text, "plugin=p") {
		t.Errorf("the log is %q", text)
	}
}

// A request that ends leaves the host as the store says.
func TestAChangeThatIsNotWrittenIsTakenBack(t *testing.T) {
	d := &dying{Driver: testdriver.New(t)}
	d.left.Store(1 << 40)
	h := newHost(t, d, nil)
	first, second := upload(t, h, "acme", "p", guest("echo")), upload(t, h, "acme", "p", guest("quiet"))
	activate(t, h, "acme", "p", first)
	d.left.Store(0)
	if _, err := h.Activate(t.Context(), "acme", "p", second); !errors.Is(err, errDead) {
		t.Errorf("Activate: %v", err)
	}
	soon(t, "the version before", func() bool { return serving(h, "acme", "p") == first })
}

func TestListIsByCursor(t *testing.T) {
	h := newHost(t, testdriver.New(t), nil)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		upload(t, h, "acme", id, guest("echo"))
		upload(t, h, "umbrella", id+id, guest("echo"))
	}
	var got []string
	for after := ""; ; {
		page, next, err := h.List(t.Context(), "acme", after, 2)
		if err != nil || len(page) > 2 {
			t.Fatalf("List = %d, %v", len(page), err)
		}
		for _, p := range page {
			got = append(got, p.ID)
		}
		if after = next; next == "" {
			break
		}
	}
	if strings.Join(got, "") != "abcde" {
		t.Errorf("listed %v", got)
	}
	_, _, err := h.List(t.Context(), "acme", "", library.MaxListLimit+1)
	wantCode(t, "a large page", err, fault.InvalidArgument)
}

func TestHostsUploadAtOnceAndNothingIsLost(t *testing.T) {
	d := testdriver.New(t)
	hosts := []*hostOf{newHost(t, d, nil), newHost(t, d, nil)}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for {
				wasm := marked("echo", string(rune('a'+i/2))) // two hosts upload each
				_, err := hosts[i%2].Upload(t.Context(), "acme", "p", bytes.NewReader(wasm))
				if fault.CodeOf(err) == fault.Conflict {
					continue
				}
				if err != nil {
					t.Errorf("Upload: %v", err)
				}
				return
			}
		})
	}
	wg.Wait()
	p, err := hosts[0].Get(t.Context(), "acme", "p")
	if err != nil || len(p.Versions) != 3 {
		t.Fatalf("Get = %+v, %v", p, err)
	}
	for _, v := range p.Versions {
		activate(t, hosts[1], "acme", "p", v.Digest)
	}
}

func TestATenantIsErasedAndExported(t *testing.T) {
	d := testdriver.New(t)
	h := newHost(t, d, nil)
	activate(t, h, "acme", "p", upload(t, h, "acme", "p", guest("echo")))
	upload(t, h, "acme", "q", guest("quiet"))
	kept := upload(t, h, "umbrella", "p", guest("echo"))
	activate(t, h, "umbrella", "p", kept)
	exported := 0
	for item, err := range h.Export(t.Context(), "acme") {
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := item.(*library.ExportedVersion); ok && (bytes.Equal(v.Module, guest("echo")) || bytes.Equal(v.Module, guest("quiet"))) && len(v.Manifest) > 0 {
			exported++
		}
	}
	if exported != 2 {
		t.Errorf("%d whole modules are exported, want 2", exported)
	}
	if n, err := h.Find(t.Context(), "acme"); err != nil || n < 6 {
		t.Errorf("Find = %d, %v", n, err)
	}
	for range 2 {
		if err := h.Erase(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := h.Find(t.Context(), "acme"); err != nil || n != 0 {
		t.Errorf("Find after Erase = %d, %v", n, err)
	}
	for _, key := range entries(t, d) {
		if strings.Contains(key, "acme") {
			t.Errorf("the store still has %s", key)
		}
	}
	if serving(h, "acme", "p") != "" || serving(h, "umbrella", "p") != kept {
		t.Error("Erase is not of one tenant")
	}
	wantCode(t, "Erase of the host", h.Erase(t.Context(), ""), fault.InvalidArgument)
}

func TestAClosedStoreIsAnErrorWithACode(t *testing.T) {
	d := kv.NewMemory()
	h := newHost(t, d, nil)
	upload(t, h, "acme", "p", guest("echo"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := h.Get(t.Context(), "acme", "p")
	wantCode(t, "Get", err, fault.Unavailable)
	_, err = h.Upload(t.Context(), "acme", "p", bytes.NewReader(guest("quiet")))
	wantCode(t, "Upload", err, fault.Unavailable)
	_, err = library.Open(t.Context(), d, h.rt, nil)
	wantCode(t, "Open", err, fault.Unavailable)
}
