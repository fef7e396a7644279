package erasure_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// stores are those that a tenant can be deleted from.
func stores(t *testing.T) map[string]interface {
	kv.Driver
	kv.Eraser
} {
	t.Helper()
	db, err := badgerkv.Open(filepath.Join(t.TempDir(), "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return map[string]interface {
		kv.Driver
		kv.Eraser
	}{"memory": kv.NewMemory(), "badger": db}
}

func put(t *testing.T, d kv.Driver, tenant string) {
	t.Helper()
	if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("k", []byte("v"))}}); err != nil {
		t.Fatal(err)
	}
}

// shelf is a part that fails as often as it is told.
type shelf struct {
	kept  map[string]int
	fails int
	reads func(tenant string) error // what a reader meets while the part is erased
}

func (s *shelf) part() erasure.Part {
	return erasure.Func{What: "shelf",
		EraseFunc: func(_ context.Context, tenant string) error {
			if s.reads != nil {
				if err := s.reads(tenant); err != nil {
					return err
				}
			}
			if s.fails > 0 {
				s.fails--
				return errors.New("stuck")
			}
			delete(s.kept, tenant)
			return nil
		},
		FindFunc: func(_ context.Context, tenant string) (int, error) { return s.kept[tenant], nil },
	}
}

func TestDeleteRemovesATenantEverywhere(t *testing.T) {
	for name, d := range stores(t) {
		t.Run(name, func(t *testing.T) {
			put(t, d, "acme")
			put(t, d, "globex")
			s := &shelf{kept: map[string]int{"acme": 2, "globex": 3}}
			s.reads = func(tenant string) error {
				if _, err := d.Get(t.Context(), tenant, "k"); !errors.Is(err, kv.ErrNotFound) {
					return fmt.Errorf("a read meanwhile = %v", err)
				}
				if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("k", nil)}}); !errors.Is(err, kv.ErrErasing) {
					return fmt.Errorf("a write meanwhile = %v", err)
				}
				return nil
			}
			all := erasure.New(d, s.part())
			if r, err := all.Prove(t.Context(), "acme"); err != nil || r.Gone || r.Store.Readable != 1 || r.Parts[0].Found != 2 {
				t.Errorf("Prove before = %+v, %v", r, err)
			}
			if err := all.Delete(t.Context(), "acme"); err != nil {
				t.Fatalf("Delete = %v", err)
			}
			if r, err := all.Prove(t.Context(), "acme"); err != nil || !r.Gone || r.Store.ErasedAt == nil {
				t.Errorf("Prove after = %+v, %v", r, err)
			}
			if r, err := all.Prove(t.Context(), "globex"); err != nil || r.Gone || r.Store.Readable != 1 || r.Parts[0].Found != 3 {
				t.Errorf("Prove of another = %+v, %v", r, err)
			}
		})
	}
}

func TestADeletionThatFailedIsResumed(t *testing.T) {
	for name, d := range stores(t) {
		t.Run(name, func(t *testing.T) {
			put(t, d, "acme")
			s := &shelf{kept: map[string]int{"acme": 1}, fails: 2}
			all := erasure.New(d, s.part())
			if err := all.Delete(t.Context(), "acme"); err == nil {
				t.Fatal("Delete reports no error of a part")
			}
			if r, err := all.Prove(t.Context(), "acme"); err != nil || r.Gone || !r.Store.Erasing {
				t.Errorf("Prove = %+v, %v, want that it is being erased", r, err)
			}
			if err := all.Resume(t.Context()); err == nil {
				t.Error("Resume reports no error of a part")
			}
			if err := erasure.New(d, s.part()).Resume(t.Context()); err != nil {
				t.Errorf("Resume = %v", err)
			}
			if r, err := all.Prove(t.Context(), "acme"); err != nil || !r.Gone {
				t.Errorf("Prove after Resume = %+v, %v", r, err)
			}
		})
	}
}

func TestDeleteOfABadName(t *testing.T) {
	long := string(make([]byte, kv.MaxPartitionBytes+1))
	for _, name := range []string{long, "agenthost/queue"} {
		if err := erasure.New(kv.NewMemory()).Delete(t.Context(), name); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("Delete of %.20q = %v, want invalid_argument", name, err)
		}
	}
}

// An administrator deletes a tenant again while a sweep resumes its deletion, and then
// gives the name to another customer.
func TestResumeLeavesATenantThatWasMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := kv.NewMemory()
		put(t, d, "acme")
		put(t, d, "globex")
		s := &shelf{}
		all := erasure.New(d, s.part())
		for _, tenant := range []string{"acme", "globex"} { // a process ended during both deletions
			if err := d.BeginErase(t.Context(), tenant); err != nil {
				t.Fatal(err)
			}
		}
		s.reads = func(string) error {
			s.reads = nil
			go func() {
				if err := all.Delete(t.Context(), "globex"); err != nil {
					t.Errorf("Delete = %v", err)
				}
				put(t, d, "globex")
			}()
			synctest.Wait()
			return nil
		}
		if err := all.Resume(t.Context()); err != nil {
			t.Errorf("Resume = %v", err)
		}
		synctest.Wait()
		if _, err := d.Get(t.Context(), "globex", "k"); err != nil {
			t.Errorf("Get of what the next tenant of that name wrote = %v", err)
		}
		if _, err := d.Get(t.Context(), "acme", "k"); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("Get of the deleted tenant = %v", err)
		}
	})
}

// slowLast is a store whose host is held up between its last look at a deletion and its end.
type slowLast struct {
	*kv.Memory
	looks     int // until then
	meanwhile func()
}

func (s *slowLast) Erasing(ctx context.Context) ([]string, error) {
	names, err := s.Memory.Erasing(ctx)
	if s.looks--; s.looks == 0 {
		s.meanwhile()
	}
	return names, err
}

// Another host completes the deletion when this one has looked for the last time, and another
// customer gets the name.
func TestTheEndOfADeletionLeavesATenantThatWasMadeAgain(t *testing.T) {
	d := kv.NewMemory()
	put(t, d, "acme")
	s := &slowLast{Memory: d, looks: 1, meanwhile: func() {
		if err := erasure.New(d).Delete(t.Context(), "acme"); err != nil {
			t.Errorf("Delete by the other host = %v", err)
		}
		put(t, d, "acme")
	}}
	if err := erasure.New(s).Delete(t.Context(), "acme"); err != nil {
		t.Errorf("Delete = %v", err)
	}
	if _, err := d.Get(t.Context(), "acme", "k"); err != nil || s.looks != 0 {
		t.Errorf("Get of what the next tenant of that name wrote = %v, after a look: %t", err, s.looks == 0)
	}
}

// Another host of a shared store completes the deletion while a part of it is erased here,
// and another customer gets the name.
func TestDeleteLeavesATenantThatWasMadeAgainOnAnotherHost(t *testing.T) {
	d := kv.NewMemory()
	put(t, d, "acme")
	here := &shelf{}
	late := &shelf{kept: map[string]int{"acme": 1}}
	here.reads = func(tenant string) error {
		if err := erasure.New(d).Delete(t.Context(), tenant); err != nil {
			t.Errorf("Delete by the other host = %v", err)
		}
		put(t, d, tenant)
		return nil
	}
	if err := erasure.New(d, here.part(), late.part()).Delete(t.Context(), "acme"); err != nil {
		t.Errorf("Delete = %v", err)
	}
	if _, err := d.Get(t.Context(), "acme", "k"); err != nil || late.kept["acme"] != 1 {
		t.Errorf("Get of what the next tenant of that name wrote = %v, and its part has %d", err, late.kept["acme"])
	}
}
