package postgreshistory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// errNothing is the error of a build without anything to commit.
var errNothing = errors.New("nothing to commit")

// draft is a commit to one thread being put together, while its row is locked.
type draft struct {
	s       *Store
	key     key
	run     string
	unknown []*host.Message // that the thread does not have yet, each once
	stored  []byte          // the results of the run's turn, nil if it has none
	turned  bool            // it adds one

	head, messages, turns int64
	title, status         string
	state                 json.RawMessage // nil leaves it
	providers             json.RawMessage // nil leaves them
	batch                 pgx.Batch       // beside messages and thread
}

func (d *draft) headName() string { return strconv.FormatInt(d.head, 10) }

// commit locks the thread, creating a missing one, lets build change the draft
// and writes it.
func (s *Store) commit(ctx context.Context, req *host.HistoryRequest, messages []*host.Message, build func(*draft) error) error {
	k, err := keyOf(req.Tenant, req.Thread)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := chat.ValidateID("message", m.ID, MaxIDBytes); err != nil {
			return err
		}
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		d := &draft{s: s, key: k, run: req.Run}
		if err := d.read(ctx, tx, messages); err != nil {
			return err
		}
		if err := build(d); err != nil {
			return err
		}
		return d.write(ctx, tx)
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return wrap(err, "write to thread %q", req.Thread)
}

// read locks the thread's row and finds the stored ones among the messages.
// Each statement sees the commits before it, and the first two wait for other
// writers to the thread.
func (d *draft) read(ctx context.Context, tx pgx.Tx, messages []*host.Message) error {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	s, k := d.s, d.key
	b := &pgx.Batch{}
	b.Queue(s.sql(`insert into {schema}.threads (tenant, id) values ($1, $2) on conflict do nothing`), k.tenant, k.thread)
	b.Queue(s.sql(`select head, messages, turns, title, status from {schema}.threads where tenant = $1 and id = $2 for update`), k.tenant, k.thread).
		QueryRow(func(row pgx.Row) error { return row.Scan(&d.head, &d.messages, &d.turns, &d.title, &d.status) })
	known := map[string]bool{}
	b.Queue(s.sql(`select id from {schema}.messages where tenant = $1 and thread = $2 and id = any($3)`), k.tenant, k.thread, ids).
		Query(func(rows pgx.Rows) error {
			var id string
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error { known[id] = true; return nil })
			return err
		})
	b.Queue(s.sql(`select (select results::text from {schema}.turns where tenant = $1 and thread = $2 and run = $3)`), k.tenant, k.thread, plain(d.run)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&d.stored) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	for _, m := range messages {
		if !known[m.ID] {
			known[m.ID] = true
			d.unknown = append(d.unknown, m)
		}
	}
	return nil
}

// write stores the draft.
func (d *draft) write(ctx context.Context, tx pgx.Tx) error {
	k := d.key
	b := &d.batch
	if len(d.unknown) > 0 {
		d.putMessages(b)
	}
	b.Queue(d.s.sql(`update {schema}.threads set head = $3, messages = $4, turns = $5, title = $6, status = $7,
		state = coalesce($8::text::json, state), providers = coalesce($9::text::json, providers), updated_at = greatest(updated_at, clock_timestamp())
		where tenant = $1 and id = $2`),
		k.tenant, k.thread, d.head, d.messages+int64(len(d.unknown)), d.turns, d.title, d.status, textOrNull(d.state), textOrNull(d.providers))
	if d.turned {
		b.Queue(d.s.sql(`update {schema}.turns set
			state_after = coalesce((select state from {schema}.threads where tenant = $1 and id = $2), 'null'::json),
			providers_after = coalesce((select providers from {schema}.threads where tenant = $1 and id = $2), 'null'::json)
			where tenant = $1 and thread = $2 and turn = $3`), k.tenant, k.thread, d.turns)
	}
	return tx.SendBatch(ctx, b).Close()
}

