package watch_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/watch"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// following follows a directory of modules.
type following struct {
	t        *testing.T
	ctx      context.Context
	dir      string
	runtime  *plugin.Runtime
	outcomes chan watch.Outcome
}

func follow(t *testing.T, opts watch.Options) *following {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a compiler with the race detector is slow
	rt, err := plugin.NewRuntime(ctx, &plugin.Options{CacheDir: testcode.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	f := &following{t: t, ctx: ctx, dir: t.TempDir(), runtime: rt, outcomes: make(chan watch.Outcome)}
	opts.Settle, opts.Interval = 5*time.Millisecond, 5*time.Millisecond
	opts.Told = func(o watch.Outcome) {
		select {
		case f.outcomes <- o:
		case <-ctx.Done():
		}
	}
	done := make(chan error)
	go func() { done <- watch.Plugins(ctx, rt, f.dir, &opts) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Plugins: %v", err)
		}
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// save puts a file into its place as a careful program does.
func (f *following) save(name string, b []byte) {
	f.t.Helper()
	tmp := filepath.Join(f.dir, "."+name)
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *following) outcome() watch.Outcome {
	f.t.Helper()
	select {
	case o := <-f.outcomes:
		return o
	case <-f.ctx.Done():
		f.t.Fatal("nothing happens")
		return watch.Outcome{}
	}
}

func (f *following) wantServing(id, name string, version int) {
	f.t.Helper()
	st := f.runtime.Slot(id).State()
	if v := st.Serving(); v == nil || v.Name != name || v.Number != version {
		f.t.Errorf("%s is %+v, want version %d, %s, to serve", id, st, version, name)
	}
}

func TestPluginsFollowTheirFiles(t *testing.T) {
	f := follow(t, watch.Options{Unload: true, Slot: func(id string) *plugin.SlotOptions {
		return &plugin.SlotOptions{LoadOptions: plugin.LoadOptions{Limits: plugin.Limits{Instructions: 123_456_789}}}
	}})
	f.save("p.wasm", tokenlimiter.Wasm)
	if o := f.outcome(); o.Err != nil || o.ID != "p" || o.Version.Number != 1 {
		t.Fatalf("a new file: %+v", o)
	}
	f.wantServing("p", "tokenlimiter", 1)
	if l := f.runtime.Slot("p").Current().LimitsFor("a"); l.Instructions != 123_456_789 {
		t.Errorf("it has the limit Instructions of %d, not the one it is given", l.Instructions)
	}

	f.save("p.wasm", toolcallfilter.Wasm)
	if o := f.outcome(); o.Err != nil || o.Version.Number != 2 {
		t.Errorf("a changed file: %+v", o)
	}
	f.wantServing("p", "toolcallfilter", 2)

	f.save("p.wasm", []byte("not a module"))
	if o := f.outcome(); host.CodeOf(o.Err) != host.InvalidArgument {
		t.Errorf("a broken file: %+v, want invalid_argument", o)
	}
	f.wantServing("p", "toolcallfilter", 2)

	if err := os.Remove(filepath.Join(f.dir, "p.wasm")); err != nil {
		t.Fatal(err)
	}
	if o := f.outcome(); !o.Removed || o.Err != nil {
		t.Errorf("a removed file: %+v", o)
	}
	if st := f.runtime.Slot("p").State(); st.Phase != plugin.Unloaded {
		t.Errorf("it is %s, want unloaded", st.Phase)
	}

	f.save("p.wasm", tokenlimiter.Wasm)
	if o := f.outcome(); o.Err != nil {
		t.Errorf("a file that is back: %+v", o)
	}
	f.wantServing("p", "tokenlimiter", 4)
}

// A run that holds on to a version for long keeps no other file from being seen.
func TestPluginsThatArePinnedAreUnloaded(t *testing.T) {
	f := follow(t, watch.Options{Unload: true})
	f.save("p.wasm", tokenlimiter.Wasm)
	f.outcome()
	_, release := f.runtime.Pin(f.ctx)
	defer release()
	if err := os.Remove(filepath.Join(f.dir, "p.wasm")); err != nil {
		t.Fatal(err)
	}
	if o := f.outcome(); !o.Removed || o.Err != nil {
		t.Errorf("a removed file: %+v", o)
	}
	if f.runtime.Slot("p").Current() != nil {
		t.Error("it still serves")
	}
	f.save("q.wasm", tokenlimiter.Wasm)
	if o := f.outcome(); o.ID != "q" || o.Err != nil {
		t.Errorf("another file: %+v", o)
	}
	f.save("p.wasm", toolcallfilter.Wasm)
	if o := f.outcome(); o.ID != "p" || o.Err != nil {
		t.Errorf("a file that is back: %+v", o)
	}
	f.wantServing("p", "toolcallfilter", 2)
}

func TestPluginsStayWhenTheirFilesGo(t *testing.T) {
	f := follow(t, watch.Options{})
	f.save("p.wasm", tokenlimiter.Wasm)
	f.outcome()
	if err := os.Remove(filepath.Join(f.dir, "p.wasm")); err != nil {
		t.Fatal(err)
	}
	if o := f.outcome(); !o.Removed || o.Err != nil {
		t.Errorf("a removed file: %+v", o)
	}
	f.wantServing("p", "tokenlimiter", 1)
}

func TestPluginsAreNotLoadedTwice(t *testing.T) {
	f := follow(t, watch.Options{})
	f.save("p.wasm", tokenlimiter.Wasm)
	f.outcome()
	f.save("p.wasm", tokenlimiter.Wasm) // the same again
	f.save("q.wasm", tokenlimiter.Wasm) // is seen no earlier
	if o := f.outcome(); o.ID != "q" {
		t.Errorf("a file that was written again: %+v", o)
	}
	f.wantServing("p", "tokenlimiter", 1)
}

// What was rolled back is loaded again when it is saved again, although it is the
// same.
func TestPluginsAreLoadedAgainAfterARollback(t *testing.T) {
	f := follow(t, watch.Options{})
	f.save("p.wasm", tokenlimiter.Wasm)
	f.outcome()
	f.save("p.wasm", toolcallfilter.Wasm)
	f.outcome()
	if _, err := f.runtime.Slot("p").Rollback(f.ctx); err != nil {
		t.Fatal(err)
	}
	f.wantServing("p", "tokenlimiter", 1)
	f.save("p.wasm", toolcallfilter.Wasm)
	if o := f.outcome(); o.Err != nil || o.Version == nil || o.Version.Number != 3 {
		t.Errorf("saved again: %+v", o)
	}
	f.wantServing("p", "toolcallfilter", 3)
}

// A slot that has what the directory has is left alone.
func TestPluginsThatServeAlready(t *testing.T) {
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.NewSlot(t.Context(), "p", tokenlimiter.Wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"p.wasm", "q.wasm"} {
		if err := os.WriteFile(filepath.Join(dir, name), tokenlimiter.Wasm, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	opts := &watch.Options{Told: func(o watch.Outcome) {
		if o.ID != "q" || o.Err != nil {
			t.Errorf("told of %+v, want of q alone", o)
		}
		cancel() // q comes after p
	}}
	opts.Settle, opts.Interval = 5*time.Millisecond, 5*time.Millisecond
	if err := watch.Plugins(ctx, rt, dir, opts); err != nil {
		t.Error(err)
	}
	if st := s.State(); len(st.Versions) != 1 {
		t.Errorf("the slot has versions %+v, want the first alone", st.Versions)
	}
	if err := rt.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestPluginsHaveNamesThatAreIDs(t *testing.T) {
	var log lockedBuilder
	f := follow(t, watch.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f.save("a b.wasm", tokenlimiter.Wasm)
	f.save("p.wasm", tokenlimiter.Wasm)
	if o := f.outcome(); o.ID != "p" {
		t.Errorf("loaded: %+v, want p alone", o)
	}
	if n := strings.Count(log.String(), "no plugin id"); n != 1 {
		t.Errorf("%d warnings of the name, want 1", n)
	}
}

func TestPluginsRefuse(t *testing.T) {
	opts := &watch.Options{ModuleBytes: -1}
	if err := watch.Plugins(t.Context(), nil, t.TempDir(), opts); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a negative bound: %v, want invalid_argument", err)
	}
}
