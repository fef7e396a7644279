package postgreshistory

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// Thread describes a thread without its messages.
type Thread struct {
	ID       string    `json:"id"`
	Title    string    `json:"title,omitempty"` // the first 50 characters of the first input
	Created  time.Time `json:"created_at"`
	Updated  time.Time `json:"updated_at"` // of the last message or turn
	Head     string    `json:"head"`
	Messages int       `json:"messages"`
	Turns    int       `json:"turns"`
	// Status is how the last turn ended; empty before the first.
	Status host.FinishReason `json:"status,omitempty"`
}

// ListOptions say which threads List returns.
type ListOptions struct {
	Limit  int    // [DefaultListLimit] if it is below 1, [MaxListLimit] at most
	Cursor string // Page.Next of the page before
}

// Page is a piece of a list.
type Page struct {
	Threads []Thread `json:"threads"`
	Next    string   `json:"next,omitempty"` // the cursor of the next page; empty at the end
}

// place is where a page ends.
type place struct {
	Updated time.Time `json:"u"`
	ID      string    `json:"i"`
}

// List returns threads of a tenant, the one that moved last first. A thread that
// moves while pages are read is at the front again and may be missed by the
// later ones. Code invalid_argument for a cursor that no page gave.
func (s *Store) List(ctx context.Context, tenant string, opts *ListOptions) (*Page, error) {
	if opts == nil {
		opts = &ListOptions{}
	}
	k, err := keyOf(tenant, "any")
	if err != nil {
		return nil, err
	}
	limit := min(opts.Limit, MaxListLimit)
	if limit < 1 {
		limit = DefaultListLimit
	}
	const columns = `select id, title, created_at, updated_at, head::text, messages, turns, status from {schema}.threads where tenant = $1 `
	statement, args := columns+`order by updated_at desc, id desc limit $2`, []any{k.tenant, limit + 1}
	if opts.Cursor != "" {
		from, err := readCursor(opts.Cursor)
		if err != nil {
			return nil, err
		}
		statement = columns + `and (updated_at, id) < ($3, $4) order by updated_at desc, id desc limit $2`
		args = append(args, from.Updated, from.ID)
	}
	rows, err := s.pool.Query(ctx, s.sql(statement), args...)
	if err != nil {
		return nil, wrap(err, "list threads")
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Thread])
	if err != nil {
		return nil, wrap(err, "list threads")
	}
	page := &Page{Threads: found}
	if len(found) > limit {
		page.Threads = found[:limit]
		last := page.Threads[limit-1]
		page.Next = cursor(place{last.Updated, last.ID})
	}
	return page, nil
}

func cursor(p place) string {
	raw, err := json.Marshal(p)
	if err != nil { // a time of PostgreSQL's beyond the year 9999
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func readCursor(text string) (p place, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil || chat.ValidateID("thread", p.ID, MaxIDBytes) != nil {
		return p, host.Errorf(host.InvalidArgument, "cursor %.40q is none that a list gave", text).WithHint("leave it out to begin again")
	}
	return p, nil
}

// Delete removes a thread with everything that it holds. Code not_found if it
// does not exist. A run in progress creates it again.
func (s *Store) Delete(ctx context.Context, tenant, thread string) error {
	k, err := keyOf(tenant, thread)
	if err != nil {
		return err
	}
	tag, err := s.pool.Exec(ctx, s.sql(`delete from {schema}.threads where tenant = $1 and id = $2`), k.tenant, k.thread)
	if err != nil {
		return wrap(err, "delete thread %q", thread)
	}
	if tag.RowsAffected() == 0 {
		return host.Errorf(host.NotFound, "there is no thread %q", thread)
	}
	return nil
}
