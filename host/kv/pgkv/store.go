package pgkv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/internal/datakey"
)

// The limits of a store that its options or address do not set.
const (
	// DefaultSchema is the schema of the tables.
	DefaultSchema = "agenthost_kv"
	// DefaultConnections is the most connections of a store.
	DefaultConnections = 8
	// DefaultPatience is how long a call tries to reach the database.
	DefaultPatience = 20 * time.Second
	// OpenPatience is how long Open tries to reach the database, if the connect_timeout of
	// the address is not longer and Options.Patience not shorter: a wrong address is more
	// likely than an outage.
	OpenPatience = 5 * time.Second
	// DefaultStatementTimeout is after how long the database ends a statement.
	DefaultStatementTimeout = 30 * time.Second
	// DefaultLockTimeout is how long a statement waits for a lock.
	DefaultLockTimeout = 10 * time.Second
)

// Options are settings of a store. The zero value is the default of each.
type Options struct {
	// Schema holds the tables: lower-case letters, digits and _. "" is the "schema" of
	// the address, or [DefaultSchema].
	Schema string
	// MigrationsDisabled leaves the tables unchanged, for a role that may not change
	// them: Open fails with [kv.ErrFormat] unless they are of this version.
	MigrationsDisabled bool
	// Key encrypts the values with AES, each under the data key of its partition, and
	// the data keys with it: 16, 24 or 32 bytes. nil does not encrypt. Tables keep the
	// key that they were made with. The keys of entries and the names of partitions are
	// in clear.
	Key []byte
	// Patience is how long a call tries again while the database cannot be reached or
	// others are in the way. 0 is [DefaultPatience].
	Patience time.Duration
	// StatementTimeout is after how long the database ends a statement, and LockTimeout
	// how long one waits for a lock. 0 is [DefaultStatementTimeout] and
	// [DefaultLockTimeout].
	StatementTimeout, LockTimeout time.Duration
	// PollInterval is how often a store with watches ([Store.Watch]) asks for commits of
	// other processes, whose notifications may be lost. 0 is [DefaultPollInterval].
	PollInterval time.Duration
	// OnStatement is called with the text of every statement before it is sent, from
	// the goroutine that sends it: it counts them, for example. It may be nil.
	OnStatement func(sql string)
	// Logger receives warnings of broken connections; nil discards them.
	Logger *slog.Logger
}

// Store is a [kv.Driver] over a database. Any number of processes may have stores over
// the same tables.
type Store struct {
	pool     *pgxpool.Pool
	sql      statements
	schema   string
	patience time.Duration
	timeout  time.Duration // of one statement, as seen from here
	logger   *slog.Logger
	lanes    lanes
	watcher  *watcher
	keys     *keyring
	keyCheck []byte // of the tables, nil in those that are not encrypted

	mu     sync.RWMutex // held for reading during a call, for writing by Close
	closed bool
}

var _ kv.Driver = (*Store)(nil)

// Open connects to the database at an address, "postgres://user:password@host/database"
// or in keyword form ("host=... user=..."), and makes or migrates its tables. nil
// options are the defaults. The caller closes the store. No error has any part of the
// address but its host, port, user and database.
//
// The address may have what libpq understands, sslmode and sslrootcert among it, and
// pool_max_conns, the most connections; "schema" names the schema of the tables. A
// connect_timeout longer than [OpenPatience] is how long Open tries.
//
// Errors: [kv.ErrInvalid] for an address that cannot be read, or a database that does
// not exist; [kv.ErrUnavailable] if no server answers there within that time, or
// Options.Patience if that is shorter;
// [kv.ErrDenied] if the server refuses the role, or the role lacks a right;
// [kv.ErrReadOnly] if the database takes no writes; [kv.ErrFormat] if its tables are
// those of a newer version, or of an older one that may not be migrated; [kv.ErrKey] if
// Options.Key is not the key of the tables.
func Open(ctx context.Context, address string, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	config, schema, err := parseAddress(address, opts)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	keys, err := newKeyring(opts.Key)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	where := placeOf(config.ConnConfig)
	patience := max(OpenPatience, config.ConnConfig.ConnectTimeout)
	if opts.Patience > 0 {
		patience = min(patience, opts.Patience)
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTimeout)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open store at %s: %w", where, translate(err))
	}
	s := &Store{
		pool: pool, sql: statementsOf(schema), schema: schema, patience: patienceOf(opts),
		keys: keys, timeout: statementTimeout(opts) + lockTimeout(opts), logger: opts.Logger,
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.watcher = newWatcher(s, config.ConnConfig, opts.PollInterval)
	err = s.reach(ctx, patience)
	if err == nil {
		err = s.prepare(ctx, !opts.MigrationsDisabled)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open store at %s: %w", where, err)
	}
	return s, nil
}

