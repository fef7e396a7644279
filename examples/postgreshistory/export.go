package postgreshistory

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host"
)

// exportPage is how many messages or turns are read at a time.
const exportPage = 500

// ExportedTurn is a turn of a thread, for another store. Turns that were regenerated are
// not among them.
type ExportedTurn struct {
	Run, Network string
	Messages     int // of the thread after it
	Status       host.FinishReason
	Error        *host.Error
	Usage        host.Usage
	Stored       time.Time
}

// Kept is what a thread keeps beside its messages and turns.
type Kept struct {
	State     json.RawMessage            // nil for none
	Providers map[string]json.RawMessage // of context providers
	Artifacts []*host.Artifact           // the oldest first
}

// Tenants returns the tenants that have threads, in ascending order.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, s.sql(`select distinct tenant from {schema}.threads order by tenant`))
	if err != nil {
		return nil, wrap(err, "list tenants")
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return names, wrap(err, "list tenants")
}

// ExportMessages yields the messages of a thread, the first one first. An error is
// yielded last; code data_loss for a message that cannot be read.
func (s *Store) ExportMessages(ctx context.Context, tenant, thread string) iter.Seq2[*host.Message, error] {
	read := func(ctx context.Context, k key, after int64) (pgx.Rows, error) {
		return s.pool.Query(ctx, s.sql(`select seq, body from {schema}.messages where tenant = $1 and thread = $2 and seq > $3 order by seq limit $4`),
			k.tenant, k.thread, after, exportPage)
	}
	return pages(ctx, tenant, thread, -1, read, func(row pgx.CollectableRow) (seq int64, m *host.Message, err error) {
		var body []byte
		m = &host.Message{}
		if err = row.Scan(&seq, &body); err != nil {
			return seq, nil, err
		}
		if err := m.UnmarshalJSON(body); err != nil {
			return seq, nil, host.Errorf(host.DataLoss, "message %d of thread %q cannot be read: %w", seq, thread, err).WithHint("restore it from a backup")
		}
		return seq, m, nil
	})
}

// ExportTurns yields the turns of a thread, the first one first. An error is yielded last.
func (s *Store) ExportTurns(ctx context.Context, tenant, thread string) iter.Seq2[*ExportedTurn, error] {
	read := func(ctx context.Context, k key, after int64) (pgx.Rows, error) {
		return s.pool.Query(ctx, s.sql(`select turn, run, network, messages, status, error, usage, stored_at from {schema}.turns
			where tenant = $1 and thread = $2 and turn > $3 and taken_back is null order by turn limit $4`), k.tenant, k.thread, after, exportPage)
	}
	return pages(ctx, tenant, thread, 0, read, func(row pgx.CollectableRow) (turn int64, t *ExportedTurn, err error) {
		var failure, usage []byte
		t = &ExportedTurn{}
		if err := row.Scan(&turn, &t.Run, &t.Network, &t.Messages, &t.Status, &failure, &usage, &t.Stored); err != nil {
			return turn, nil, err
		}
		err = json.Unmarshal(usage, &t.Usage)
		if failure != nil && err == nil {
			err = json.Unmarshal(failure, &t.Error)
		}
		if err != nil {
			return turn, nil, host.Errorf(host.DataLoss, "turn %d of thread %q cannot be read: %w", turn, thread, err).WithHint("restore it from a backup")
		}
		return turn, t, nil
	})
}

// pages yields the rows of a table of a thread, in the order of a number.
func pages[T any](ctx context.Context, tenant, thread string, after int64, read func(context.Context, key, int64) (pgx.Rows, error),
	scan func(pgx.CollectableRow) (int64, T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		k, err := keyOf(tenant, thread)
		if err != nil {
			yield(none, err)
			return
		}
		for {
			rows, err := read(ctx, k, after)
			var list []T
			if err == nil {
				list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) {
					n, item, err := scan(row)
					after = max(after, n)
					return item, err
				})
			}
			if err != nil {
				yield(none, wrap(err, "read thread %q", thread))
				return
			}
			for _, item := range list {
				if !yield(item, nil) {
					return
				}
			}
			if len(list) < exportPage {
				return
			}
		}
	}
}

// ExportKept returns the state and the artifacts of a thread. Code not_found if it does
// not exist.
func (s *Store) ExportKept(ctx context.Context, tenant, thread string) (*Kept, error) {
	k, err := keyOf(tenant, thread)
	if err != nil {
		return nil, err
	}
	kept, providers := &Kept{}, []byte(nil)
	err = s.pool.QueryRow(ctx, s.sql(`select state, providers from {schema}.threads where tenant = $1 and id = $2`), k.tenant, k.thread).
		Scan((*[]byte)(&kept.State), &providers)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, host.Errorf(host.NotFound, "there is no thread %q", thread)
	}
	if err != nil {
		return nil, wrap(err, "read thread %q", thread)
	}
	if providers != nil {
		if err := json.Unmarshal(providers, &kept.Providers); err != nil {
			return nil, host.Errorf(host.DataLoss, "what context providers keep in thread %q cannot be read: %w", thread, err).WithHint("restore it from a backup")
		}
	}
	rows, err := s.pool.Query(ctx, s.sql(`select body from {schema}.artifacts where tenant = $1 and thread = $2 order by turn, number`), k.tenant, k.thread)
	if err != nil {
		return nil, wrap(err, "read the artifacts of thread %q", thread)
	}
	kept.Artifacts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*host.Artifact, error) {
		var body []byte
		a := &host.Artifact{}
		if err := row.Scan(&body); err != nil {
			return nil, err
		}
		return a, json.Unmarshal(body, a)
	})
	return kept, wrap(err, "read the artifacts of thread %q", thread)
}
