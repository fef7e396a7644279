package pgkv

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host/kv"
)

// eraseRows is how many entries an erasure deletes in one statement.
const eraseRows = 1000

var _ kv.Eraser = (*Store)(nil)

// beginEraseSQL marks a partition and destroys its data keys. It waits for a commit that
// holds the partition's row, and later commits find the mark.
const beginEraseSQL = `
with marked as (
	update {schema}.partitions p set erasing = true, revision = p.revision + 1 where p.name = $1 returning p.id
), destroyed as (
	delete from {schema}.data_keys k using marked m where k.partition = m.id
)
select m.id from marked m`

const isErasingSQL = `select p.id from {schema}.partitions p where p.name = $1 and p.erasing`

const eraseSQL = `
delete from {schema}.entries e
where e.partition = $1 and e.key in (select f.key from {schema}.entries f where f.partition = $1 order by f.key limit $2)`

// floorSQL keeps the revisions of a partition that is made again under the same name
// above those that it had.
const floorSQL = `
update {schema}.meta set floor = greatest(floor, (select coalesce(max(p.revision), 0) from {schema}.partitions p where p.id = $1))`

const endEraseSQL = `
with gone as (
	delete from {schema}.partitions p where p.id = $1 and p.erasing returning p.id
)
insert into {schema}.erased as e (digest, at) select $2::bytea, now() where exists (select from gone)
on conflict (digest) do update set at = excluded.at`

const erasingSQL = `select p.name from {schema}.partitions p where p.erasing order by p.name`

// proveSQL counts entries. Those without a partition are of none that is in use, so they
// count as those of the partition that is looked for.
const proveSQL = `
select count(*),
	count(*) filter (where e.partition = w.id or not exists (select from {schema}.partitions p where p.id = e.partition)),
	count(*) filter (where e.partition = w.id and not w.erasing)
from {schema}.entries e left join {schema}.partitions w on w.name = $1`

const statusSQL = `
select coalesce(bool_or(p.erasing), false), count(k.id) > 0, (select e.at from {schema}.erased e where e.digest = $2)
from {schema}.partitions p left join {schema}.data_keys k on k.partition = p.id where p.name = $1`

const sizeSQL = `
select count(*), coalesce(sum(pg_total_relation_size(c.oid)), 0)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relkind = 'r'`

const saltSQL = `select m.salt from {schema}.meta m`

// BeginErase implements [kv.Eraser].
func (s *Store) BeginErase(ctx context.Context, partition string) error {
	if err := kv.ValidateKey(partition, "k"); err != nil {
		return fmt.Errorf("begin to erase partition: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("begin to erase partition: %w", err)
	}
	defer s.mu.RUnlock()
	err := s.repeat(ctx, func(ctx context.Context) error {
		if _, err := s.pool.Exec(ctx, s.sql.ensure, [][]byte{[]byte(partition)}); err != nil {
			return err
		}
		tag, err := s.pool.Exec(ctx, s.sql.beginErase, []byte(partition))
		if err == nil && tag.RowsAffected() == 0 { // another erasure of it has ended between the two
			return errOvertaken
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("begin to erase partition: %w", err)
	}
	return nil
}

// Erase implements [kv.Eraser]. It deletes the entries a thousand at a time. Deleted rows
// leave the files of the database when it vacuums, see the package's comment.
func (s *Store) Erase(ctx context.Context, partition string) error {
	if err := s.BeginErase(ctx, partition); err != nil {
		return err
	}
	return s.CompleteErase(ctx, partition)
}

// CompleteErase implements [kv.Eraser]. It erases the partition by its number, which no later
// one of the name has.
func (s *Store) CompleteErase(ctx context.Context, partition string) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("erase partition: %w", err)
	}
	defer s.mu.RUnlock()
	var id int64
	err := s.repeat(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.sql.isErasing, []byte(partition)).Scan(&id)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = s.erase(ctx, partition, id)
	}
	if err != nil {
		return fmt.Errorf("erase partition: %w", err)
	}
	return nil
}

func (s *Store) erase(ctx context.Context, partition string, id int64) error {
	for left := true; left; {
		err := s.repeat(ctx, func(ctx context.Context) error {
			tag, err := s.pool.Exec(ctx, s.sql.erase, id, eraseRows)
			left = tag.RowsAffected() > 0
			return err
		})
		if err != nil {
			return err
		}
	}
	digest, err := s.digest(ctx, partition)
	if err != nil {
		return err
	}
	return s.repeat(ctx, func(ctx context.Context) error {
		if _, err := s.pool.Exec(ctx, s.sql.floor, id); err != nil {
			return err
		}
		_, err := s.pool.Exec(ctx, s.sql.endErase, id, digest)
		return err
	})
}

// digest returns the digest by which the database remembers an erased partition.
func (s *Store) digest(ctx context.Context, partition string) ([]byte, error) {
	var salt []byte
	err := s.repeat(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.sql.salt).Scan(&salt)
	})
	sum := sha256.Sum256(append(salt, partition...))
	return sum[:], err
}

// Erasing implements [kv.Eraser].
func (s *Store) Erasing(ctx context.Context) (names []string, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("list the partitions that are being erased: %w", err)
	}
	defer s.mu.RUnlock()
	err = s.repeat(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, s.sql.erasing)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			var name []byte
			err := row.Scan(&name)
			return string(name), err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the partitions that are being erased: %w", err)
	}
	return names, nil
}

// Prove implements [kv.Eraser]. It reads every row of the entries. Files is 0, Tables the
// number of tables, and Bytes their size; rows that were deleted and not yet vacuumed
// are in the size and not in the counts.
func (s *Store) Prove(ctx context.Context, partition string) (*kv.Proof, error) {
	if err := kv.ValidateKey(partition, "k"); err != nil {
		return nil, fmt.Errorf("prove the erasure of a partition: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("prove the erasure of a partition: %w", err)
	}
	defer s.mu.RUnlock()
	p, err := s.prove(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("prove the erasure of a partition: %w", err)
	}
	return p, nil
}

func (s *Store) prove(ctx context.Context, partition string) (*kv.Proof, error) {
	digest, err := s.digest(ctx, partition)
	if err != nil {
		return nil, err
	}
	p, name := &kv.Proof{}, []byte(partition)
	var at *time.Time
	if err := s.count(ctx, name, p); err != nil {
		return nil, err
	}
	err = s.repeat(ctx, func(ctx context.Context) error {
		if err := s.pool.QueryRow(ctx, s.sql.status, name, digest).Scan(&p.Erasing, &p.DataKey, &at); err != nil {
			return err
		}
		err := s.pool.QueryRow(ctx, sizeSQL, s.schema).Scan(&p.Tables, &p.Bytes)
		if answeredError(err) { // a database without PostgreSQL's functions for sizes
			return nil
		}
		return err
	})
	if at != nil {
		utc := at.UTC()
		p.ErasedAt = &utc
	}
	return p, err
}

// count reads every entry, which may take longer than a statement may.
func (s *Store) count(ctx context.Context, name []byte, p *kv.Proof) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local statement_timeout = 0`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `set local enable_seqscan = on`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, s.sql.prove, name).Scan(&p.Scanned, &p.Found, &p.Readable)
	})
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return translate(err)
}
