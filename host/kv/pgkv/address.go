package pgkv

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/agenthost/agenthost/host/kv"
)

// connectTimeout bounds one attempt to connect, if the address does not.
const connectTimeout = 10 * time.Second

const schemaName = `^[a-z_][a-z0-9_]{0,62}$`

// IsAddress reports whether s is written like the address of a database and not like
// the path of a directory.
func IsAddress(s string) bool {
	return strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

// parseAddress returns the settings of the connections and the name of the schema. Its
// errors repeat nothing of the address, in which anything may be a password.
func parseAddress(address string, opts *Options) (*pgxpool.Config, string, error) {
	if !IsAddress(address) && !strings.Contains(address, "=") {
		return nil, "", fmt.Errorf("%w: the address is none of a database; it is like postgres://user:password@host:5432/database", kv.ErrInvalid)
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, "", fmt.Errorf("%w: the address of the database cannot be read; it is like postgres://user:password@host:5432/database, with special characters of the password as %%XX", kv.ErrInvalid)
	}
	params := config.ConnConfig.RuntimeParams
	schema := params["schema"]
	delete(params, "schema")
	if opts.Schema != "" {
		schema = opts.Schema
	}
	if schema == "" {
		schema = DefaultSchema
	}
	if !regexp.MustCompile(schemaName).MatchString(schema) {
		return nil, "", fmt.Errorf("%w: the schema is not a name of lower-case letters, digits and _", kv.ErrInvalid)
	}
	if !strings.Contains(address, "pool_max_conns") {
		config.MaxConns = DefaultConnections
	}
	if config.ConnConfig.ValidateConnect == nil && len(config.ConnConfig.Fallbacks) > 0 {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if params["application_name"] == "" {
		params["application_name"] = "agenthost"
	}
	if opts.OnStatement != nil {
		config.ConnConfig.Tracer = tracer{opts.OnStatement}
	}
	config.AfterConnect = settings(opts)
	return config, schema, nil
}

// settings returns a function that sets up a new connection: its timeouts, and a plan of
// each statement that looks entries up by their key, which does not depend on how many
// entries there were when the statement was planned. A database that does not know a
// planner's setting has none that needs it.
func settings(opts *Options) func(context.Context, *pgx.Conn) error {
	milliseconds := func(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
	timeouts := `select set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false),
		set_config('idle_in_transaction_session_timeout', $1, false)`
	plans := `select set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false),
		set_config('enable_bitmapscan', 'off', false), set_config('jit', 'off', false)`
	return func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, timeouts, milliseconds(statementTimeout(opts)), milliseconds(lockTimeout(opts))); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, plans)
		if answeredError(err) {
			return nil
		}
		return err
	}
}

// placeOf names the database for errors, without credentials.
func placeOf(config *pgx.ConnConfig) string {
	where := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	if strings.HasPrefix(config.Host, "/") {
		where = config.Host
	}
	return fmt.Sprintf("%s, database %q, user %q", where, config.Database, config.User)
}

// tracer calls a function with the text of every statement.
type tracer struct{ on func(sql string) }

var (
	_ pgx.QueryTracer = tracer{}
	_ pgx.BatchTracer = tracer{}
)

// TraceQueryStart implements [pgx.QueryTracer].
func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	t.on(data.SQL)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (t tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (t tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (t tracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	t.on(data.SQL)
}

// TraceBatchEnd implements [pgx.BatchTracer].
func (t tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
