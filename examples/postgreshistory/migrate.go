package postgreshistory

import (
	"context"
	"embed"
	"io/fs"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations are the steps, the first one first. A step that was released is
// never changed: a change is another step.
func migrations() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	steps := make([]string, len(names))
	for i, name := range names {
		raw, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		steps[i] = string(raw)
	}
	return steps, nil
}

// prepare makes sure that the tables are those of this version. Tables that are
// up to date are only looked at, so a role without rights to change them will do.
func (s *Store) prepare(ctx context.Context, schema string, migrate bool) error {
	steps, err := migrations()
	if err != nil {
		return host.Errorf(host.Internal, "read the steps to this version's tables: %w", err)
	}
	var encoding string
	if err := s.pool.QueryRow(ctx, "show server_encoding").Scan(&encoding); err != nil {
		return wrap(err, "ask the database for its encoding")
	}
	if encoding != "UTF8" {
		return host.Errorf(host.FailedPrecondition, "the database has encoding %s, not UTF8", encoding).
			WithHint("create one with: createdb --encoding UTF8 --template template0 NAME")
	}
	version, err := s.version(ctx, s.pool, schema)
	if err != nil {
		return err
	}
	switch {
	case version > len(steps):
		return errNewer(schema, version, len(steps))
	case version == len(steps):
		return nil
	case !migrate:
		return host.Errorf(host.FailedPrecondition, "the tables in schema %q are of version %d, not %d", schema, version, len(steps)).
			WithHint("start once with a role that may change them, or enable migrations")
	}
	return s.migrate(ctx, schema, steps)
}

func errNewer(schema string, version, known int) error {
	return host.Errorf(host.FailedPrecondition, "the tables in schema %q are of version %d; this program knows %d", schema, version, known).
		WithHint("use a newer program; the tables were not touched")
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns which step the tables are of, 0 before the first.
func (s *Store) version(ctx context.Context, q querier, schema string) (int, error) {
	var exists bool
	err := q.QueryRow(ctx, `select exists (select from pg_catalog.pg_tables where schemaname = $1 and tablename = 'migrations')`, schema).Scan(&exists)
	version := 0
	if err == nil && exists {
		err = q.QueryRow(ctx, s.sql(`select coalesce(max(version), 0) from {schema}.migrations`)).Scan(&version)
	}
	return version, wrap(err, "read the version of the tables")
}

// migrate takes the missing steps. A lock lets one program do it at a time.
func (s *Store) migrate(ctx context.Context, schema string, steps []string) error {
	return s.transaction(ctx, "bring the tables up to date", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended('agenthost migrations ' || $1, 0))`, schema); err != nil {
			return err
		}
		version, err := s.version(ctx, tx, schema) // another one may have been faster
		if err != nil {
			return err
		}
		if version > len(steps) {
			return errNewer(schema, version, len(steps))
		}
		if version == 0 {
			if _, err := tx.Exec(ctx, s.sql(`
				create schema if not exists {schema};
				create table if not exists {schema}.migrations (
					version int primary key, applied_at timestamptz not null default clock_timestamp())`)); err != nil {
				return err
			}
		}
		for i := version; i < len(steps); i++ {
			if _, err := tx.Exec(ctx, s.sql(steps[i])); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, s.sql(`insert into {schema}.migrations (version) values ($1)`), i+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// transaction runs fn in a transaction.
func (s *Store) transaction(ctx context.Context, doing string, fn func(pgx.Tx) error) error {
	return wrap(pgx.BeginFunc(ctx, s.pool, fn), "%s", doing)
}
