package postgreshistory

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// Regenerate implements [host.Regenerator]: the messages after the given one move
// to the table taken_back, and the state becomes that of the last turn before it.
// A thread whose last turn is older than that table keeps its state. The store
// keeps no branches, so a run cannot answer on one.
func (s *Store) Regenerate(ctx context.Context, req *host.HistoryRequest, message string) (head string, err error) {
	k, err := keyOf(req.Tenant, req.Thread)
	if err != nil {
		return "", err
	}
	if err := chat.ValidateID("message", message, MaxIDBytes); err != nil {
		return "", err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		d := &draft{s: s, key: k}
		last, err := d.find(ctx, tx, message)
		if err != nil {
			return err
		}
		if last+1 < d.messages {
			d.head++
			err = d.takeBack(ctx, tx, last)
		}
		head = d.headName()
		return err
	})
	return head, wrap(err, "take back what followed message %q of thread %q", message, req.Thread)
}

// find locks the thread and returns where its user's message of an id is.
func (d *draft) find(ctx context.Context, tx pgx.Tx, message string) (seq int64, err error) {
	k := d.key
	err = tx.QueryRow(ctx, d.s.sql(`select head, messages from {schema}.threads where tenant = $1 and id = $2 for update`),
		k.tenant, k.thread).Scan(&d.head, &d.messages)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, host.Errorf(host.NotFound, "there is no thread %q", k.thread)
	}
	if err != nil {
		return 0, err
	}
	var role string
	err = tx.QueryRow(ctx, d.s.sql(`select seq, role from {schema}.messages where tenant = $1 and thread = $2 and id = $3`),
		k.tenant, k.thread, message).Scan(&seq, &role)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, host.Errorf(host.NotFound, "thread %q has no message %q", k.thread, message)
	case err == nil && role != string(host.User):
		return 0, host.Errorf(host.InvalidArgument, "message %q of thread %q is the %s's, and only a user's can be answered", message, k.thread, role)
	}
	return seq, err
}

// takeBack makes the message at a position the thread's last.
func (d *draft) takeBack(ctx context.Context, tx pgx.Tx, last int64) error {
	k, b := d.key, &pgx.Batch{}
	b.Queue(d.s.sql(`with gone as (delete from {schema}.messages where tenant = $1 and thread = $2 and seq > $3 returning *)
		insert into {schema}.taken_back (tenant, thread, head, seq, id, run, role, agent, checksum, body, stored_at)
		select tenant, thread, $4, seq, id, run, role, agent, checksum, body, stored_at from gone`), k.tenant, k.thread, last, d.head)
	b.Queue(d.s.sql(`update {schema}.turns set taken_back = $4 where tenant = $1 and thread = $2 and taken_back is null and messages > $3`),
		k.tenant, k.thread, last, d.head)
	b.Queue(d.s.sql(`delete from {schema}.artifacts a using {schema}.turns t
		where a.tenant = $1 and a.thread = $2 and t.tenant = $1 and t.thread = $2 and t.turn = a.turn and t.taken_back = $3`),
		k.tenant, k.thread, d.head)
	b.Queue(d.s.sql(`with kept as (select state_after, providers_after, status from {schema}.turns
			where tenant = $1 and thread = $2 and taken_back is null order by turn desc limit 1)
		update {schema}.threads set head = $3, messages = $4, updated_at = greatest(updated_at, clock_timestamp()),
			status = coalesce((select status from kept), ''),
			state = case when not exists (select from kept) then null
				when (select state_after from kept) is null then state
				when (select state_after::text from kept) = 'null' then null
				else (select state_after from kept) end,
			providers = case when not exists (select from kept) then null
				when (select providers_after from kept) is null then providers
				when (select providers_after::text from kept) = 'null' then null
				else (select providers_after from kept) end
		where tenant = $1 and id = $2`), k.tenant, k.thread, d.head, last+1)
	return tx.SendBatch(ctx, b).Close()
}
