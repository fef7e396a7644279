package postgreshistory

import (
	"cmp"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// The limits that callers meet.
const (
	// DefaultSchema is the schema of the tables.
	DefaultSchema = "agenthost"
	// DefaultWindow is how many messages Get returns at most, from the end.
	DefaultWindow = 2000
	// DefaultMaxWaiting is how many turns of one process may wait for one thread.
	DefaultMaxWaiting = 64
	// DefaultTenant is the tenant of requests that name none.
	DefaultTenant = host.DefaultTenant
	// MaxIDBytes is the longest id of a thread, a run or a message.
	MaxIDBytes = chat.MaxIDBytes
	// MaxTitleRunes is how much of the first input becomes the title.
	MaxTitleRunes = 50
	// DefaultListLimit is how many threads List returns by default, and
	// MaxListLimit how many at most.
	DefaultListLimit = 20
	MaxListLimit     = 1000
)

// Store keeps conversations in a database. Safe for concurrent use.
type Store struct {
	pool       *pgxpool.Pool
	ownsPool   bool
	schema     string // as SQL has it
	window     int
	maxWaiting int
	renewEvery time.Duration // but for tests renewEvery
	logger     *slog.Logger
	locks      lockTable
	held       sync.WaitGroup // leases that are renewed
}

// Options are settings of a store. The zero value of each is its default.
type Options struct {
	// Schema holds the tables ([DefaultSchema]): lower-case letters, digits and _.
	Schema string
	// Window is how many messages Get returns at most, from the end
	// ([DefaultWindow]).
	Window int
	// MaxWaiting is how many turns of this process may wait for one thread in
	// LockThread before the next is refused ([DefaultMaxWaiting]).
	MaxWaiting int
	// MigrationsDisabled leaves the tables unchanged: for a role that may not
	// change them. If they are not of this version, opening fails with code
	// failed_precondition.
	MigrationsDisabled bool
	// Logger receives warnings of lost leases; nil discards.
	Logger *slog.Logger
}

// Open connects to the database that dsn names, as a URL or in keyword form,
// and brings its tables up to date. pool_max_conns in dsn bounds the
// connections, and schema is Options.Schema; behind PgBouncer add
// default_query_exec_mode=exec. The store must be closed.
//
// Code invalid_argument for a dsn that cannot be read, unavailable when the
// server does not answer, unauthenticated when it refuses the role,
// failed_precondition when its encoding is not UTF8 or its tables are newer.
func Open(ctx context.Context, dsn string, opts *Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// pgx quotes the dsn, with its password masked only where it finds it.
		return nil, host.Errorf(host.InvalidArgument, "the address of the database cannot be read").
			WithHint("it is like postgres://user:password@host:5432/database")
	}
	if name := config.ConnConfig.RuntimeParams["schema"]; name != "" { // as an address of pgkv has it
		delete(config.ConnConfig.RuntimeParams, "schema")
		own := Options{}
		if opts != nil {
			own = *opts
		}
		own.Schema = cmp.Or(own.Schema, name)
		opts = &own
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, wrap(err, "connect to the database")
	}
	s, err := New(ctx, pool, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.ownsPool = true
	return s, nil
}

const schemaName = `^[a-z_][a-z0-9_]{0,62}$`

// New is [Open] for a program that has a pool of its own, which Close then does
// not close.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Store, error) {
	if pool == nil {
		panic("postgreshistory.New: pool is nil; make one, or use Open")
	}
	if opts == nil {
		opts = &Options{}
	}
	name := opts.Schema
	if name == "" {
		name = DefaultSchema
	}
	if !regexp.MustCompile(schemaName).MatchString(name) {
		return nil, host.Errorf(host.InvalidArgument, "schema %.80q is not a name of lower-case letters, digits and _", name)
	}
	s := &Store{
		pool: pool, schema: pgx.Identifier{name}.Sanitize(), window: atLeastOne(opts.Window, DefaultWindow), maxWaiting: atLeastOne(opts.MaxWaiting, DefaultMaxWaiting),
		renewEvery: renewEvery, logger: opts.Logger,
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s, unreachable(s.prepare(ctx, name, !opts.MigrationsDisabled), pool.Config().ConnConfig)
}

// atLeastOne returns n, or otherwise if n is below 1.
func atLeastOne(n, otherwise int) int {
	if n < 1 {
		return otherwise
	}
	return n
}

// Close waits until every held thread is given back and closes what Open
// opened. It may be called twice; other methods must not be called after it.
func (s *Store) Close() {
	s.held.Wait()
	if s.ownsPool {
		s.pool.Close()
	}
}

// sql returns a statement with the name of the schema in it.
func (s *Store) sql(statement string) string {
	return strings.ReplaceAll(statement, "{schema}", s.schema)
}

// key is whose thread is meant.
type key struct{ tenant, thread string }

// keyOf checks the names of a request. The empty tenant is [DefaultTenant].
func keyOf(tenant, thread string) (key, error) {
	part, err := host.TenantPartition(tenant)
	if err != nil {
		return key{}, err
	}
	return key{part, thread}, chat.ValidateID("thread", thread, MaxIDBytes)
}

// plain returns s without characters that a text column cannot hold.
func plain(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
}

// titleOf returns the title that a first input gives a thread.
func titleOf(m *host.Message) string {
	n := 0
	text := plain(m.Text())
	for i := range text {
		if n++; n > MaxTitleRunes {
			return text[:i]
		}
	}
	return text
}