func (d *draft) putMessages(b *pgx.Batch) {
	n := len(d.unknown)
	ids, roles, agents := make([]string, n), make([]string, n), make([]string, n)
	sums, bodies := make([]string, n), make([]string, n)
	for i, m := range d.unknown {
		ids[i], roles[i], agents[i] = m.ID, string(m.Role), plain(m.Agent)
		sums[i], bodies[i] = m.Checksum(), string(m.AppendJSON(nil))
	}
	b.Queue(d.s.sql(`insert into {schema}.messages (tenant, thread, seq, run, id, role, agent, checksum, body)
		select $1, $2, $3::bigint + n - 1, $4, id, role, agent, checksum, body::json
		from unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) with ordinality as m (id, role, agent, checksum, body, n)`),
		d.key.tenant, d.key.thread, d.messages, plain(d.run), ids, roles, agents, sums, bodies)
}

// resultInfo is a [host.Result] without its messages.
type resultInfo struct {
	ID           string            `json:"id"`
	Agent        string            `json:"agent"`
	Checksum     string            `json:"checksum"`
	Messages     []string          `json:"messages"` // their ids
	FinishReason host.FinishReason `json:"finish_reason"`
	Rounds       int               `json:"rounds"`
	Usage        host.Usage        `json:"usage"`
	CreatedAt    time.Time         `json:"created_at"`
}

// saidBefore returns errNothing for the turn that is stored of its run, and code
// already_exists for another one.
func (d *draft) saidBefore(req *host.HistoryRequest, turn *host.Turn) error {
	var infos []resultInfo
	if err := json.Unmarshal(d.stored, &infos); err != nil {
		return host.Errorf(host.DataLoss, "the turn of run %q cannot be read: %w", req.Run, err).WithHint("restore it from a backup")
	}
	var stored, said []string
	for _, r := range infos {
		stored = append(stored, r.Messages...)
	}
	for _, m := range turn.Messages() {
		said = append(said, m.ID)
	}
	if !slices.Equal(stored, said) {
		return host.Errorf(host.AlreadyExists, "thread %q has another turn of run %q", req.Thread, req.Run).
			WithHint("nothing was stored of this one; give each run an id of its own, or none")
	}
	return errNothing
}

// turn adds the turn's record beside messages.
func (d *draft) turn(req *host.HistoryRequest, turn *host.Turn) error {
	d.turns++
	d.turned = true
	d.status, d.state = string(turn.Status), turn.State
	infos := make([]resultInfo, len(turn.Results))
	for i, r := range turn.Results {
		infos[i] = resultInfo{ID: r.ID, Agent: r.Agent, Checksum: r.Checksum(), Messages: []string{},
			FinishReason: r.FinishReason, Rounds: r.Rounds, Usage: r.Usage, CreatedAt: r.CreatedAt}
		for _, m := range r.Messages {
			infos[i].Messages = append(infos[i].Messages, m.ID)
		}
	}
	if turn.Providers != nil {
		raw, err := json.Marshal(turn.Providers)
		if err != nil {
			return host.Errorf(host.InvalidArgument, "the states of context providers of thread %q: %w", req.Thread, err)
		}
		d.providers = raw
	}
	results, err1 := json.Marshal(infos)
	usage, err2 := json.Marshal(turn.Usage)
	var failure []byte
	var err3 error
	if turn.Error != nil {
		failure, err3 = json.Marshal(turn.Error)
	}
	if err := cmp.Or(err1, err2, err3); err != nil {
		return host.Errorf(host.Internal, "encode the turn of run %q: %w", req.Run, err)
	}
	k := d.key
	d.batch.Queue(d.s.sql(`insert into {schema}.turns (tenant, thread, run, turn, network, messages, status, error, usage, results)
		values ($1, $2, $3, $4, $5, $6, $7, $8::text::json, $9::text::json, $10::text::json)`),
		k.tenant, k.thread, plain(req.Run), d.turns, plain(req.Network), d.messages+int64(len(d.unknown)),
		d.status, textOrNull(failure), string(usage), string(results))
	for i := range turn.Artifacts {
		a := &turn.Artifacts[i]
		body, err := a.MarshalJSON()
		if err != nil {
			return host.Errorf(host.InvalidArgument, "artifact %q cannot be stored: %w", a.Name, err)
		}
		d.batch.Queue(d.s.sql(`insert into {schema}.artifacts (tenant, thread, turn, number, name, body)
			values ($1, $2, $3, $4, $5, $6::text::json)`), k.tenant, k.thread, d.turns, i, plain(a.Name), string(body))
	}
	return nil
}

func textOrNull(raw []byte) *string {
	if len(raw) == 0 {
		return nil
	}
	text := string(raw)
	return &text
}
