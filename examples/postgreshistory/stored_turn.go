package postgreshistory

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

var _ host.TurnReader = (*Store)(nil)

// ReadTurn implements [host.TurnReader]: the completed turn that answered a message,
// by its id. A turn answers a message if its messages stand behind that one and
// before the user's next one. The state of a turn stored before the tables had a
// state for each turn is unknown, and empty.
func (s *Store) ReadTurn(ctx context.Context, req *host.HistoryRequest) (*host.StoredTurn, error) {
	if req.Input == nil {
		return nil, nil
	}
	k, err := keyOf(req.Tenant, req.Thread)
	if err != nil {
		return nil, err
	}
	stored, err := s.readTurn(ctx, k, req)
	return stored, wrap(err, "read the answer to message %q of thread %q", req.Input.ID, req.Thread)
}

func (s *Store) readTurn(ctx context.Context, k key, req *host.HistoryRequest) (*host.StoredTurn, error) {
	var seq int64
	var body []byte
	err := s.pool.QueryRow(ctx, s.sql(`select seq, body::text from {schema}.messages where tenant = $1 and thread = $2 and id = $3`),
		k.tenant, k.thread, plain(req.Input.ID)).Scan(&seq, &body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &host.Message{}
	if err := m.UnmarshalJSON(body); err != nil {
		return nil, unreadable(k, err)
	}
	if !m.SameContent(req.Input) {
		return nil, host.Errorf(host.Conflict, "thread %q has a message %q that says something else", req.Thread, req.Input.ID).
			WithHint("leave the id out for a fresh one")
	}
	out := &host.StoredTurn{}
	var number int64
	var status string
	var results, state []byte
	err = s.pool.QueryRow(ctx, s.sql(`select run, turn, status, results::text, state_after::text from {schema}.turns
		where tenant = $1 and thread = $2 and network = $3 and taken_back is null
		and messages > $4 and messages <= coalesce((select seq from {schema}.messages where tenant = $1 and thread = $2 and seq > $4 and role = $5 order by seq limit 1), messages)
		and error is null and status <> all($6) order by turn limit 1`),
		k.tenant, k.thread, plain(req.Network), seq+1, string(host.User),
		[]string{string(chat.FinishFailed), string(chat.FinishCanceled), string(chat.FinishInterrupted)}).Scan(&out.Run, &number, &status, &results, &state)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out.Status = host.FinishReason(status)
	if string(state) != "null" {
		out.State = state
	}
	var infos []resultInfo
	if err := json.Unmarshal(results, &infos); err != nil {
		return nil, unreadable(k, err)
	}
	if whole, err := s.readResults(ctx, k, infos, out); err != nil || !whole {
		return nil, err
	}
	return out, s.readArtifacts(ctx, k, number, out)
}

func unreadable(k key, err error) error {
	return host.Errorf(host.DataLoss, "a turn of thread %q cannot be read: %w", k.thread, err).WithHint("restore it from a backup")
}

// readResults reads the messages of a turn, and reports whether all are there.
func (s *Store) readResults(ctx context.Context, k key, infos []resultInfo, out *host.StoredTurn) (whole bool, err error) {
	var ids []string
	for _, info := range infos {
		ids = append(ids, info.Messages...)
	}
	rows, err := s.pool.Query(ctx, s.sql(`select id, body::text from {schema}.messages where tenant = $1 and thread = $2 and id = any($3)`), k.tenant, k.thread, ids)
	if err != nil {
		return false, err
	}
	messages := map[string]*host.Message{}
	var id string
	var body []byte
	if _, err := pgx.ForEachRow(rows, []any{&id, &body}, func() error {
		m := &host.Message{}
		if err := m.UnmarshalJSON(body); err != nil {
			return unreadable(k, err)
		}
		messages[id] = m
		return nil
	}); err != nil {
		return false, err
	}
	for _, info := range infos {
		r := &host.Result{ID: info.ID, Agent: info.Agent, FinishReason: info.FinishReason, Rounds: info.Rounds, Usage: info.Usage, CreatedAt: info.CreatedAt}
		for _, id := range info.Messages {
			if messages[id] == nil {
				return false, nil
			}
			r.Messages = append(r.Messages, messages[id])
		}
		out.Results = append(out.Results, r)
	}
	return len(ids) > 0, nil
}

func (s *Store) readArtifacts(ctx context.Context, k key, turn int64, out *host.StoredTurn) error {
	rows, err := s.pool.Query(ctx, s.sql(`select body::text from {schema}.artifacts where tenant = $1 and thread = $2 and turn = $3 order by number`), k.tenant, k.thread, turn)
	if err != nil {
		return err
	}
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&body}, func() error {
		var a host.Artifact
		if err := a.UnmarshalJSON(body); err != nil {
			return unreadable(k, err)
		}
		out.Artifacts = append(out.Artifacts, a)
		return nil
	})
	return err
}
