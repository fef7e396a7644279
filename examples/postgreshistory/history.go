package postgreshistory

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// A Store has every ability of a history adapter but branches.
var (
	_ host.ThreadCreator       = (*Store)(nil)
	_ host.UserMessageAppender = (*Store)(nil)
	_ host.HistoryLoader       = (*Store)(nil)
	_ host.ResultAppender      = (*Store)(nil)
	_ host.RoundAppender       = (*Store)(nil)
	_ host.HeadReader          = (*Store)(nil)
	_ host.ThreadLocker        = (*Store)(nil)
	_ host.Regenerator         = (*Store)(nil)
)

// CreateThread implements [host.ThreadCreator]: a thread without an id gets a
// fresh one.
func (s *Store) CreateThread(ctx context.Context, req *host.HistoryRequest) (id string, created bool, err error) {
	id = req.Thread
	if id == "" {
		id = host.NewID()
	}
	k, err := keyOf(req.Tenant, id)
	if err != nil {
		return "", false, err
	}
	tag, err := s.pool.Exec(ctx, s.sql(`insert into {schema}.threads (tenant, id) values ($1, $2) on conflict do nothing`), k.tenant, k.thread)
	if err != nil {
		return "", false, wrap(err, "create thread %q", id)
	}
	return id, tag.RowsAffected() == 1, nil
}

// AppendUserMessage implements [host.UserMessageAppender]. It creates a missing
// thread; the first message with text gives the thread its title. A message
// whose id the thread has is not stored again, and the head stays.
func (s *Store) AppendUserMessage(ctx context.Context, req *host.HistoryRequest) (head string, err error) {
	if req.Input == nil {
		return "", host.Errorf(host.InvalidArgument, "append to thread %q: there is no message", req.Thread)
	}
	err = s.commit(ctx, req, []*host.Message{req.Input}, func(d *draft) error {
		if len(d.unknown) == 0 {
			head = d.headName()
			return errNothing
		}
		if d.title == "" {
			d.title = titleOf(req.Input)
		}
		d.head++
		head = d.headName()
		return nil
	})
	return head, err
}

// Get implements [host.HistoryLoader]: the last messages of the thread, at most
// Options.Window of them, with the message just stored, and the thread's state.
// The window separates no call from its results. An unknown thread is empty.
func (s *Store) Get(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	k, err := keyOf(req.Tenant, req.Thread)
	if err != nil {
		return nil, err
	}
	// One implicit transaction. The head is read before the messages: if another
	// commit comes between, the turn is refused rather than blind.
	b := &pgx.Batch{}
	b.Queue(s.sql(`select tenant, id, head, messages, state::text, providers::text from {schema}.threads where tenant = $1 and id = $2`), k.tenant, k.thread)
	b.Queue(s.sql(`select seq, body::text from (
		select seq, body from {schema}.messages where tenant = $1 and thread = $2 order by seq desc limit $3) m order by seq`),
		k.tenant, k.thread, s.window)
	results := s.pool.SendBatch(ctx, b)
	loaded, err := readThread(results, req)
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, wrap(err, "read thread %q", req.Thread)
	}
	return loaded, nil
}

// ThreadHead implements [host.HeadReader]; an unknown thread has none.
func (s *Store) ThreadHead(ctx context.Context, req *host.HistoryRequest) (string, error) {
	k, err := keyOf(req.Tenant, req.Thread)
	if err != nil {
		return "", err
	}
	var head int64
	err = s.pool.QueryRow(ctx, s.sql(`select head from {schema}.threads where tenant = $1 and id = $2`), k.tenant, k.thread).Scan(&head)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", wrap(err, "read thread %q", req.Thread)
	}
	return strconv.FormatInt(head, 10), nil
}

func readThread(results pgx.BatchResults, req *host.HistoryRequest) (*host.Loaded, error) {
	loaded := &host.Loaded{}
	var head, length int64
	var state, providers []byte
	err := results.QueryRow().Scan(&loaded.Tenant, &loaded.Thread, &head, &length, &state, &providers)
	if errors.Is(err, pgx.ErrNoRows) {
		return &host.Loaded{}, nil
	}
	if err != nil {
		return nil, err
	}
	if req.Tenant == "" {
		loaded.Tenant = ""
	}
	loaded.Head, loaded.State = strconv.FormatInt(head, 10), state
	if providers != nil {
		if err := json.Unmarshal(providers, &loaded.Providers); err != nil {
			return nil, host.Errorf(host.DataLoss, "what context providers keep in thread %q cannot be read: %w", req.Thread, err).WithHint("restore it from a backup")
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var body []byte
		if err := rows.Scan(&seq, &body); err != nil {
			return nil, err
		}
		m := &host.Message{}
		if err := m.UnmarshalJSON(body); err != nil {
			return nil, host.Errorf(host.DataLoss, "message %d of thread %q cannot be read: %w", seq, req.Thread, err).WithHint("restore it from a backup")
		}
		if seq < length {
			loaded.Messages = append(loaded.Messages, m)
		}
	}
	loaded.Messages = wholePairs(loaded.Messages)
	return loaded, rows.Err()
}

// maxPairSpan is how far into a window a result may be whose call was cut off in
// front of it: more than the calls that one answer may make.
const maxPairSpan = 256

// wholePairs drops results from the front of a window whose calls are before
// it.
func wholePairs(messages []*host.Message) []*host.Message {
	called := map[string]bool{}
	start := 0
	for i, m := range messages[:min(len(messages), maxPairSpan)] {
		for _, c := range m.ToolCalls() {
			called[c.ID] = true
		}
		for _, r := range m.ToolResults() {
			if !called[r.ID] {
				start = i + 1
			}
		}
	}
	return messages[start:]
}

// AppendRound implements [host.RoundAppender]: the messages that the thread does
// not have are one transaction. Code conflict if round.Head is not the thread's
// head and there is something to store.
func (s *Store) AppendRound(ctx context.Context, req *host.HistoryRequest, round *host.Round) (head string, err error) {
	err = s.commit(ctx, req, round.Messages, func(d *draft) error {
		switch {
		case len(d.unknown) == 0:
			head = d.headName()
			return errNothing
		case round.Head != "" && round.Head != d.headName():
			return moved(req.Thread)
		}
		d.head++
		head = d.headName()
		return nil
	})
	return head, err
}

// AppendResults implements [host.ResultAppender]: messages, state, artifacts and the
// thread's head are one transaction, of a failed turn too. A turn without state leaves
// the thread's state unchanged. A run is committed once: to commit the same turn again is
// not an error, another turn, by the ids of its messages, is code already_exists. Code
// conflict if turn.Head is not the thread's head; an empty one is no guard.
func (s *Store) AppendResults(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	if err := chat.ValidateID("run", req.Run, MaxIDBytes); err != nil {
		return err
	}
	if len(turn.State) > 0 && !json.Valid(turn.State) {
		return host.Errorf(host.InvalidArgument, "state of thread %q is not JSON", req.Thread)
	}
	return s.commit(ctx, req, turn.Messages(), func(d *draft) error {
		switch {
		case d.stored != nil:
			return d.saidBefore(req, turn)
		case turn.Head != "" && turn.Head != d.headName():
			return moved(req.Thread)
		}
		d.head++
		return d.turn(req, turn)
	})
}
