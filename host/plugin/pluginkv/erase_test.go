package pluginkv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
)

// fill has an owner keep items, of which every third expires.
func fill(t *testing.T, d kv.Driver, owner plugin.Owner, items int) {
	t.Helper()
	s := pluginkv.New(d, nil)
	var wg sync.WaitGroup
	for i := range items {
		opts := room
		if i%3 == 0 {
			opts.Expires = time.Now().Add(time.Hour)
		}
		wg.Go(func() {
			if _, err := s.Put(t.Context(), owner, fmt.Sprintf("%04d", i), []byte("v"), opts); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// nothingLeft wants a tenant's partition to be empty.
func nothingLeft(t *testing.T, d kv.Driver, tenant string) {
	t.Helper()
	for e, err := range kv.All(t.Context(), d, tenant, kv.Range{}) {
		t.Errorf("%s is left (%v)", e.Key, err)
	}
}

// stoppingDriver ends a context once it has made so many commits.
type stoppingDriver struct {
	kv.Driver
	left int
	stop context.CancelFunc
}

func (d *stoppingDriver) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	res := d.Driver.Commit(ctx, txs...)
	if d.left--; d.left == 0 {
		d.stop()
	}
	return res
}

// Wherever erasing is stopped, what is left is whole, and erasing again leaves
// nothing. Badger is closed and opened anew in between.
func TestEraseIsInterrupted(t *testing.T) {
	const items = 2*pluginkv.ErasePage + 10
	reopen := map[string]func(*testing.T, string, kv.Driver) kv.Driver{
		"memory": func(t *testing.T, _ string, d kv.Driver) kv.Driver {
			if d == nil {
				return memory(t)
			}
			return d
		},
		"badger": func(t *testing.T, dir string, d kv.Driver) kv.Driver {
			if d != nil {
				closeDriver(t, d)
			}
			return openBadger(t, dir)
		},
	}
	for name, open := range reopen {
		for stop := 1; stop <= 2; stop++ {
			t.Run(fmt.Sprintf("%s after %d", name, stop), func(t *testing.T) {
				dir := t.TempDir()
				d := open(t, dir, nil)
				fill(t, d, acme, items)

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				n, err := pluginkv.New(&stoppingDriver{d, stop, cancel}, nil).Erase(ctx, acme)
				if want := stop * pluginkv.ErasePage; !errors.Is(err, context.Canceled) || n.Items != want {
					t.Errorf("stopped after %d pages: %+v, %v, want %d items", stop, n, err, want)
				}

				d = open(t, dir, d)
				checkUsage(t, d)
				left := items - n.Items
				if n, err := pluginkv.New(d, nil).Erase(t.Context(), acme); n.Items != left || err != nil {
					t.Errorf("again: %+v, %v, want %d items", n, err, left)
				}
				nothingLeft(t, d, "acme")
			})
		}
	}
}

// A tenant without plugins that keep anything is left alone in all else that
// is stored for it.
func TestEraseTenantKeepsTheRest(t *testing.T) {
	d := memory(t)
	other := kv.NewKey("plugins", "p")
	if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(other, nil)}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "a\xff", "b", "p"} {
		fill(t, d, plugin.Owner{Tenant: "acme", Plugin: id}, 3)
	}
	if n, err := pluginkv.New(d, nil).EraseTenant(t.Context(), "acme"); n.Items != 12 || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	for e, err := range kv.All(t.Context(), d, "acme", kv.Range{}) {
		if e.Key != other {
			t.Errorf("%s is left (%v)", e.Key, err)
		}
	}
	if _, err := d.Get(t.Context(), "acme", other); err != nil {
		t.Errorf("what is no plugin's: %v", err)
	}
}

// Items that cannot be read go, with all that is stored because of them.
func TestEraseWhatIsDamaged(t *testing.T) {
	d := memory(t)
	fill(t, d, acme, 6)
	at := kv.NewKey("plugin", "p", "item")
	for e, err := range kv.All(t.Context(), d, "acme", kv.Range{Prefix: at}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(e.Key, e.Value[:3])}}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := pluginkv.New(d, nil).Erase(t.Context(), acme); n.Items != 6 || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	nothingLeft(t, d, "acme")
}

// A record of how much there is that cannot be read keeps nobody from erasing, in
// however many pieces.
func TestEraseWhatHasADamagedUsage(t *testing.T) {
	d := memory(t)
	fill(t, d, acme, 1200)
	usage := kv.NewKey("plugin", "p", "usage")
	e, err := d.Get(t.Context(), "acme", usage)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(usage, e.Value[:2])}}); err != nil {
		t.Fatal(err)
	}
	s := pluginkv.New(d, nil)
	if _, err := s.Put(t.Context(), acme, "k", nil, room); host.CodeOf(err) != host.DataLoss {
		t.Errorf("Put: %v, want code %s", err, host.DataLoss)
	}
	if n, err := s.Erase(t.Context(), acme); n.Items != 1200 || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	nothingLeft(t, d, "acme")
}

// Who writes through another store meanwhile loses nothing but what was there
// before, and if that never ends, erasing does.
func TestEraseWhileOthersWrite(t *testing.T) {
	d := memory(t)
	fill(t, d, acme, 10)
	other := pluginkv.New(d, nil)
	put := func(n int) {
		if _, err := other.Put(t.Context(), acme, fmt.Sprint("new", n), nil, room); err != nil {
			t.Error(err)
		}
	}
	commits, busy := 0, false
	between := &faultyDriver{Driver: d, before: func() {
		if commits++; busy || commits == 1 {
			put(commits)
		}
	}}
	s := pluginkv.New(between, nil)
	if n, err := s.Erase(t.Context(), acme); n.Items != 11 || err != nil {
		t.Errorf("with a write in between: %+v, %v, want 11 items", n, err)
	}
	put(0)
	busy = true
	if _, err := s.Erase(t.Context(), acme); host.CodeOf(err) != host.Unavailable {
		t.Errorf("with one before each commit: %v, want code %s", err, host.Unavailable)
	}
	checkUsage(t, d)
}
