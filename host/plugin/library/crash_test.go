package library_test

// Scenario: a process dies between any two of its writes; the next one finds the old state
// or the new one, every module whole, and removes what nothing names.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// dying is a store of a process that dies after some commits: later ones do not happen.
type dying struct {
	kv.Driver
	left atomic.Int64
}

var errDead = errors.New("the process is dead")

func (d *dying) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if d.left.Add(-1) >= 0 {
		return d.Driver.Commit(ctx, txs...)
	}
	out := make([]kv.Result, len(txs))
	for i := range out {
		out[i].Err = errDead
	}
	return out
}

func TestAProcessThatDiesLeavesTheOldStateOrTheNewOne(t *testing.T) {
	large := marked("quiet", strings.Repeat("x", 600<<10)) // of three parts
	first := func(h *hostOf) string { return upload(t, h, "acme", "p", guest("echo")) }
	for what, c := range map[string]struct {
		before func(h *hostOf)
		do     func(h *hostOf) error
		after  string // the state; "old" is what before leaves
	}{
		"upload of a plugin": {
			func(*hostOf) {},
			func(h *hostOf) error {
				_, err := h.Upload(t.Context(), "acme", "p", bytes.NewReader(large))
				return err
			}, "1 versions, serving 0"},
		"upload of a version": {
			func(h *hostOf) { activate(t, h, "acme", "p", first(h)) },
			func(h *hostOf) error {
				_, err := h.Upload(t.Context(), "acme", "p", bytes.NewReader(large))
				return err
			}, "2 versions, serving 1"},
		"activation": {
			func(h *hostOf) { first(h); upload(t, h, "acme", "p", large) },
			func(h *hostOf) error {
				p, err := h.Get(t.Context(), "acme", "p")
				if err == nil {
					_, err = h.Activate(t.Context(), "acme", "p", p.Versions[1].Digest)
				}
				return err
			}, "2 versions, serving 2"},
		"removal of a version": {
			func(h *hostOf) { activate(t, h, "acme", "p", first(h)); upload(t, h, "acme", "p", large) },
			func(h *hostOf) error {
				p, err := h.Get(t.Context(), "acme", "p")
				if err == nil {
					_, err = h.RemoveVersion(t.Context(), "acme", "p", p.Versions[1].Digest)
				}
				return err
			}, "1 versions, serving 1"},
		"removal of the plugin": {
			func(h *hostOf) { activate(t, h, "acme", "p", first(h)); upload(t, h, "acme", "p", large) },
			func(h *hostOf) error { return h.Remove(t.Context(), "acme", "p") }, "none"},
	} {
		t.Run(what, func(t *testing.T) {
			done := false
			for writes := int64(0); !done && writes < 40; writes++ {
				d := &dying{Driver: testdriver.New(t)}
				d.left.Store(1 << 40)
				h := newHost(t, d, nil)
				c.before(h)
				old := stateOf(t, h)
				d.left.Store(writes)
				err := c.do(h)
				done = d.left.Load() >= 0
				if done && err != nil {
					t.Fatal(err)
				}
				h.stop(t)
				next := newHost(t, d.Driver, nil)
				got := stateOf(t, next)
				if got != old && got != c.after || done && got != c.after {
					t.Errorf("after %d writes: %s; before %s, want that or %s", writes, got, old, c.after)
				}
				if err == nil && got != c.after {
					t.Errorf("after %d writes %s was acknowledged, and the state is %s", writes, what, got)
				}
				checkWhole(t, next, d.Driver)
				if t.Failed() {
					t.FailNow()
				}
			}
			if !done {
				t.Error("it takes more writes than any operation has")
			}
		})
	}
}

// stateOf tells of acme's plugin p, and activates each of its versions for a moment.
func stateOf(t *testing.T, h *hostOf) string {
	t.Helper()
	list, _, err := h.List(t.Context(), "acme", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return "none"
	}
	at := 0
	for i, v := range list[0].Versions {
		if v.Digest == list[0].Serving {
			at = i + 1
		}
	}
	if serving(h, "acme", "p") != list[0].Serving {
		t.Errorf("the host serves %q, and the record says %q", serving(h, "acme", "p"), list[0].Serving)
	}
	return fmt.Sprintf("%d versions, serving %d", len(list[0].Versions), at)
}

// checkWhole loads every version, and wants nothing else in the store once loose modules are
// old.
func checkWhole(t *testing.T, h *hostOf, d kv.Driver) {
	t.Helper()
	list, _, err := h.List(t.Context(), "acme", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range list {
		for _, v := range p.Versions {
			known[v.Digest] = true
		}
	}
	for _, err := range h.Export(t.Context(), "acme") {
		if err != nil {
			t.Errorf("a version is not whole: %v", err)
		}
	}
	library.AgeLoose(t, d, time.Hour)
	h.stop(t)
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rt.Close(context.Background()) }()
	l, err := library.Open(t.Context(), d, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, key := range entries(t, d) {
		elems := strings.Split(key, "/")
		named := len(elems) > 2 && known[strings.Trim(elems[2], `"`)]
		if elems[0] == "loose" || (elems[0] == "module" || elems[0] == "manifest") && !named {
			t.Errorf("the store keeps %s, which no plugin names", key)
		}
	}
}
