package tenants

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Eraser removes all data of a tenant. *erasure.Tenants is one; the Store is one of its
// parts.
type Eraser interface {
	Delete(ctx context.Context, tenant string) error
}

// Delete deletes a tenant with all of its data: its status is Deleting from now on, its
// runs are canceled, and its record goes when the data has gone. A deletion that fails, or
// that the process does not survive, is completed by Delete or by
// [Store.ResumeDeletions]. The id may be used again afterwards. Codes: not_found, and
// those of the eraser.
func (s *Store) Delete(ctx context.Context, id string, eraser Eraser) error {
	if err := checkID(id); err != nil {
		return err
	}
	_, err := s.write(ctx, id, func(t *Tenant) (*Tenant, error) {
		if t == nil {
			return nil, errNoTenant(id)
		}
		t.Status, t.Reason = Deleting, ""
		return t, nil
	})
	if err != nil {
		return err
	}
	return s.complete(ctx, id, eraser)
}

func (s *Store) complete(ctx context.Context, id string, eraser Eraser) error {
	if err := eraser.Delete(ctx, id); err != nil {
		return err
	}
	if left, err := s.isDeleting(ctx, id); err != nil || !left {
		return err
	}
	return s.Erase(ctx, id) // the Store is no part of the eraser
}

// isDeleting reports whether the deletion of a tenant has not been completed, by this host
// or another one: after it the id may be in use again.
func (s *Store) isDeleting(ctx context.Context, id string) (bool, error) {
	t, _, err := s.read(ctx, id)
	return t != nil && t.Status == Deleting, kverror.Wrap(err, "look for tenant %q", id)
}

// ResumeDeletions completes the deletions of tenants that were interrupted, on any host. If
// one fails, it continues with the others.
func (s *Store) ResumeDeletions(ctx context.Context, eraser Eraser) error {
	s.mu.RLock()
	var begun []string
	for id, t := range s.byID {
		if t.Status == Deleting {
			begun = append(begun, id)
		}
	}
	s.mu.RUnlock()
	slices.Sort(begun)
	var errs []error
	for _, id := range begun {
		left, err := s.isDeleting(ctx, id) // still: the deletions before it may have taken long
		if left {
			err = s.complete(ctx, id, eraser)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Name implements the Part of package host/erasure.
func (s *Store) Name() string { return "tenant" }

// Erase removes the record of a tenant. It is for the eraser of [Store.Delete].
func (s *Store) Erase(ctx context.Context, id string) error {
	if id == host.DefaultTenant { // it has no record
		return nil
	}
	if err := checkID(id); err != nil {
		return err
	}
	for range maxAttempts {
		present, revision, err := s.read(ctx, id)
		if err != nil {
			return kverror.Wrap(err, "erase tenant %q", id)
		}
		if present != nil {
			row := tenantRows.With(id)
			_, err = s.commit(ctx, id, -1, kv.AtRevision(row, revision), kv.Delete(row))
		}
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		if err == nil {
			s.take(ctx, id, nil)
			s.mu.Lock()
			if s.byID[id] == nil {
				s.noteDeletion(id) // also of a tenant without a record
			}
			s.mu.Unlock()
		}
		return kverror.Wrap(err, "erase tenant %q", id)
	}
	return fault.Errorf(fault.Unavailable, "other hosts have changed the tenants first, %d times", maxAttempts).WithHint("try again")
}

// Find counts the records of a tenant: 0 or 1.
func (s *Store) Find(ctx context.Context, id string) (int, error) {
	t, _, err := s.read(ctx, id)
	if err != nil || t == nil {
		return 0, kverror.Wrap(err, "look for tenant %q", id)
	}
	return 1, nil
}

// Records are the records of tenants, as a part of the deletion of package host/erasure in
// a program that has no [Store] open. They are safe for concurrent use.
type Records struct{ store Store }

// NewRecords returns the records on a driver.
func NewRecords(driver kv.Driver) *Records {
	return &Records{Store{driver: kv.Checked(driver), byID: map[string]*Tenant{}, deleted: map[string]time.Time{}}}
}

// Name implements the Part of package host/erasure.
func (r *Records) Name() string { return r.store.Name() }

// Erase removes the record of a tenant.
func (r *Records) Erase(ctx context.Context, id string) error { return r.store.Erase(ctx, id) }

// Find counts the records of a tenant: 0 or 1.
func (r *Records) Find(ctx context.Context, id string) (int, error) { return r.store.Find(ctx, id) }

// Exporter yields a part of a tenant's data, in a form of its own.
type Exporter struct {
	Part   string // its name in the export, such as "usage"
	Export func(ctx context.Context, tenant string) iter.Seq2[any, error]
}

// line is a line of an export.
type line struct {
	Part string `json:"part"`
	Data any    `json:"data"`
}

// Export writes a tenant's record, and then the data of each exporter, as lines of JSON:
// {"part":"tenant","data":{...}}. The first error ends it; lines before it stay
// readable. Codes are not_found and those of the exporters.
func (s *Store) Export(ctx context.Context, id string, w io.Writer, parts ...Exporter) error {
	t, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line{"tenant", t}); err != nil {
		return fault.Wrap(err, "export tenant %q", id)
	}
	for _, p := range parts {
		for data, err := range p.Export(ctx, id) {
			if err == nil {
				err = enc.Encode(line{p.Part, data})
			}
			if err != nil {
				return fault.Wrap(err, "export %s of tenant %q", p.Part, id)
			}
		}
	}
	return nil
}
