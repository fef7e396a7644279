package redismessages

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// Store keeps the messages of one thread. Safe for concurrent use, in any number
// of processes.
type Store struct {
	stores *Stores
	thread string
	key    string
}

var (
	_ host.MessageStore   = (*Store)(nil)
	_ host.MessageClearer = (*Store)(nil)
)

// errThere says that the list already has the messages to add.
var errThere = errors.New("the list ends with it")

// AddMessages implements [host.MessageStore]: appending, and trimming to
// Options.MaxMessages, are one transaction.
func (s *Store) AddMessages(ctx context.Context, messages []*host.Message) error {
	if err := ctx.Err(); err != nil {
		return wrap(fault.ContextError(ctx), "add to thread %q", s.thread)
	}
	if len(messages) == 0 {
		return nil
	}
	for range maxAttempts {
		err := s.stores.client.Watch(ctx, func(tx *redis.Tx) error { return s.add(ctx, tx, messages) }, s.key)
		if errors.Is(err, redis.TxFailedErr) && ctx.Err() == nil {
			continue
		}
		if errors.Is(err, errThere) {
			return nil
		}
		return wrap(err, "add to thread %q", s.thread)
	}
	return host.Errorf(host.Conflict, "add to thread %q: %d times another writer was faster", s.thread, maxAttempts)
}

func (s *Store) add(ctx context.Context, tx *redis.Tx, messages []*host.Message) error {
	elements := make([]any, len(messages))
	for i, m := range messages {
		elements[i] = m.AppendJSON(nil)
	}
	end, length, err := s.end(ctx, tx, len(messages))
	if err != nil {
		return err
	}
	if slices.EqualFunc(end, elements, func(a string, b any) bool { return a == string(b.([]byte)) }) {
		return errThere
	}
	from, system, err := s.cut(ctx, tx, messages, length)
	if err != nil {
		return err
	}
	cmds, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.RPush(ctx, s.key, elements...)
		if from > 0 {
			p.LTrim(ctx, s.key, int64(from), -1)
		}
		if system != nil {
			p.LPush(ctx, s.key, system.AppendJSON(nil))
		}
		return nil
	})
	return abortCause(cmds, err)
}

// end returns the last n elements of the list, and its length.
func (s *Store) end(ctx context.Context, c redis.Cmdable, n int) ([]string, int, error) {
	var end *redis.StringSliceCmd
	var length *redis.IntCmd
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		end, length = p.LRange(ctx, s.key, int64(-n), -1), p.LLen(ctx, s.key)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return end.Val(), int(length.Val()), nil
}

// cut returns how many elements go when messages have been added, and the system
// message if it is one of them and has to come back. An unreadable element
// counts like any message.
func (s *Store) cut(ctx context.Context, c redis.Cmdable, messages []*host.Message, length int) (from int, system *host.Message, err error) {
	limit := s.stores.opts.MaxMessages
	if limit == 0 || length+len(messages) <= limit {
		return 0, nil, nil
	}
	elements, err := c.LRange(ctx, s.key, 0, -1).Result()
	if err != nil {
		return 0, nil, err
	}
	all := make([]*host.Message, len(elements), len(elements)+len(messages))
	for i, e := range elements {
		m := &host.Message{}
		if m.UnmarshalJSON([]byte(e)) != nil {
			m = &host.Message{Role: host.User}
		}
		all[i] = m
	}
	all = append(all, messages...)
	kept := host.KeepNewest(all, limit)
	if len(kept) == len(all) {
		return 0, nil, nil
	}
	if kept[0].Role == host.System && kept[0] != all[len(all)-len(kept)] {
		return len(all) - len(kept) + 1, kept[0], nil
	}
	return len(all) - len(kept), nil, nil
}

// ListMessages implements [host.MessageStore]: at most Options.Window messages,
// from the end. The window parts no call from its results.
func (s *Store) ListMessages(ctx context.Context) ([]*host.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, wrap(fault.ContextError(ctx), "list thread %q", s.thread)
	}
	window := s.stores.opts.Window
	var first, end *redis.StringSliceCmd
	var length *redis.IntCmd
	_, err := s.stores.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		first, end, length = p.LRange(ctx, s.key, 0, 0), p.LRange(ctx, s.key, int64(-window-pairSpan), -1), p.LLen(ctx, s.key)
		return nil
	})
	if err != nil {
		return nil, wrap(err, "list thread %q", s.thread)
	}
	elements, at := end.Val(), int(length.Val())-len(end.Val())
	if at > 0 {
		var m host.Message
		if m.UnmarshalJSON([]byte(first.Val()[0])) == nil && m.Role == host.System {
			elements = append(first.Val(), elements...)
		}
	}
	list := make([]*host.Message, 0, len(elements))
	for i, e := range elements {
		m := &host.Message{}
		if err := m.UnmarshalJSON([]byte(e)); err == nil {
			list = append(list, m)
		} else if !s.stores.opts.SkipUnreadable {
			return nil, host.Errorf(host.DataLoss, "message %d of thread %q cannot be read: %w", at+i, s.thread, err).
				WithHint("repair or remove it, or open the stores with SkipUnreadable")
		} else {
			s.stores.opts.Logger.WarnContext(ctx, "a stored message cannot be read and is left out", "thread", s.thread, "message", at+i, "error", err)
		}
	}
	return host.KeepNewest(list, window), nil
}

// Serialize implements [host.MessageStore]: the id and the prefix, and nothing of
// where the server is.
func (s *Store) Serialize(context.Context) (json.RawMessage, error) {
	return json.Marshal(state{&s.thread, &s.stores.opts.KeyPrefix})
}

// ClearMessages implements [host.MessageClearer].
func (s *Store) ClearMessages(ctx context.Context) error {
	return wrap(s.stores.client.Del(ctx, s.key).Err(), "clear thread %q", s.thread)
}