func patienceOf(opts *Options) time.Duration {
	if opts.Patience > 0 {
		return opts.Patience
	}
	return DefaultPatience
}

func statementTimeout(opts *Options) time.Duration {
	if opts.StatementTimeout > 0 {
		return opts.StatementTimeout
	}
	return DefaultStatementTimeout
}

func lockTimeout(opts *Options) time.Duration {
	if opts.LockTimeout > 0 {
		return opts.LockTimeout
	}
	return DefaultLockTimeout
}

// Close implements [kv.Driver].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.watcher.close()
	s.pool.Close()
	return nil
}

// enter begins a call, which the caller ends with s.mu.RUnlock if enter returned nil.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return kv.ErrClosed
	}
	return nil
}

// Get implements [kv.Driver].
func (s *Store) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	if err := kv.ValidateKey(partition, key); err != nil {
		return kv.Entry{}, fmt.Errorf("get: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return kv.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	defer s.mu.RUnlock()
	e := kv.Entry{Key: key}
	err := unsealed(func() error {
		return s.repeat(ctx, func(ctx context.Context) error {
			var id int64
			var dataKey int
			err := s.pool.QueryRow(ctx, s.sql.get, []byte(partition), []byte(key)).Scan(&e.Revision, &e.Value, &id, &dataKey)
			if err == nil {
				e.Value, err = s.unseal(ctx, partition, id, dataKey, key, e.Value)
			}
			return err
		})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = kv.ErrNotFound
	}
	if err != nil {
		return kv.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	return e, nil
}

// Scan implements [kv.Driver].
func (s *Store) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	if err := r.Validate(partition); err != nil {
		return kv.Page{}, fmt.Errorf("scan: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return kv.Page{}, fmt.Errorf("scan %s: %w", r.Prefix, err)
	}
	defer s.mu.RUnlock()
	var page kv.Page
	err := unsealed(func() error {
		return s.repeat(ctx, func(ctx context.Context) (err error) {
			page, err = s.scan(ctx, partition, r)
			return err
		})
	})
	if err != nil {
		return kv.Page{}, fmt.Errorf("scan %s: %w", r.Prefix, err)
	}
	return page, nil
}

// scan reads one page in one statement.
func (s *Store) scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	low, high := r.Bounds()
	if high != "" && low >= high {
		return kv.Page{}, nil
	}
	limit := r.Limit
	if limit == 0 {
		limit = kv.DefaultScanLimit
	}
	// One row more than the page has says whether more follow.
	size := kv.MaxScanBytes
	if s.keys.seals() { // the rows are longer than the entries, whose bytes end the page
		size += (limit + 1) * datakey.Overhead
	}
	args := []any{[]byte(partition), []byte(low), limit + 1, size}
	if high != "" {
		args = append(args, []byte(high))
	}
	rows, err := s.pool.Query(ctx, s.sql.scan[scanForm{high != "", r.Reverse}], args...)
	if err != nil {
		return kv.Page{}, err
	}
	defer rows.Close()
	b := kv.NewPageBuilder(r)
	var read []sealedEntry
	for rows.Next() {
		var e sealedEntry
		var key []byte
		if err := rows.Scan(&key, &e.Revision, &e.Value, &e.partition, &e.dataKey); err != nil {
			return kv.Page{}, err
		}
		e.Key = kv.Key(key)
		read = append(read, e)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return kv.Page{}, err
	}
	for _, e := range read { // the connection is free for the statement that reads a data key
		if !b.Room() {
			break
		}
		value, err := s.unseal(ctx, partition, e.partition, e.dataKey, e.Key, e.Value)
		if errors.Is(err, kv.ErrCorrupt) {
			err = &kv.EntryError{Key: e.Key, Err: err}
		}
		if err != nil {
			return kv.Page{}, err
		}
		e.Value = value
		b.Add(e.Entry)
	}
	return b.Page(), nil
}

// sealedEntry is an entry as its row has it.
type sealedEntry struct {
	kv.Entry
	partition int64
	dataKey   int
}
